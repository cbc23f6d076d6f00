#include "coordinator/schedule/gang_channel.h"

#include <utility>

#include "common/base/mutex.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/outcome.h"
#include "proto/worker.pb.h"

namespace cohort {

namespace {

constexpr char kRunClosure[] = "/cohort.proto.WorkerService/RunClosure";
constexpr char kEndGangs[] = "/cohort.proto.WorkerService/EndGangs";
// A member that does not hear of it is lost, which its connection finds out.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);

// Which of two errors says more; the lower one.
int RankOf(const absl::Status& status) {
  switch (ClassifyOutcome(status)) {
    case Outcome::kFailed: return 0;
    case Outcome::kExpired: return 1;
    case Outcome::kWorkerLost: return 2;
    case Outcome::kPsLost: return 3;
    case Outcome::kForgotten: return 4;
    case Outcome::kTransient: return 5;
    case Outcome::kDone: return 6;
  }
  return 6;
}

// One call to all members. Thread-safe. Shared with the calls.
class GangCall : public std::enable_shared_from_this<GangCall> {
 public:
  GangCall(std::vector<GangMember> members, absl::string_view method, Message request, Reply done)
      : members_(std::move(members)),
        method_(method),
        request_(std::move(request)),
        done_(std::move(done)),
        open_(members_.size(), 1),
        left_(members_.size()) {}

  void Start(absl::Duration timeout) {
    for (size_t i = 0; i < members_.size(); ++i) {
      members_[i].channel->Start(method_, request_, timeout,
                                 [self = shared_from_this(), i](absl::StatusOr<Message> answer) {
                                   self->Answered(i, std::move(answer));
                                 });
    }
  }

 private:
  void Answered(size_t member, absl::StatusOr<Message> answer) {
    const absl::Status status = AttributedCall(answer.status(), members_[member].task);
    std::vector<size_t> to_tell;
    bool last = false;
    {
      MutexLock lock(mutex_);
      open_[member] = false;
      if (!status.ok()) {
        if (error_.ok()) {
          for (size_t i = 0; i < members_.size(); ++i) {
            if (open_[i]) to_tell.push_back(i);
          }
        }
        if (RankOf(status) < RankOf(error_)) error_ = status;
      } else if (member == 0) {
        first_ = *std::move(answer);
      }
      last = --left_ == 0;
    }
    if (method_ == kRunClosure) {
      for (const size_t i : to_tell) Tell(i, status);
    }
    if (last) Finish();
  }

  void Tell(size_t member, const absl::Status& why) {
    proto::RunClosureRequest header;
    if (!header.ParseFromString(request_.header)) return;
    Envelope<proto::EndGangsRequest> request;
    request.header.set_epoch(header.epoch());
    *request.header.mutable_gang() = header.gang();
    request.header.set_code(static_cast<int32_t>(why.code()));
    request.header.set_message(std::string(why.message()));
    *request.header.mutable_detail() = DetailOf(why);
    StartCall<proto::EndGangsResponse>(
        *members_[member].channel, kEndGangs, std::move(request), kEndTimeout,
        [](const absl::StatusOr<Envelope<proto::EndGangsResponse>>&) {});
  }

  void Finish() {
    absl::StatusOr<Message> result = absl::UnknownError("");
    {
      MutexLock lock(mutex_);
      if (error_.ok()) {
        result = std::move(first_);
      } else {
        result = error_;
      }
    }
    done_(std::move(result));
  }

  const std::vector<GangMember> members_;
  const std::string method_;
  const Message request_;  // the same for all
  Reply done_;             // of the answer that comes last
  Mutex mutex_;
  std::vector<char> open_ ABSL_GUARDED_BY(mutex_);  // whether a member has not answered
  size_t left_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  Message first_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Call> GangChannel::Start(absl::string_view method, Message request,
                                         absl::Duration timeout, Reply done) {
  std::make_shared<GangCall>(members_, method, std::move(request), std::move(done))
      ->Start(timeout);
  return nullptr;
}

}  // namespace cohort
