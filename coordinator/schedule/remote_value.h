#pragma once

// The future result of one closure: the tensors that its program fetches. The result is ready when
// the closure has ended. From then on it holds the tensors or the error for good, even if the
// worker that made the tensors dies.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"

namespace cohort {

using FetchedTensors = std::vector<Tensor>;

// The result of one closure, which may not be there yet. Thread-safe.
class RemoteValueState {
 public:
  using Callback = std::function<void(const absl::StatusOr<FetchedTensors>&)>;

  // Sets the result. The first call wins; the results of later calls are dropped.
  void Set(absl::StatusOr<FetchedTensors> result);
  bool IsReady() const;
  // Runs `callback` once the result is ready, or at once if it is ready already.
  void OnReady(Callback callback);
  const Event& event() const { return ready_; }
  // Returns the result. The caller must have waited for event().
  const absl::StatusOr<FetchedTensors>& result() const;

 private:
  Event ready_;  // the event needs no lock: it synchronizes itself
  mutable Mutex mutex_;
  absl::StatusOr<FetchedTensors> result_ ABSL_GUARDED_BY(mutex_);
  std::vector<Callback> callbacks_ ABSL_GUARDED_BY(mutex_);
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
};

// A handle to the result of a closure; copies share the result. If all copies are dropped before
// the closure is sent to a worker, the worker does not send the fetched tensors. Thread-safe.
class RemoteValue {
 public:
  RemoteValue() = default;
  // Makes a handle; `owner` is the incarnation of the coordinator that scheduled the closure.
  RemoteValue(std::shared_ptr<RemoteValueState> state, uint64_t owner)
      : state_(std::move(state)), owner_(owner) {}

  bool has_value() const { return state_ != nullptr; }
  uint64_t owner() const { return owner_; }
  RemoteValueState& state() const { return *state_; }

 private:
  // The state of the result, shared with copies of this handle. The closure itself holds a weak
  // pointer.
  std::shared_ptr<RemoteValueState> state_;
  uint64_t owner_ = 0;
};

}  // namespace cohort
