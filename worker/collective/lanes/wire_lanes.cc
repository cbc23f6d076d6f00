#include "worker/collective/lanes/wire_lanes.h"

#include <utility>

#include "common/base/rng.h"
#include "common/wire/open_calls.h"
#include "common/wire/typed_call.h"
#include "proto/collective.pb.h"

namespace cohort {

namespace {

constexpr absl::string_view kDeliver = "/cohort.proto.CollectiveService/Deliver";
constexpr absl::string_view kAbortGroup = "/cohort.proto.CollectiveService/AbortGroup";
constexpr absl::string_view kWatch = "/cohort.proto.CollectiveService/WatchGroup";
constexpr absl::string_view kAskProgress = "/cohort.proto.CollectiveService/AskProgress";

// The lanes of one rank, as RPCs over a Transport. Thread-safe.
class WireLanes final : public PeerLinks {
 public:
  WireLanes(Transport& transport, const WireLanesOptions& options) {
    member_.set_generation(options.group.generation);
    member_.set_group(GroupHash(options.group));
    member_.set_rank(static_cast<uint32_t>(options.rank));
    for (size_t rank = 0; rank < options.addresses.size(); ++rank) {
      const bool self = rank == static_cast<size_t>(options.rank);
      const std::string& address = options.addresses[rank];
      // An abort travels on the control channel, so that it never waits behind the tensors on the
      // data channel.
      data_.push_back(self ? nullptr : transport.Connect(address, Lane::kFrames));
      control_.push_back(self ? nullptr : transport.Connect(address, Lane::kControl));
    }
  }
  ~WireLanes() override { watches_->CancelAll(); }

  void Send(int to, CollectiveFrame frame, Consumed consumed) override {
    Envelope<proto::DeliverRequest> request;
    *request.header.mutable_from() = member_;
    request.header.set_sequence(frame.sequence);
    request.header.set_fingerprint(frame.fingerprint);
    request.header.set_tag(frame.tag);
    request.header.set_call(std::move(frame.call));
    request.header.set_answer_may_wait(frame.answer_may_wait);
    request.payload = std::move(frame.payload);
    // The RPC is entered in frames_ before it starts, because it may end inside StartCall().
    const uint64_t id = frames_->Enter();
    frames_->Started(
        id,
        StartCall<proto::DeliverResponse>(
            *data_[static_cast<size_t>(to)], kDeliver, std::move(request), absl::InfiniteDuration(),
            [frames = frames_, id, consumed = std::move(consumed)](
                absl::StatusOr<Envelope<proto::DeliverResponse>> response) mutable {
              frames->Ended(id);
              consumed(response.status());
            }));
  }

  void CancelFrames() override { frames_->CancelAll(); }

  void SendAbort(int to, const AbortCause& cause, absl::Duration wait, CauseReply reply) override {
    Envelope<proto::AbortGroupRequest> request;
    *request.header.mutable_from() = member_;
    *request.header.mutable_cause() = ToProto(cause);
    StartCall<proto::AbortGroupResponse>(
        *control_[static_cast<size_t>(to)], kAbortGroup, std::move(request), wait,
        [reply = std::move(reply)](
            absl::StatusOr<Envelope<proto::AbortGroupResponse>> response) mutable {
          if (!response.ok()) return reply(response.status());
          reply(FromProto(response->header.cause()));
        });
  }

  void Watch(int rank, LeftReply left) override {
    Envelope<proto::WatchGroupRequest> request;
    *request.header.mutable_from() = member_;
    const uint64_t id = watches_->Enter();
    auto ended = [watches = watches_, id, left = std::move(left)](
                     absl::StatusOr<Envelope<proto::WatchGroupResponse>> response) mutable {
      watches->Ended(id);
      if (!response.ok()) return left(response.status());
      RankLeft how{response->header.calls_started(), {}};
      if (response->header.has_cause()) how.cause = FromProto(response->header.cause());
      left(std::move(how));
    };
    watches_->Started(id, StartCall<proto::WatchGroupResponse>(
                              *control_[static_cast<size_t>(rank)], kWatch, std::move(request),
                              absl::InfiniteDuration(), std::move(ended)));
  }

  void AskProgress(int rank, absl::Duration wait, ProgressReply reply) override {
    Envelope<proto::AskProgressRequest> request;
    *request.header.mutable_from() = member_;
    StartCall<proto::AskProgressResponse>(
        *control_[static_cast<size_t>(rank)], kAskProgress, std::move(request), wait,
        [reply = std::move(reply)](
            absl::StatusOr<Envelope<proto::AskProgressResponse>> response) mutable {
          if (!response.ok()) return reply(response.status());
          reply(RankProgress{response->header.calls_started(), response->header.last_done()});
        });
  }

 private:
  proto::GroupMember member_;  // this rank, its group and generation, for every request; constant
  std::vector<std::shared_ptr<Channel>> data_;  // channel for frames to each rank; constant
  // Channel for all other messages to each rank; constant.
  std::vector<std::shared_ptr<Channel>> control_;
  // The RPCs under way; shared with their callbacks, which may run after this object is destroyed.
  const std::shared_ptr<OpenCalls> frames_ = std::make_shared<OpenCalls>();
  const std::shared_ptr<OpenCalls> watches_ = std::make_shared<OpenCalls>();
};

}  // namespace

uint64_t GroupHash(const GroupName& group) { return StableHash(group.name); }

std::unique_ptr<PeerLinks> MakeWireLanes(Transport& transport, WireLanesOptions options) {
  return std::make_unique<WireLanes>(transport, options);
}

}  // namespace cohort
