#include "ps_server/table/row_stripe.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/base/check.h"

namespace cohort {

namespace {

// The number of row updates that are collected and passed to the update kernel at once.
constexpr size_t kUpdatesAtOnce = 16;
// The average number of rows from which one row to evict is chosen.
constexpr size_t kDrawn = 16;
// The number of rows that a push searches for expired ones, for each key of the push. A key can add
// one row, so searching two rows for each key keeps pace with the growth of the table.
constexpr size_t kSweptPerKey = 2;
constexpr size_t kLine = 64;

// Returns the random number that selects the rows from which one is evicted. The number depends
// only on the new key and the step, so all copies of a table evict the same rows.
uint64_t DrawFor(const KeyAt& key, uint64_t step) { return Mix64(key.hash ^ Mix64(step)); }

}  // namespace

// Row updates of one push that are collected but not applied yet. Lives as long as the push.
class RowStripe::Updates {
 public:
  Updates(const RowLayout& layout, const RowPush& push) : layout_(layout), push_(push) {
    if (!layout.is_float32()) scratch_.resize(kUpdatesAtOnce * layout.width());
  }
  ~Updates() { Flush(); }
  Updates(const Updates&) = delete;

  void Add(std::byte* row, uint32_t at) {
    RowUpdate& update = updates_[count_];
    update.gradient = push_.gradients + at * layout_.width();
    // The update kernel computes in float32, so rows of 16-bit floats are converted to float32 in
    // scratch memory, and back after the update.
    if (layout_.is_float32()) {
      update.value = reinterpret_cast<float*>(RowLayout::Values(row));
    } else {
      update.value = scratch_.data() + count_ * layout_.width();
    }
    const std::vector<RowLayout::Slot>& slots = layout_.slots();
    for (size_t i = 0; i < slots.size(); ++i) {
      update.slots[i] = RowLayout::SlotOf(row, slots[i]);
    }
    rows_[count_] = row;
    if (++count_ == kUpdatesAtOnce) Flush();
  }

  void Flush() {
    const absl::Span<const RowUpdate> updates(updates_.data(), count_);
    if (layout_.is_float32()) {
      push_.kernel.ApplyRows(updates, push_.step);
    } else {
      // Rows of 16-bit floats are updated one by one. If a key occurs twice in the batch, `rows_`
      // has its row twice, and the second update must see the result of the first.
      for (size_t i = 0; i < count_; ++i) {
        layout_.Read(rows_[i], updates_[i].value);
        push_.kernel.ApplyRows(updates.subspan(i, 1), push_.step);
        layout_.Write(updates_[i].value, rows_[i]);
      }
    }
    count_ = 0;
  }

 private:
  const RowLayout& layout_;
  const RowPush& push_;
  std::array<RowUpdate, kUpdatesAtOnce> updates_;
  std::array<std::byte*, kUpdatesAtOnce> rows_;
  // The values of collected updates in float32, if the table has 16-bit floats.
  std::vector<float> scratch_;
  size_t count_ = 0;
};

void RowStripe::PrefetchRows(absl::Span<const KeyAt> keys, size_t bytes, Guesses& guesses) const {
  std::array<const std::byte*, kGroup> rows;
  for (size_t i = 0; i < keys.size(); ++i) {
    guesses[i] = index_.Guess(keys[i].hash);
    // For a key without a guessed row, any valid address is prefetched, which saves a branch in the
    // loops below.
    rows[i] =
        guesses[i] == kNone ? reinterpret_cast<const std::byte*>(this) : slabs_.At(guesses[i]);
  }
  // The first cache line of every row is prefetched in a loop of its own, because few instructions
  // per prefetch let more prefetches overlap (row_stripe.h).
  for (size_t i = 0; i < keys.size(); ++i) PrefetchLine(rows[i]);
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::byte* const end = guesses[i] == kNone ? rows[i] : rows[i] + bytes - 1;
    const std::byte* line = rows[i] + kLine;
    for (; line < end; line += kLine) PrefetchLine(line);
    PrefetchLine(end);
  }
}

void RowStripe::Pull(absl::Span<const KeyAt> keys, uint32_t now, float* out) const {
  const size_t width = layout_.width();
  Visit(
      keys, sizeof(RowHeader) + layout_.value_bytes(),
      [&](uint32_t at) { PrefetchFloats(out + at * width, width); },
      [&](const KeyAt& key, uint32_t row) {
        float* const to = out + key.at * width;
        // A key without a row, or with an expired row, is read as the initial values of its row. A
        // pull makes no row.
        if (row != kNone && !Expired(RowLayout::Header(slabs_.At(row)), now)) [[likely]] {
          layout_.Read(slabs_.At(row), to);
        } else {
          layout_.FillValues(key.key, to);
        }
      });
}

void RowStripe::Push(absl::Span<const KeyAt> keys, const RowPush& push) {
  const size_t width = layout_.width();
  Updates updates(layout_, push);
  Visit(
      keys, layout_.row_bytes(),
      [&](uint32_t at) { PrefetchFloats(push.gradients + at * width, width); },
      [&](const KeyAt& key, uint32_t row) {
        // An expired row is removed, and MakeRow() then decides by the policy whether the key gets
        // a new row.
        if (row != kNone && Expired(RowLayout::Header(slabs_.At(row)), push.now)) {
          Remove(row);
          ++counts_.expired;
          row = kNone;
        }
        if (row == kNone) row = MakeRow(key, push, updates);
        if (row == kNone) {
          ++counts_.dropped;
          return;
        }
        RowHeader& header = RowLayout::Header(slabs_.At(row));
        header.stamp = push.now;
        // The number of uses stays at its maximum, because one more would make it 0, which marks
        // memory without a row.
        if (header.uses != std::numeric_limits<uint32_t>::max()) ++header.uses;
        updates.Add(slabs_.At(row), key.at);
      });
  // All collected updates are applied before Sweep() removes expired rows, which may be rows that
  // wait for an update.
  updates.Flush();
  if (rules_.ttl != 0) Sweep(keys.size() * kSweptPerKey, push.now);
}

bool RowStripe::IsAdmitted(const KeyAt& key, uint64_t step) {
  const RowPolicy& policy = rules_.policy;
  // The key is counted as seen before the random draw, so the count includes keys that the draw
  // refuses.
  if (policy.admit_after > 1 && sights_.See(key.hash) < policy.admit_after) return false;
  // The random stream of ~key is used, because the stream of `key` generates the row's initial
  // values.
  return policy.admit_probability == 1 ||
         layout_.stream().Child(~key.key).Uniform(step) < policy.admit_probability;
}

uint32_t RowStripe::MakeRow(const KeyAt& key, const RowPush& push, Updates& updates) {
  if (!IsAdmitted(key, push.step.step)) return kNone;
  if (IsAtLimit()) {
    updates.Flush();  // a collected update may be one of the row that is evicted
    Evict(DrawFor(key, push.step.step), push.now);
  }
  const uint32_t row = Insert(key);
  if (row != kNone) layout_.Fill(key.key, push.step.step, slabs_.At(row));
  return row;
}

uint32_t RowStripe::Insert(const KeyAt& key) {
  if (index_.full()) {
    index_.Grow([this](uint32_t row) { return HashOf(RowLayout::Header(slabs_.At(row)).key); },
                [this](uint32_t row) { PrefetchLine(slabs_.At(row)); });
  }
  const uint32_t row = slabs_.Allocate();
  if (row != kNone) index_.Insert(key.hash, row);
  return row;
}

std::byte* RowStripe::Add(const KeyAt& key, uint32_t now) {
  if (IsAtLimit()) Evict(DrawFor(key, /*step=*/0), now);
  const uint32_t row = Insert(key);
  if (row == kNone) return nullptr;
  RowLayout::Header(slabs_.At(row)).key = key.key;
  return slabs_.At(row);
}

void RowStripe::Remove(uint32_t row) {
  RowHeader& header = RowLayout::Header(slabs_.At(row));
  index_.Erase(HashOf(header.key), row);
  header.uses = 0;
  slabs_.Free(row);
}

uint64_t RowStripe::RangeOf(size_t rows) const {
  constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
  return rows >= index_.rows() ? kAll : kAll / index_.rows() * rows;
}

absl::Span<const uint32_t> RowStripe::RowsIn(uint64_t first, uint64_t last) {
  in_range_.clear();
  index_.VisitFrom(first, last, [&](uint32_t row) {
    PrefetchLine(slabs_.At(row));
    in_range_.push_back(row);
  });
  // VisitFrom also visits rows outside the range, which are removed here. The subtractions wrap
  // around, because the range may pass from the largest hash to 0.
  std::erase_if(in_range_, [&](uint32_t row) {
    return HashOf(RowLayout::Header(slabs_.At(row)).key) - first > last - first;
  });
  return in_range_;
}

bool RowStripe::IsWorse(uint32_t row, uint32_t other, uint64_t from, uint32_t now) const {
  const RowHeader& a = RowLayout::Header(slabs_.At(row));
  const RowHeader& b = RowLayout::Header(slabs_.At(other));
  const bool by_uses = rules_.policy.evict == RowPolicy::Evict::kLeastFrequentlyUsed;
  if (by_uses && a.uses != b.uses) return a.uses < b.uses;
  // The row with the older last push is worse. If both pushes are equally old, the row whose hash
  // comes first, counted from `from` on, is worse.
  const int32_t age = RowTime::Age(a.stamp, now);
  const int32_t other_age = RowTime::Age(b.stamp, now);
  if (age != other_age) return age > other_age;
  return HashOf(a.key) - from < HashOf(b.key) - from;
}

void RowStripe::Evict(uint64_t draw, uint32_t now) {
  COHORT_CHECK(index_.rows() > 0, "a row to evict");
  const uint64_t range = RangeOf(kDrawn);
  uint32_t worst = kNone;
  // If a range has no row, which is rare, the next range is searched. The ranges together cover all
  // hashes, so the loop ends.
  for (uint64_t first = draw; worst == kNone; first += range + 1) {
    for (const uint32_t row : RowsIn(first, first + range)) {
      if (worst == kNone || IsWorse(row, worst, first, now)) worst = row;
    }
  }
  Remove(worst);
  ++counts_.evicted;
}

void RowStripe::Sweep(size_t rows, uint32_t now) {
  if (index_.rows() == 0) return;
  const uint64_t last = swept_ + RangeOf(rows);
  for (const uint32_t row : RowsIn(swept_, last)) {
    if (!Expired(RowLayout::Header(slabs_.At(row)), now)) continue;
    Remove(row);
    ++counts_.expired;
  }
  swept_ = last + 1;
}

void RowStripe::Clear() {
  for (uint32_t place = 0; place < slabs_.places(); ++place) {
    const uint32_t row = slabs_.RowAt(place);
    if (RowLayout::Header(slabs_.At(row)).uses != 0) Remove(row);
  }
  sights_ = SightCounts();
  counts_ = RowCounts();
  swept_ = 0;
}

}  // namespace cohort
