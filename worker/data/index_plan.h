#pragma once

// An input pipeline as arithmetic on indices. Every source is an array of examples. So each
// transform that picks or orders elements (skip, take, shard, shuffle, repeat, batch) is a function
// from an index of its output to an index of its input, and a pipeline is the composition of these
// functions. Any element is found from its position alone, so an iterator can continue from any
// position, and workers can read different positions independently.
//
// A position is (epoch, element), where an epoch is a pass over the data, as in Keras. If the
// pipeline's last picking transform is a repeat, each repetition is a pass, and elements are
// counted inside the repetition. Otherwise the pipeline is one pass long, and other epochs name
// further passes over the pipeline, each with its own shuffle order. If batch comes after repeat,
// elements are counted through all repetitions. If the pipeline has a batch transform, an element
// is a batch.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "proto/worker.pb.h"
#include "worker/data/shuffle_order.h"

namespace cohort {

// Stands for an endless number of elements or of repetitions.
inline constexpr int64_t kEndless = -1;
inline constexpr int64_t kBatchMax = 1 << 20;
inline constexpr int kTransformsMax = 1024;
// Bounds for endless data, so that no index overflows: of the element number in a position, of the
// count of one skip, and of the product of the batch size and all shard counts.
inline constexpr int64_t kEndlessElementsMax = int64_t{1} << 38;
inline constexpr int64_t kEndlessSkipMax = int64_t{1} << 36;
inline constexpr int64_t kEndlessScaleMax = 1 << 20;

// The shuffle orders that a reader used last, one entry for each stage of the plan.
// Thread-compatible.
struct OrderCursor {
  struct Entry {
    uint64_t iteration = 0;
    std::shared_ptr<const PassOrder> order;
    PassOrder::Cursor at;
  };
  std::vector<Entry> entries;
};

// The index arithmetic of one pipeline. Thread-safe: immutable after construction, except for the
// cache of shuffle orders.
class IndexPlan {
 public:
  // Makes the plan of `spec` for a source of `source_elements` examples. Leaves out transforms that
  // change only values (rescale, one_hot, class_labels, flatten) or timing (prefetch). Errors:
  // INVALID_ARGUMENT naming the transform, its value and the remedy.
  static absl::StatusOr<IndexPlan> Build(int64_t source_elements, const proto::DatasetSpec& spec);

  bool batched() const { return batch_size_ > 0; }
  int64_t batch_size() const { return batch_size_; }
  bool drop_remainder() const { return drop_remainder_; }
  // Returns the number of examples in the source, before all transforms.
  int64_t source_elements() const { return source_elements_; }
  // Returns the number of elements that the pipeline gives, in all repetitions of a final repeat
  // together; kEndless if they do not end.
  int64_t cardinality() const;
  int64_t elements_per_epoch() const;

  // Returns the numbers of the source's examples of which the element at `position` consists: one
  // number, or those of a batch. Errors: OUT_OF_RANGE past the end of the data; INVALID_ARGUMENT
  // for a negative position, or a pass number of 2^32 or more.
  absl::StatusOr<std::vector<int64_t>> Locate(const proto::IteratorPosition& position,
                                              OrderCursor& cursor) const;

  // Returns the position after `position`. If the pipeline ends with a repeat, the end of one
  // repetition is the start of the next.
  proto::IteratorPosition Next(const proto::IteratorPosition& position) const;
  // Returns true if an iterator that was started in pass `start_epoch` is at its end at `position`.
  bool AtEnd(const proto::IteratorPosition& position, int64_t start_epoch) const;

 private:
  enum class Kind { kSkip, kShard, kTake, kShuffle, kRepeat, kBatch };
  struct Stage {
    Kind kind;
    int64_t input = 0;  // number of elements that the stage gets in one pass, or kEndless
    int64_t output = 0;
    // The parameter of the transform: the count of a skip, the number of shards, the times of a
    // repeat, or the size of a batch.
    int64_t parameter = 0;
    int64_t shard_index = 0;  // the index of a shard; 0 for other transforms
    // The orders of a shuffle; shared, so that copies of a plan use one cache.
    std::shared_ptr<ShuffleOrders> orders;
  };
  // The place of an element among the inputs or outputs of a stage.
  struct Place {
    // Number of the pass over the data, which chooses a shuffle order; may wrap around.
    uint64_t iteration = 0;
    int64_t index = 0;
  };

  static absl::StatusOr<Stage> MakeStage(const proto::DatasetTransform& transform, int64_t input);
  static absl::StatusOr<Stage> MakeRepeat(int64_t times, int64_t input);
  static absl::StatusOr<Stage> MakeShuffle(const proto::Shuffle& shuffle, int64_t input);
  absl::Status Add(Stage stage);
  absl::Status CheckScale() const;
  Place Through(size_t stage, Place place, OrderCursor& cursor) const;
  // Maps an index of the output of stage `end` - 1, with its pass, to an index of the input of
  // stage `begin`.
  Place Descend(size_t end, size_t begin, Place place, OrderCursor& cursor) const;

  // The stages from the source to the output. A final repeat is not a stage; its count is epochs_.
  std::vector<Stage> stages_;
  int64_t source_elements_ = 0;
  int64_t epochs_ = 1;
  bool final_repeat_ = false;
  size_t batch_stage_ = 0;
  int64_t batch_size_ = 0;
  bool drop_remainder_ = false;
};

}  // namespace cohort
