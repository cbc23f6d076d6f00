#include "worker/data/shuffle_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/rng.h"

namespace cohort {

namespace {

constexpr int64_t kBlockMax = int64_t{1} << 24;
constexpr int64_t kMixedBlocksMax = int64_t{1} << 16;

class TableOrder final : public PassOrder {
 public:
  explicit TableOrder(ElementOrder order) : order_(std::move(order)) {}
  int64_t At(int64_t place, Cursor&) const override { return order_[static_cast<size_t>(place)]; }

 private:
  const ElementOrder order_;
};

class GlobalOrder final : public PassOrder {
 public:
  GlobalOrder(int64_t elements, const RandomStream& random)
      : permutation_(static_cast<uint64_t>(elements), random) {}
  int64_t At(int64_t place, Cursor&) const override {
    return static_cast<int64_t>(permutation_.At(static_cast<uint64_t>(place)));
  }

 private:
  const Permutation permutation_;
};

class OrderOfBlocks final : public PassOrder {
 public:
  OrderOfBlocks(const BlockOrderOptions& options, uint64_t seed, uint64_t pass)
      : blocks_(options, seed, pass) {}
  int64_t At(int64_t place, Cursor& cursor) const override {
    return static_cast<int64_t>(blocks_.At(static_cast<uint64_t>(place), cursor.block));
  }

 private:
  const BlockOrder blocks_;
};

// Returns whether the value is from 1 to `max`, else the error that names it.
absl::Status CheckCount(absl::string_view field, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("transform shuffle.", field, " has the value ",
                                                 value, ": it must be 1 to ", max));
}

bool HoldsAll(const proto::Shuffle& shuffle, int64_t elements) {
  return shuffle.buffer_size() >= elements;
}

}  // namespace

ElementOrder MakeShuffleOrder(const ShuffleOrderOptions& options) {
  COHORT_CHECK(
      options.elements >= 0 && options.elements <= kShuffleElementsMax && options.buffer_size >= 1,
      "CheckShuffle has accepted it");
  const auto n = static_cast<uint32_t>(options.elements);
  const auto filled =
      static_cast<uint32_t>(std::min<int64_t>(options.elements, options.buffer_size));
  // Each pass has its own random stream, so its order depends on the seed and the pass number only.
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
    // When the input is used up, the index in the last full slot moves to the slot that was
    // emptied, so that slots [0, live) stay full.
    slot = next < n ? next++ : buffer[--live];
  }
  return order;
}

absl::Status CheckShuffle(const proto::Shuffle& shuffle, int64_t elements) {
  switch (shuffle.order()) {
    case proto::Shuffle::GLOBAL:
      return absl::OkStatus();
    case proto::Shuffle::BLOCKS: {
      absl::Status status = CheckCount("block_size", shuffle.block_size(), kBlockMax);
      status.Update(CheckCount("mixed_blocks", shuffle.mixed_blocks(), kMixedBlocksMax));
      return status;
    }
    case proto::Shuffle::BUFFER: {
      absl::Status status = CheckCount("buffer_size", shuffle.buffer_size(), INT64_MAX);
      if (!status.ok() || HoldsAll(shuffle, elements)) return status;
      // The order through a smaller buffer is an array in memory.
      if (elements <= kShuffleElementsMax) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("transform shuffle reads ", elements, " elements through a buffer of ",
                       shuffle.buffer_size(), ", above ", kShuffleElementsMax,
                       ": give a buffer of all elements, or another order"));
    }
    default:
      return absl::InvalidArgumentError(absl::StrCat("transform shuffle has the order ",
                                                     static_cast<int>(shuffle.order()),
                                                     ", which there is not"));
  }
}

ShuffleOrders::ShuffleOrders(const proto::Shuffle& shuffle, int64_t elements)
    : shuffle_(shuffle), elements_(elements) {}

std::shared_ptr<const PassOrder> ShuffleOrders::Get(uint64_t iteration) {
  // Without reshuffling, all passes have the order of pass 0.
  const uint64_t key = shuffle_.reshuffle_each_iteration() ? iteration : 0;
  {
    MutexLock lock(mutex_);
    const auto found = orders_.find(key);
    if (found != orders_.end()) return found->second;
  }
  // The order is computed outside the lock. Two readers may then compute the same order, which
  // costs only time.
  const std::shared_ptr<const PassOrder> order = Make(key);
  MutexLock lock(mutex_);
  orders_[key] = order;
  while (orders_.size() > kOrdersMax) {
    // Drops the order whose pass number is farthest from `key`.
    auto first = orders_.begin();
    auto last = std::prev(orders_.end());
    orders_.erase(key - first->first >= last->first - key ? first : last);
  }
  return order;
}

std::shared_ptr<const PassOrder> ShuffleOrders::Make(uint64_t pass) const {
  if (shuffle_.order() == proto::Shuffle::BLOCKS) {
    const BlockOrderOptions options{static_cast<uint64_t>(elements_),
                                    static_cast<uint64_t>(shuffle_.block_size()),
                                    static_cast<uint64_t>(shuffle_.mixed_blocks())};
    return std::make_shared<const OrderOfBlocks>(options, shuffle_.seed(), pass);
  }
  const bool is_large = static_cast<uint64_t>(elements_) > Permutation::kTableMax;
  if (shuffle_.order() == proto::Shuffle::GLOBAL || (is_large && HoldsAll(shuffle_, elements_))) {
    return std::make_shared<const GlobalOrder>(elements_,
                                               RandomStream(shuffle_.seed(), "global").Child(pass));
  }
  return std::make_shared<const TableOrder>(
      MakeShuffleOrder({elements_, shuffle_.buffer_size(), shuffle_.seed(), pass}));
}

}  // namespace cohort
