#include "tests/bench/bench_tables.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/prefetch.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/runtime/update/make_update_kernel.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort::bench {

namespace {

constexpr double kLearningRate = 0.01;
constexpr absl::Time kNow = absl::UnixEpoch();

proto::UpdateRule Adagrad() {
  proto::UpdateRule rule;
  rule.set_op("adagrad");
  rule.set_sparse(proto::LAZY);
  return rule;
}

// A slice of a variable with all its rows.
class DenseTable final : public BenchTable {
 public:
  explicit DenseTable(std::unique_ptr<VariableSlice> shard) : shard_(std::move(shard)) {}

  void Pull(const RowBatch& batch, absl::Span<float> out) override {
    auto* const bytes = reinterpret_cast<std::byte*>(out.data());
    shard_->ReadRowsFor({}, batch.rows, {bytes, out.size() * sizeof(float)});
  }

  void Push(const RowBatch& batch, absl::Span<const float> gradients) override {
    const Payload payload = {ByteSlice{nullptr,
                                       reinterpret_cast<const std::byte*>(gradients.data()),
                                       gradients.size() * sizeof(float)}};
    PayloadCursor cursor(payload);
    SlicePush context;
    context.learning_rate = kLearningRate;
    context.closure_id = ++closure_;
    const ClosureWindow window = {1, closure_};
    COHORT_CHECK(shard_->ApplyRows(batch.rows, cursor, context, [&] { return window; }).ok(),
                 "a push that nobody refuses");
  }

 private:
  const std::unique_ptr<VariableSlice> shard_;
  uint64_t closure_ = 0;
};

class FlatTable final : public BenchTable {
 public:
  FlatTable(const TableSizes& sizes, std::unique_ptr<UpdateKernel> kernel)
      : memory_(sizes.rows * sizes.width * 2 * sizeof(float)),
        kernel_(std::move(kernel)),
        width_(sizes.width),
        row_bytes_(sizes.width * 2 * sizeof(float)) {
    std::memset(memory_.begin(), 0, sizes.rows * row_bytes_);
    step_.learning_rate = kLearningRate;
    step_.row_width = width_;
    step_.slots.resize(1);
  }

  // Half of a row, its value.
  void Pull(const RowBatch& batch, absl::Span<float> out) override {
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      if (i + kAhead < batch.rows.size()) Prefetch(batch.rows[i + kAhead], row_bytes_ / 2);
      std::memcpy(out.data() + i * width_, RowAt(batch.rows[i]), row_bytes_ / 2);
    }
  }

  // A value and its slot, by the tables' own kernel.
  void Push(const RowBatch& batch, absl::Span<const float> gradients) override {
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      if (i + kAhead < batch.rows.size()) Prefetch(batch.rows[i + kAhead], row_bytes_);
      float* const row = reinterpret_cast<float*>(RowAt(batch.rows[i]));
      step_.gradient = gradients.subspan(i * width_, width_);
      step_.value_in = step_.value_out = absl::MakeSpan(row, width_);
      step_.slots[0] = {absl::MakeSpan(row + width_, width_), absl::MakeSpan(row + width_, width_)};
      kernel_->Apply(step_);
    }
  }

 private:
  static constexpr size_t kAhead = 16;

  std::byte* RowAt(int64_t row) { return memory_.begin() + static_cast<size_t>(row) * row_bytes_; }
  void Prefetch(int64_t row, size_t bytes) {
    for (size_t offset = 0; offset < bytes; offset += 64) PrefetchLine(RowAt(row) + offset);
  }

  HugePages memory_;
  const std::unique_ptr<UpdateKernel> kernel_;
  const size_t width_;
  const size_t row_bytes_;
  UpdateStep step_;
};

}  // namespace

uint64_t KeyOf(int64_t row) { return Mix64(static_cast<uint64_t>(row) ^ 0x5bd1e995u); }

RowBatch BatchOf(std::vector<int64_t> rows) {
  std::vector<uint64_t> keys(rows.size());
  std::transform(rows.begin(), rows.end(), keys.begin(), KeyOf);
  return {std::move(rows), std::move(keys)};
}

absl::StatusOr<std::unique_ptr<DynamicBenchTable>> DynamicBenchTable::Make(
    size_t width, const RowPolicy& policy) {
  RowTableOptions options;
  options.row = {"bench", width, DType::kFloat32, {"random_uniform", -0.05, 0.05, 1}};
  options.policy = policy;
  options.rule = Adagrad();
  ASSIGN_OR_RETURN(std::unique_ptr<RowTable> table, RowTable::Create(options));
  return std::unique_ptr<DynamicBenchTable>(new DynamicBenchTable(std::move(table)));
}

void DynamicBenchTable::Pull(const RowBatch& batch, absl::Span<float> out) {
  table_->Pull(batch.keys, kNow, out);
}

void DynamicBenchTable::Push(const RowBatch& batch, absl::Span<const float> gradients) {
  table_->Push(batch.keys, gradients, {kLearningRate, 1}, kNow);
}

TableRows DynamicBenchTable::Save() const { return table_->Save(kNow); }

absl::StatusOr<std::unique_ptr<BenchTable>> MakeDenseTable(const TableSizes& sizes) {
  proto::VariableLayout layout;
  layout.set_name("bench");
  layout.set_dtype(static_cast<int32_t>(DType::kFloat32));
  layout.add_dims(static_cast<int64_t>(sizes.rows));
  layout.add_dims(static_cast<int64_t>(sizes.width));
  layout.add_slices()->set_row_count(static_cast<int64_t>(sizes.rows));
  *layout.mutable_rule() = Adagrad();
  layout.mutable_initializer()->set_op("zeros");
  ASSIGN_OR_RETURN(const std::vector<SliceLayout> slices, SlicesOf(layout));
  ASSIGN_OR_RETURN(std::unique_ptr<VariableSlice> shard,
                   VariableSlice::Create(slices[0], HostMemory()));
  return std::make_unique<DenseTable>(std::move(shard));
}

absl::StatusOr<std::unique_ptr<BenchTable>> MakeFlatTable(const TableSizes& sizes) {
  ASSIGN_OR_RETURN(std::unique_ptr<UpdateKernel> kernel, MakeUpdateKernel(Adagrad()));
  return std::make_unique<FlatTable>(sizes, std::move(kernel));
}

}  // namespace cohort::bench
