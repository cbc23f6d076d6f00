#pragma once

// The future result of one closure: the tensors that its program fetches. It is not ready until the
// closure ended; then it holds the tensors or the error for good, also when the worker that made
// them has died.

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

// Thread-safe.
class RemoteValueState {
 public:
  using Callback = std::function<void(const absl::StatusOr<FetchedTensors>&)>;

  // Sets the result; the first one wins, and a later one is dropped.
  void Set(absl::StatusOr<FetchedTensors> result);
  bool IsReady() const;
  // Runs `callback` when the result is there: now, if it already is.
  void OnReady(Callback callback);
  const Event& event() const { return ready_; }
  // Returns the result. Must not be called before event() has happened.
  const absl::StatusOr<FetchedTensors>& result() const;

 private:
  Event ready_;  // synchronises itself
  mutable Mutex mutex_;
  absl::StatusOr<FetchedTensors> result_ ABSL_GUARDED_BY(mutex_);
  std::vector<Callback> callbacks_ ABSL_GUARDED_BY(mutex_);
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
};

// Handle; copies share the value. As long as one lives, the result travels to the coordinator; when
// all are dropped before the closure ends, it does not. Thread-safe.
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
  // Shared with the caller's copies; the closure holds it weakly.
  std::shared_ptr<RemoteValueState> state_;
  uint64_t owner_ = 0;
};

}  // namespace cohort
