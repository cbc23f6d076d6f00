#include "ps_server/table/row_table.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/program/update_rule.h"
#include "ps_server/table/prefetch.h"

namespace cohort {

namespace {

// Copies rows out.
struct ReadRows {
  void Prefetch(uint32_t at) const {
    const float* const to = out + at * width;
    for (size_t i = 0; i < width; i += 16) PrefetchLine(to + i);
  }
  void Apply(std::byte* row, uint32_t at) const {
    std::memcpy(out + at * width, RowLayout::Values(row), width * sizeof(float));
  }

  float* out;
  size_t width;
};

// Applies gradients in place.
struct UpdateRows {
  void Prefetch(uint32_t at) const {
    const float* const from = gradients + at * layout.width();
    for (size_t i = 0; i < layout.width(); i += 16) PrefetchLine(from + i);
  }
  void Apply(std::byte* row, uint32_t at) const {
    const size_t width = layout.width();
    float* const values = RowLayout::Values(row);
    step.gradient = absl::MakeConstSpan(gradients + at * width, width);
    step.value_in = step.value_out = absl::MakeSpan(values, width);
    for (size_t i = 0; i < step.slots.size(); ++i) {
      const RowLayout::Slot& slot = layout.slots()[i];
      const absl::Span<float> span = absl::MakeSpan(values + slot.offset, slot.elements);
      step.slots[i] = {span, span};
    }
    kernel.Apply(step);
  }

  const RowLayout& layout;
  const UpdateKernel& kernel;
  const float* gradients;
  UpdateStep& step;  // what is the same for all rows is set
};

}  // namespace

struct RowTable::Batch {
  std::vector<KeyAt> keys;    // in the batch's order
  std::vector<KeyAt> sorted;  // by stripe
};

RowTable::RowTable(RowLayout layout, std::unique_ptr<UpdateKernel> kernel)
    : layout_(std::move(layout)), kernel_(std::move(kernel)) {
  for (size_t i = 0; i < kStripes; ++i) {
    stripes_.push_back(std::make_unique<LockedStripe>(layout_, memory_));
  }
}

RowTable::~RowTable() = default;

absl::StatusOr<std::unique_ptr<RowTable>> RowTable::Create(const RowTableOptions& options) {
  ASSIGN_OR_RETURN(const UpdateRuleSpec rule, DescribeUpdateRule(options.rule));
  ASSIGN_OR_RETURN(std::unique_ptr<UpdateKernel> kernel, MakeUpdateKernel(options.rule));
  ASSIGN_OR_RETURN(RowLayout layout,
                   RowLayout::Make(options.name, options.width, options.initializer, rule));
  return std::unique_ptr<RowTable>(new RowTable(std::move(layout), std::move(kernel)));
}

std::unique_ptr<RowTable::Batch> RowTable::TakeBatch() {
  MutexLock lock(mutex_);
  if (batches_.empty()) return std::make_unique<Batch>();
  std::unique_ptr<Batch> batch = std::move(batches_.back());
  batches_.pop_back();
  return batch;
}

void RowTable::ReturnBatch(std::unique_ptr<Batch> batch) {
  MutexLock lock(mutex_);
  batches_.push_back(std::move(batch));
}

void RowTable::ForStripes(absl::Span<const uint64_t> keys,
                          absl::FunctionRef<void(RowStripe&, absl::Span<const KeyAt>)> visit) {
  COHORT_CHECK(keys.size() < std::numeric_limits<uint32_t>::max(), "a batch of 32-bit size");
  std::unique_ptr<Batch> batch = TakeBatch();
  batch->keys.resize(keys.size());
  batch->sorted.resize(keys.size());
  std::array<uint32_t, kStripes + 1> begins = {};
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t hash = RowStripe::HashOf(keys[i]);
    batch->keys[i] = {hash, keys[i], static_cast<uint32_t>(i)};
    ++begins[hash % kStripes + 1];
  }
  for (size_t i = 0; i < kStripes; ++i) begins[i + 1] += begins[i];
  std::array<uint32_t, kStripes + 1> ends = begins;
  for (const KeyAt& key : batch->keys) batch->sorted[ends[key.hash % kStripes]++] = key;
  // Batches of several threads begin in different places, so that they do not follow one another
  // from lock to lock.
  const size_t first = keys.empty() ? 0 : batch->keys[0].hash % kStripes;
  for (size_t i = 0; i < kStripes; ++i) {
    const size_t stripe = (first + i) % kStripes;
    if (begins[stripe] == begins[stripe + 1]) continue;
    LockedStripe& locked = *stripes_[stripe];
    MutexLock lock(locked.mutex);
    visit(locked.rows, absl::MakeConstSpan(batch->sorted)
                           .subspan(begins[stripe], begins[stripe + 1] - begins[stripe]));
  }
  ReturnBatch(std::move(batch));
}

void RowTable::Pull(absl::Span<const uint64_t> keys, absl::Span<float> out) {
  const size_t width = layout_.width();
  COHORT_CHECK(out.size() == keys.size() * width, "a row of values for each key");
  const size_t bytes = sizeof(RowHeader) + width * sizeof(float);
  ForStripes(keys, [&](RowStripe& stripe, absl::Span<const KeyAt> part) {
    stripe.Visit(part, MissingRow::kCreate, bytes, ReadRows{out.data(), width});
  });
}

void RowTable::Push(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
                    const PushRates& rates, MissingRow missing) {
  COHORT_CHECK(gradients.size() == keys.size() * layout_.width(), "a row of gradients each");
  UpdateStep step;
  step.learning_rate = rates.learning_rate;
  step.step = rates.step;
  step.row_width = layout_.width();
  step.slots.resize(layout_.slots().size());
  const UpdateRows update = {layout_, *kernel_, gradients.data(), step};
  ForStripes(keys, [&](RowStripe& stripe, absl::Span<const KeyAt> part) {
    stripe.Visit(part, missing, layout_.row_bytes(), update);
  });
}

size_t RowTable::Erase(absl::Span<const uint64_t> keys) {
  size_t erased = 0;
  ForStripes(keys, [&](RowStripe& stripe, absl::Span<const KeyAt> part) {
    for (const KeyAt& key : part) erased += stripe.Erase(key) ? 1 : 0;
  });
  return erased;
}

RowTableUse RowTable::Use() const {
  RowTableUse use;
  for (const std::unique_ptr<LockedStripe>& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    use.rows += stripe->rows.rows();
    use.index_bytes += stripe->rows.index_bytes();
  }
  use.row_bytes = memory_.bytes();
  use.payload_bytes = use.rows * layout_.payload_bytes();
  return use;
}

}  // namespace cohort
