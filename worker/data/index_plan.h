#pragma once

// An input pipeline expressed as arithmetic on indices. Every source is an array. Each transform
// that picks or orders elements (skip, take, shard, shuffle, repeat, batch) is therefore a function
// from an index of its output to an index of its input, and a pipeline is the composition of these
// functions. Any element is found from its position alone, so iterators can be restored and splits
// are independent.
//
// A position is (epoch, element). If the pipeline's last transform that picks elements is a repeat,
// the epoch is the repetition and the element counts inside the repetition. Otherwise the pipeline
// is one repetition long, and other epochs name further passes over the pipeline, each with its own
// shuffle order. If batch comes after repeat, elements are counted through all repetitions. An
// element is a batch if the pipeline batches.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "proto/plan.pb.h"
#include "proto/worker.pb.h"

namespace cohort {

// The order in which tf.data's shuffle emits n elements through a buffer: entry i is the input
// index of output i. The buffer is filled first; then each output takes a random slot, which the
// next input refills; at the end the buffer is drained. A buffer of n or more elements gives the
// full permutation of Fisher and Yates. The order is computed over indices once per repetition and
// then read at random positions, so a seek is free.
using ElementOrder = std::vector<uint32_t>;

// The largest number of elements that a shuffle can take; the order of so many elements takes 1
// GiB.
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

// Stands for an endless number of elements or epochs.
inline constexpr int64_t kEndless = -1;
inline constexpr int64_t kBatchMax = 1 << 20;
inline constexpr int kTransformsMax = 64;
// Bounds on endless data, so that no index overflows: the element of a position, the count of one
// skip, and the product of the batch size and all shard counts.
inline constexpr int64_t kEndlessElementsMax = int64_t{1} << 38;
inline constexpr int64_t kEndlessSkipMax = int64_t{1} << 36;
inline constexpr int64_t kEndlessScaleMax = 1 << 20;

// The shuffle orders that a reader used last, one entry for each stage of the plan.
// Thread-compatible.
struct OrderCursor {
  struct Entry {
    uint64_t iteration = 0;
    std::shared_ptr<const ElementOrder> order;
  };
  std::vector<Entry> entries;
};

// The index arithmetic of one pipeline. Immutable after construction except for the shuffle orders'
// cache; thread-safe.
class IndexPlan {
 public:
  // Builds the plan of `spec`. Transforms that change only values (rescale, one_hot, flatten) or
  // timing (prefetch) are skipped. Errors: INVALID_ARGUMENT naming the transform, its value and the
  // remedy.
  static absl::StatusOr<IndexPlan> Build(int64_t source_elements, const proto::DatasetSpec& spec);

  bool batched() const { return batch_size_ > 0; }
  int64_t batch_size() const { return batch_size_; }
  bool drop_remainder() const { return drop_remainder_; }
  // Returns the number of elements of the source, before all transforms.
  int64_t source_elements() const { return source_elements_; }
  // Returns the number of elements that the pipeline gives, over all repetitions of a final repeat.
  int64_t cardinality() const;
  int64_t elements_per_epoch() const;

  // Returns the source indices of the element at `position`: one index, or the indices of a batch.
  // Errors: OUT_OF_RANGE past the end; INVALID_ARGUMENT for a negative position.
  absl::StatusOr<std::vector<int64_t>> Locate(const proto::IteratorPosition& position,
                                              OrderCursor& cursor) const;

  // Returns the position after `position` in canonical form: the end of an epoch becomes the start
  // of the next epoch.
  proto::IteratorPosition Next(const proto::IteratorPosition& position) const;
  // Returns true if `position` is the end of an iterator that was started in `start_epoch`.
  bool AtEnd(const proto::IteratorPosition& position, int64_t start_epoch) const;

 private:
  enum class Kind { kSkip, kShard, kTake, kShuffle, kRepeat, kBatch };
  struct Stage {
    Kind kind;
    int64_t input = 0;  // elements that one iteration of the stage's input has, or kEndless
    int64_t output = 0;
    // First parameter of the stage: count of a skip, number of shards, times of a repeat, size of a
    // batch.
    int64_t a = 0;
    int64_t b = 0;  // second parameter of a shard stage: the index of the shard
    // Shuffle orders, shared: copies of a plan use one cache.
    std::shared_ptr<ShuffleOrders> orders;
  };
  struct Place {
    uint64_t iteration = 0;  // number that names a shuffle order; may wrap around
    int64_t index = 0;
  };

  static absl::StatusOr<Stage> MakeStage(const proto::DatasetTransform& transform, int64_t input);
  static absl::StatusOr<Stage> MakeRepeat(int64_t times, int64_t input);
  static absl::StatusOr<Stage> MakeShuffle(const proto::Shuffle& shuffle, int64_t input);
  absl::Status Add(Stage stage);
  absl::Status CheckScale() const;
  Place Through(size_t stage, Place place, OrderCursor& cursor) const;
  // Maps an index (with its iteration) in the output of stage `end` - 1 to one in the input of
  // stage `begin`.
  Place Descend(size_t end, size_t begin, Place place, OrderCursor& cursor) const;

  // The stages of the pipeline, from the source to the output. A final repeat is not a stage; its
  // count is epochs_.
  std::vector<Stage> stages_;
  int64_t source_elements_ = 0;
  int64_t epochs_ = 1;
  bool final_repeat_ = false;
  size_t batch_stage_ = 0;
  int64_t batch_size_ = 0;
  bool drop_remainder_ = false;
};

}  // namespace cohort
