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
  const RandomStream random = RandomStream(options.seed, "shuffle").Child(options.iteration);
  ElementOrder buffer(filled);
  for (uint32_t i = 0; i < filled; ++i) buffer[i] = i;
  ElementOrder order(n);
  uint32_t next = filled;
  uint32_t live = filled;
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t& slot = buffer[random.Below(i, live)];
    order[i] = slot;
    slot = next < n ? next++ : buffer[--live];
  }
  return order;
}

ShuffleOrders::ShuffleOrders(const proto::Shuffle& shuffle, int64_t elements)
    : shuffle_(shuffle), elements_(elements) {}

std::shared_ptr<const ElementOrder> ShuffleOrders::Get(uint64_t iteration) {
  const uint64_t key = shuffle_.reshuffle_each_iteration() ? iteration : 0;
  {
    MutexLock lock(mutex_);
    const auto found = orders_.find(key);
    if (found != orders_.end()) return found->second;
  }
  // Outside the lock: two readers may compute the same order, which costs time but never differs.
  auto order = std::make_shared<const ElementOrder>(
      MakeShuffleOrder({elements_, shuffle_.buffer_size(), shuffle_.seed(), key}));
  MutexLock lock(mutex_);
  orders_[key] = order;
  while (orders_.size() > kOrdersMax) {
    // The one farthest from the newest request goes.
    auto first = orders_.begin();
    auto last = std::prev(orders_.end());
    orders_.erase(key - first->first >= last->first - key ? first : last);
  }
  return order;
}

}  // namespace cohort
