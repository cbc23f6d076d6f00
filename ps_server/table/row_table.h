#pragma once

// A dynamic embedding table on one ps: rows of float32 under 64-bit keys, any of the 2^64, without
// a size that is known beforehand. A row comes into being when it is first asked for; its first
// values depend on (seed, table, key) alone, so neither the order of requests nor the number of ps
// shows in them. With the row live its optimizer slots.
//
// The table is cut by the keys' hashes into stripes with a lock each. A batch of keys is sorted by
// stripe and takes each lock once; each row is read or changed under its stripe's lock, so nobody
// sees a row half changed, and a batch as a whole is not atomic.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/runtime/update_kernel.h"
#include "ps_server/table/row_stripe.h"

namespace cohort {

struct RowTableOptions {
  std::string name;
  size_t width = 0;  // elements of a row
  InitializerSpec initializer;
  proto::UpdateRule rule;
};

// Of one push, from the closure.
struct PushRates {
  double learning_rate = 0;
  uint64_t step = 1;  // counts from 1
};

struct RowTableUse {
  size_t rows = 0;
  size_t row_bytes = 0;  // what the rows' memory takes of the system's
  size_t index_bytes = 0;
  size_t payload_bytes = 0;  // of values and slots
};

// Thread-safe.
class RowTable {
 public:
  // Errors: as RowLayout::Make, and INVALID_ARGUMENT for a rule that has no kernel.
  static absl::StatusOr<std::unique_ptr<RowTable>> Create(const RowTableOptions& options);
  ~RowTable();

  // Values in the order of the keys, which may repeat; missing rows are created. `out` has the
  // table's width for each key.
  void Pull(absl::Span<const uint64_t> keys, absl::Span<float> out);

  // Applies the table's rule to the row of each key with its own row of `gradients`. A gradient
  // whose key is missing and not created is dropped. Repeated keys are applied one after the other,
  // in any order.
  void Push(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
            const PushRates& rates, MissingRow missing);

  // How many there were.
  size_t Erase(absl::Span<const uint64_t> keys);

  RowTableUse Use() const;

 private:
  static constexpr size_t kStripes = 64;

  struct LockedStripe {
    LockedStripe(const RowLayout& layout, RowMemory& memory) : rows(layout, memory) {}

    mutable Mutex mutex;
    RowStripe rows ABSL_GUARDED_BY(mutex);
  };
  struct Batch;

  RowTable(RowLayout layout, std::unique_ptr<UpdateKernel> kernel);

  // Calls `visit` with each stripe that has keys of the batch, and those keys, under its lock.
  void ForStripes(absl::Span<const uint64_t> keys,
                  absl::FunctionRef<void(RowStripe&, absl::Span<const KeyAt>)> visit);
  std::unique_ptr<Batch> TakeBatch();
  void ReturnBatch(std::unique_ptr<Batch> batch);

  // Constant after construction.
  const RowLayout layout_;
  const std::unique_ptr<UpdateKernel> kernel_;
  // Synchronises itself.
  RowMemory memory_;
  // Constant after construction; each synchronises itself. They have their rows in memory_.
  std::vector<std::unique_ptr<LockedStripe>> stripes_;

  Mutex mutex_;
  // Room for sorted keys, one for each batch that was ever under way beside others.
  std::vector<std::unique_ptr<Batch>> batches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
