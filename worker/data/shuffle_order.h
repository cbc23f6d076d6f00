#pragma once

// The orders in which a shuffle emits the elements of a pass (proto::Shuffle): that of tf.data's
// buffer, a permutation of all elements, or one of blocks of neighbours. Orders depend on the seed
// and the number of the pass alone, and any place of one is found without the places before it.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "proto/plan.pb.h"
#include "worker/data/permutation.h"

namespace cohort {

// The order in which tf.data's shuffle emits n elements through a buffer: entry i is the input
// index of output i. The buffer is filled first; then each output is taken from a random slot,
// which the next input refills; at the end the buffer is drained. A buffer of n or more elements
// gives a full random permutation (Fisher and Yates). The order is computed once per pass and read
// at any place, so moving to another position costs nothing.
using ElementOrder = std::vector<uint32_t>;

// The largest number of elements that a smaller buffer can shuffle; the order of so many takes
// 1 GiB.
inline constexpr int64_t kShuffleElementsMax = int64_t{1} << 28;

struct ShuffleOrderOptions {
  int64_t elements = 0;
  int64_t buffer_size = 1;
  uint64_t seed = 0;
  uint64_t iteration = 0;
};
// Computes the order of one pass (`iteration`) of a shuffle. Equal options give equal orders on
// every machine.
ElementOrder MakeShuffleOrder(const ShuffleOrderOptions& options);

// The order of one pass. Immutable; thread-safe.
class PassOrder {
 public:
  // What a reader of one order keeps between two places. Thread-compatible.
  struct Cursor {
    BlockOrder::Cursor block;
  };

  virtual ~PassOrder() = default;
  // Returns the input index of the output at `place`.
  virtual int64_t At(int64_t place, Cursor& cursor) const = 0;
};

// Checks a shuffle of `elements` elements. Errors: INVALID_ARGUMENT naming the field, its value and
// the remedy.
absl::Status CheckShuffle(const proto::Shuffle& shuffle, int64_t elements);

// The shuffle orders of one shuffle transform. Keeps the orders of the passes that were asked for
// last. Thread-safe.
class ShuffleOrders {
 public:
  // Makes a cache for a shuffle of `elements` elements, which CheckShuffle has accepted. A buffer
  // that holds all of more than Permutation::kTableMax elements is a permutation that takes no
  // memory.
  ShuffleOrders(const proto::Shuffle& shuffle, int64_t elements);

  // Returns the shuffle order of pass `iteration`. The order is shared, because readers may use it
  // after the cache has dropped it.
  std::shared_ptr<const PassOrder> Get(uint64_t iteration);

 private:
  // The number of orders to keep: one for the pass that an iterator reads, one for the next pass,
  // which prefetch reads.
  static constexpr size_t kOrdersMax = 2;

  std::shared_ptr<const PassOrder> Make(uint64_t pass) const;

  const proto::Shuffle shuffle_;
  const int64_t elements_;
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const PassOrder>> orders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
