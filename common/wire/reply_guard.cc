#include "common/wire/reply_guard.h"

#include <string>

namespace cohort {

namespace {

// A reply that is sent at most once, and answers INTERNAL if it is destroyed unsent.
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
    // The guard is emptied before the call, because the target may destroy this object.
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

}  // namespace cohort
