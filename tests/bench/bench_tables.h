#pragma once

// The tables that `cohort_bench table` compares: a dense one and a dynamic one as a ps holds them,
// and the limit, a flat array of the same rows whose places are known.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps_server/table/row_table.h"

namespace cohort::bench {

struct TableSizes {
  size_t rows = 0;
  size_t width = 0;
  size_t batch = 0;
};

// Rows of one pull or push, by their numbers, and by the dynamic table's keys for them.
struct RowBatch {
  std::vector<int64_t> rows;
  std::vector<uint64_t> keys;
};

// Row numbers become keys that say nothing of their order.
uint64_t KeyOf(int64_t row);
RowBatch BatchOf(std::vector<int64_t> rows);

// Rows of floats, each with Adagrad's slot. Thread-compatible.
class BenchTable {
 public:
  virtual ~BenchTable() = default;
  // Values in the order of the batch.
  virtual void Pull(const RowBatch& batch, absl::Span<float> out) = 0;
  // Each row once.
  virtual void Push(const RowBatch& batch, absl::Span<const float> gradients) = 0;
};

class DynamicBenchTable final : public BenchTable {
 public:
  static absl::StatusOr<std::unique_ptr<DynamicBenchTable>> Make(size_t width,
                                                                 const RowPolicy& policy);
  void Pull(const RowBatch& batch, absl::Span<float> out) override;
  void Push(const RowBatch& batch, absl::Span<const float> gradients) override;
  RowTableUse Use() const { return table_->Use(); }
  // All rows, copied.
  TableRows Save() const;

 private:
  explicit DynamicBenchTable(std::unique_ptr<RowTable> table) : table_(std::move(table)) {}
  const std::unique_ptr<RowTable> table_;
};

absl::StatusOr<std::unique_ptr<BenchTable>> MakeDenseTable(const TableSizes& sizes);
absl::StatusOr<std::unique_ptr<BenchTable>> MakeFlatTable(const TableSizes& sizes);

}  // namespace cohort::bench
