#pragma once

// An input pipeline seen as arithmetic on indices. Every source here is an array, so each transform
// that picks or orders elements (skip, take, shard, shuffle, repeat, batch) is a function from an
// index of its output to an index of its input, and a pipeline is their composition: any element is
// found from its position alone, which makes iterators restorable and splits independent.
//
// A position is (epoch, element). When the last such transform is a repeat, epoch is the
// repetition and element counts inside it. Otherwise the pipeline is one repetition long, and other
// epochs name further passes over it, each with its own shuffle order; elements of a stream that is
// batched after its repeat are counted through. An element is a batch when the pipeline batches.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "proto/worker.pb.h"
#include "worker/data/shuffle_order.h"

namespace cohort {

inline constexpr int64_t kEndless = -1;  // an endless number of elements or epochs
inline constexpr int64_t kBatchMax = 1 << 20;
inline constexpr int kTransformsMax = 64;
// Bounds on endless data, so that no index overflows: the element of a position, one skip, and the
// product of batch size and shard counts.
inline constexpr int64_t kEndlessElementsMax = int64_t{1} << 38;
inline constexpr int64_t kEndlessSkipMax = int64_t{1} << 36;
inline constexpr int64_t kEndlessScaleMax = 1 << 20;

// The shuffle orders that a reader used last, by stage. Thread-compatible.
struct OrderCursor {
  struct Entry {
    uint64_t iteration = 0;
    std::shared_ptr<const ElementOrder> order;
  };
  std::vector<Entry> entries;
};

// Immutable after construction but for the orders' cache; thread-safe.
class IndexPlan {
 public:
  // Transforms that change only values (rescale, one_hot, flatten) or timing (prefetch) are passed
  // over. Errors: INVALID_ARGUMENT naming the transform, its value and the remedy.
  static absl::StatusOr<IndexPlan> Build(int64_t source_elements, const proto::DatasetSpec& spec);

  bool batched() const { return batch_size_ > 0; }
  int64_t batch_size() const { return batch_size_; }
  bool drop_remainder() const { return drop_remainder_; }
  int64_t source_elements() const { return source_elements_; }  // before all transforms
  // Elements over all epochs of a final repeat.
  int64_t cardinality() const;
  int64_t elements_per_epoch() const;

  // Returns the source indices of the element: one, or those of its batch. Errors: OUT_OF_RANGE
  // past the end; INVALID_ARGUMENT for a negative position.
  absl::StatusOr<std::vector<int64_t>> Locate(const proto::IteratorPosition& position,
                                              OrderCursor& cursor) const;

  // Returns the position after this one, in its canonical form (a full epoch becomes the next one's
  // start).
  proto::IteratorPosition Next(const proto::IteratorPosition& position) const;
  // Returns true if an iterator that was started in `start_epoch` is at its end here.
  bool AtEnd(const proto::IteratorPosition& position, int64_t start_epoch) const;

 private:
  enum class Kind { kSkip, kShard, kTake, kShuffle, kRepeat, kBatch };
  struct Stage {
    Kind kind;
    int64_t input = 0;  // elements of one iteration of what this reads, or kEndless
    int64_t output = 0;
    int64_t a = 0;  // skip: count; shard: number; repeat: times; batch: size
    int64_t b = 0;  // shard: index
    std::shared_ptr<ShuffleOrders> orders;  // shared: copies of a plan use one cache
  };
  struct Place {
    uint64_t iteration = 0;  // wraps: it only names a shuffle order
    int64_t index = 0;
  };

  static absl::StatusOr<Stage> MakeStage(const proto::DatasetTransform& transform, int64_t input);
  static absl::StatusOr<Stage> MakeRepeat(int64_t times, int64_t input);
  static absl::StatusOr<Stage> MakeShuffle(const proto::Shuffle& shuffle, int64_t input);
  absl::Status Add(Stage stage);
  absl::Status CheckScale() const;
  Place Through(size_t stage, Place place, OrderCursor& cursor) const;
  // Goes from the output of stage `end` - 1 down to the output of stage `begin` - 1.
  Place Descend(size_t end, size_t begin, Place place, OrderCursor& cursor) const;

  std::vector<Stage> stages_;  // source first; without a final repeat, which is epochs_
  int64_t source_elements_ = 0;
  int64_t epochs_ = 1;
  bool final_repeat_ = false;
  size_t batch_stage_ = 0;
  int64_t batch_size_ = 0;
  bool drop_remainder_ = false;
};

}  // namespace cohort
