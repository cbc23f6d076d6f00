#pragma once

// The sum of row-sparse gradients over all ranks, by any communicator.
//
// Merged: each rank first sums its own rows of the same id. Each id has an owner, by ranges of the
// table's rows; rows go to their owners, which sum them in the order of the tree over the ranks,
// and the sums go to all. The result has each id once, ascending, on every rank. A rank sends each
// of its unique rows once, and each owner its sums n-1 times: what it costs does not grow with how
// often an id occurs.
//
// Concatenated: what TensorFlow's collectives give for IndexedSlices: the rows of all ranks one
// after another, nothing summed. Applied to a variable both come to the same.
//
// A mean divides by the number of ranks, whether they have the row or not, as a dense mean does.

#include <deque>
#include <memory>
#include <string>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "tests/support/communicators/sparse_rows.h"
#include "worker/collective/communicator.h"

namespace cohort {

enum class SparseForm : uint8_t { kMerged, kConcatenated };

struct SparseCall {
  std::string name;  // the same on all ranks
  SparseForm form = SparseForm::kMerged;
  ReduceOp reduce = ReduceOp::kSum;  // or kMean
  int64_t table_rows = 0;            // ids are below it; the same on all ranks
  SparseRows mine;
};

// Makes several calls of a communicator one after another for each of its own, which are carried
// out in the order in which they are started. While one is under way nobody else may start calls of
// that communicator, because their order would depend on the rank. Thread-safe.
class SparseAllReduce {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<SparseRows>)>;

  // Both outlive the calls. Rows are added up on the executor.
  SparseAllReduce(Communicator& communicator, Executor& executor);
  ~SparseAllReduce();

  // Errors: INVALID_ARGUMENT for an id outside the table, a size that does not fit or another
  // reduction, and those of the communicator. Every error ends the group.
  void Start(SparseCall call, Done done);

 private:
  class Run;
  struct Queue;
  static void Next(const std::shared_ptr<Queue>& queue);
  const std::shared_ptr<Queue> queue_;  // shared with runs under way
};

}  // namespace cohort
