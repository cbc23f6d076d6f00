#include "worker/data/shuffle_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace cohort {

ElementOrder MakeShuffleOrder(const ShuffleOrderOptions& options) {
  COHORT_CHECK(
      options.elements >= 0 && options.elements <= kShuffleElementsMax && options.buffer_size >= 1,
      "the plan checked the shuffle");
  const auto n = static_cast<uint32_t>(options.elements);
  const auto filled =
      static_cast<uint32_t>(std::min<int64_t>(options.elements, options.buffer_size));
  // Each iteration has its own random stream, so the order depends on (seed, iteration) alone.
  const RandomStream random = RandomStream(options.seed, "shuffle").Child(options.iteration);
  ElementOrder buffer(filled);
  for (uint32_t i = 0; i < filled; ++i) buffer[i] = i;
  ElementOrder order(n);
  uint32_t next = filled;
  // The number of buffer slots that still hold an input index.
  uint32_t live = filled;
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t& slot = buffer[random.Below(i, live)];
    order[i] = slot;
    // After the last input, the buffer's last slot fills the gap, so slots [0, live) stay full.
    slot = next < n ? next++ : buffer[--live];
  }
  return order;
}

ShuffleOrders::ShuffleOrders(const proto::Shuffle& shuffle, int64_t elements)
    : shuffle_(shuffle), elements_(elements) {}

std::shared_ptr<const ElementOrder> ShuffleOrders::Get(uint64_t iteration) {
  // Without reshuffling, all iterations share the order of iteration 0.
  const uint64_t key = shuffle_.reshuffle_each_iteration() ? iteration : 0;
  {
    MutexLock lock(mutex_);
    const auto found = orders_.find(key);
    if (found != orders_.end()) return found->second;
  }
  // The order is computed outside the lock. Two readers may compute the same order; their results
  // are equal and only time is lost.
  auto order = std::make_shared<const ElementOrder>(
      MakeShuffleOrder({elements_, shuffle_.buffer_size(), shuffle_.seed(), key}));
  MutexLock lock(mutex_);
  orders_[key] = order;
  while (orders_.size() > kOrdersMax) {
    // Evicts the order whose iteration is farthest from the iteration that was just asked for.
    auto first = orders_.begin();
    auto last = std::prev(orders_.end());
    orders_.erase(key - first->first >= last->first - key ? first : last);
  }
  return order;
}

}  // namespace cohort
