#include "common/wire/server_calls.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// A reply that passes on at most one result, and passes on INTERNAL if it is destroyed uncalled.
// Thread-compatible.
class GuardedReply {
 public:
  GuardedReply(absl::string_view method, Reply target)
      : method_(method), target_(std::move(target)) {}
  GuardedReply(GuardedReply&& other) noexcept
      : method_(std::move(other.method_)), target_(std::exchange(other.target_, nullptr)) {}
  GuardedReply& operator=(GuardedReply&&) = delete;

  ~GuardedReply() {
    if (target_ == nullptr) return;
    target_(absl::InternalError(absl::StrCat("the handler of ", method_, " dropped its reply")));
  }

  void operator()(absl::StatusOr<Message> result) {
    if (target_ == nullptr) return;
    // `target_` is emptied before the target is called, because the target may destroy this object.
    Reply target = std::exchange(target_, nullptr);
    target(std::move(result));
  }

 private:
  std::string method_;
  Reply target_;
};

}  // namespace

Reply GuardReply(absl::string_view method, Reply target) {
  return GuardedReply(method, std::move(target));
}

void ServerCalls::AskForRoom(const std::string& method, size_t bytes, ByteBudget::Granted granted) {
  if (ByteBudget* const budget = methods_.ReceiveBudgetOf(method)) {
    return budget->Ask(bytes, std::move(granted));
  }
  granted(nullptr);
}

ByteBudget::Room ServerCalls::TakeRoom(const std::string& method, size_t bytes) {
  // A request without a payload needs no room in the budget, even if the budget is exhausted.
  ByteBudget* const budget = bytes > 0 ? methods_.ReceiveBudgetOf(method) : nullptr;
  return budget == nullptr ? nullptr : budget->Take(bytes);
}

std::shared_ptr<ReceivePlace> ServerCalls::PlaceFor(const std::string& method,
                                                    absl::string_view header, size_t bytes) const {
  const FindPlace* const find = methods_.FindPlaceOf(method);
  return find == nullptr ? nullptr : (*find)(header, bytes);
}

void ServerCalls::Handle(std::shared_ptr<OpenCall> call, const std::string& method,
                         absl::StatusOr<Message> request) {
  if (!Add(call)) {
    if (call->Claim()) call->Stop("the server is stopping");
    return;
  }
  // The reply holds this object weakly: a service may keep replies, this object keeps the service,
  // and the two would keep each other alive.
  Reply reply = [weak = weak_from_this(), call](absl::StatusOr<Message> result) {
    // The deadline, a cancel or Stop may have ended the call already.
    if (!call->Claim()) return;
    // The request's room in the budget is given back before the caller learns of the answer and
    // sends its next request.
    call->DropRoom();
    call->Finish(std::move(result));
    if (const auto self = weak.lock()) self->Remove(call);
  };
  if (const Handler* const handler = methods_.Find(method); handler == nullptr) {
    reply(UnknownMethod(method, address_));
  } else if (!request.ok()) {
    reply(std::move(request).status());
  } else {
    (*handler)(*std::move(request), GuardReply(method, std::move(reply)));
  }
  HandlerReturned();
}

bool ServerCalls::Add(const std::shared_ptr<OpenCall>& call) {
  MutexLock lock(mutex_);
  if (!accepting_) return false;
  open_.insert(call);
  ++running_;
  return true;
}

void ServerCalls::Remove(const std::shared_ptr<OpenCall>& call) {
  MutexLock lock(mutex_);
  open_.erase(call);
  if (open_.empty() && !accepting_) changed_.NotifyAll();
}

void ServerCalls::HandlerReturned() {
  MutexLock lock(mutex_);
  if (--running_ == 0 && !accepting_) changed_.NotifyAll();
}

void ServerCalls::Drain(absl::Duration grace) {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(BoundedWait(grace));
  MutexLock lock(mutex_);
  accepting_ = false;
  while (!open_.empty()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return;
    changed_.WaitFor(mutex_, absl::FromChrono(left));
  }
}

void ServerCalls::Stop() {
  std::set<std::shared_ptr<OpenCall>> open;
  {
    MutexLock lock(mutex_);
    accepting_ = false;
    open.swap(open_);
  }
  // The calls are stopped outside the lock, because OpenCall::Stop may run code of the transport.
  for (const std::shared_ptr<OpenCall>& call : open) {
    if (call->Claim()) call->Stop(absl::StrCat("the server at ", address_, " stopped"));
  }
  // Stop waits for running handlers, because a handler uses this object and its service.
  MutexLock lock(mutex_);
  while (running_ > 0) changed_.Wait(mutex_);
}

}  // namespace cohort
