#pragma once

// The order in which tf.data's shuffle emits n elements through a buffer. The buffer is filled
// first; then each output takes a random slot, which the next input refills; at the end the buffer
// is drained. A buffer of n or more elements gives the full permutation of Fisher and Yates. The
// order is computed over indices once per repetition and then read at random positions, so a seek
// is free.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "proto/plan.pb.h"

namespace cohort {

// The order of a shuffle: entry i is the input index of output i.
using ElementOrder = std::vector<uint32_t>;

// The largest data set that can be shuffled; its order takes 1 GiB.
inline constexpr int64_t kShuffleElementsMax = int64_t{1} << 28;

struct ShuffleOrderOptions {
  int64_t elements = 0;
  int64_t buffer_size = 1;
  uint64_t seed = 0;
  uint64_t iteration = 0;
};
// Computes the order of one iteration of a shuffle. Equal options give equal orders on every
// machine.
ElementOrder MakeShuffleOrder(const ShuffleOrderOptions& options);

// The orders of one shuffle transform. Keeps the orders of the iterations that were asked for last.
// Thread-safe.
class ShuffleOrders {
 public:
  // Makes the cache for a `shuffle` of `elements` elements that IndexPlan has checked.
  ShuffleOrders(const proto::Shuffle& shuffle, int64_t elements);

  // Returns the shuffle order of `iteration`. The order is shared, since readers may use it after
  // the cache has dropped it.
  std::shared_ptr<const ElementOrder> Get(uint64_t iteration);

 private:
  // The number of cached orders: an iterator's own iteration and the next one, which prefetch
  // reads.

  static constexpr size_t kOrdersMax = 2;

  const proto::Shuffle shuffle_;
  const int64_t elements_;
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const ElementOrder>> orders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
