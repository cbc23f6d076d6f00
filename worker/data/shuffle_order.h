#pragma once

// The order in which tf.data's shuffle emits n elements through a buffer: the buffer fills, then
// each output takes a random slot, which the next input refills; at the end the buffer empties.
// With a buffer of n or more this is Fisher and Yates's full permutation. The order is computed
// over indices once per repetition and then read at random, so a seek costs nothing more.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "proto/plan.pb.h"

namespace cohort {

using ElementOrder = std::vector<uint32_t>;

// Largest data set that is shuffled: 1 GiB of order.
inline constexpr int64_t kShuffleElementsMax = int64_t{1} << 28;

struct ShuffleOrderOptions {
  int64_t elements = 0;
  int64_t buffer_size = 1;
  uint64_t seed = 0;
  uint64_t iteration = 0;
};
ElementOrder MakeShuffleOrder(const ShuffleOrderOptions& options);

// The orders of one shuffle transform; keeps those of the iterations last asked for. Thread-safe.
class ShuffleOrders {
 public:
  // Takes a `shuffle` that IndexPlan has checked.
  ShuffleOrders(const proto::Shuffle& shuffle, int64_t elements);

  // Returns an order. Shared: readers go on with it after it left the cache.
  std::shared_ptr<const ElementOrder> Get(uint64_t iteration);

 private:
  static constexpr size_t kOrdersMax = 2;  // an iterator's own and the one it prefetches from

  const proto::Shuffle shuffle_;
  const int64_t elements_;
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const ElementOrder>> orders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
