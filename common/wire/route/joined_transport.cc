#include "common/wire/route/joined_transport.h"

#include <map>
#include <utility>

#include "common/base/mutex.h"

namespace cohort {

// The calls of one transport whose completion has not returned. Thread-safe.
class JoinedTransport::OpenCalls {
 public:
  uint64_t Begin() {
    MutexLock lock(mutex_);
    calls_.emplace(++last_, nullptr);
    return last_;
  }

  // Stores the handle of a call that Begin has registered, unless the call has ended. Cancels the
  // call if the transport is ending.
  void Started(uint64_t id, std::shared_ptr<Call> call) {
    {
      MutexLock lock(mutex_);
      const auto found = calls_.find(id);
      if (found == calls_.end()) return;
      found->second = call;
      if (!ending_) return;
    }
    // The call is cancelled outside the lock, because its completion calls End, which takes the
    // lock.
    call->Cancel();
  }

  void End(uint64_t id) {
    std::shared_ptr<Call> ended;  // declared before the lock, so destroyed after it
    MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    ended = std::move(found->second);
    calls_.erase(found);
    if (calls_.empty()) none_.NotifyAll();
  }

  void CancelAndWait() {
    std::map<uint64_t, std::shared_ptr<Call>> open;
    {
      MutexLock lock(mutex_);
      ending_ = true;
      open = calls_;
    }
    // The calls are cancelled outside the lock, because their completions call End, which takes the
    // lock.
    for (const auto& [id, call] : open) {
      if (call != nullptr) call->Cancel();
    }
    MutexLock lock(mutex_);
    while (!calls_.empty()) none_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar none_;
  // The open calls' handles, by id. A handle is null while its call is being started.
  std::map<uint64_t, std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
};

// A channel that registers each call with OpenCalls before it starts the call. Thread-safe.
class JoinedTransport::JoinedChannel final : public Channel {
 public:
  JoinedChannel(std::shared_ptr<OpenCalls> calls, std::shared_ptr<Channel> inner)
      : calls_(std::move(calls)), inner_(std::move(inner)) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    // The completion may destroy this channel before Start returns, so Start needs its own pointer
    // to the calls.
    const std::shared_ptr<OpenCalls> calls = calls_;
    const uint64_t id = calls->Begin();
    std::shared_ptr<Call> call =
        inner_->Start(method, std::move(request), timeout,
                      [calls, id, done = std::move(done)](absl::StatusOr<Message> result) mutable {
                        // `done` and the objects that it holds are destroyed before the call counts
                        // as ended.
                        std::exchange(done, nullptr)(std::move(result));
                        calls->End(id);
                      });
    calls->Started(id, call);
    return std::make_unique<SharedCall>(std::move(call));
  }

  absl::Duration SinceProgress() const override { return inner_->SinceProgress(); }

 private:
  class SharedCall final : public Call {
   public:
    explicit SharedCall(std::shared_ptr<Call> call) : call_(std::move(call)) {}
    void Cancel() override { call_->Cancel(); }

   private:
    const std::shared_ptr<Call> call_;  // the call's handle, shared with OpenCalls
  };

  const std::shared_ptr<OpenCalls> calls_;  // the open calls, shared with the JoinedTransport
  const std::shared_ptr<Channel> inner_;
};

JoinedTransport::JoinedTransport(std::unique_ptr<Transport> inner)
    : inner_(std::move(inner)), calls_(std::make_shared<OpenCalls>()) {}

JoinedTransport::~JoinedTransport() { EndCalls(); }

void JoinedTransport::EndCalls() { calls_->CancelAndWait(); }

absl::StatusOr<std::unique_ptr<Server>> JoinedTransport::Listen(const std::string& address,
                                                                std::vector<Service> services) {
  return inner_->Listen(address, std::move(services));
}

std::shared_ptr<Channel> JoinedTransport::Connect(const std::string& address, Lane lane) {
  return std::make_shared<JoinedChannel>(calls_, inner_->Connect(address, lane));
}

}  // namespace cohort
