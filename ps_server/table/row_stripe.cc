#include "ps_server/table/row_stripe.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/base/check.h"

namespace cohort {

namespace {

constexpr size_t kUpdatesAtOnce = 16;
constexpr size_t kDrawn = 16;
// Rows that a push looks at for each of its keys, whether they have expired.
constexpr size_t kSweptPerKey = 2;
constexpr size_t kLine = 64;
constexpr size_t kFloatsInLine = kLine / sizeof(float);

// A hash that follows from the new key and the step alone.
uint64_t DrawFor(const KeyAt& key, uint64_t step) { return Mix64(key.hash ^ Mix64(step)); }

void PrefetchFloats(const float* begin, size_t count) {
  for (size_t i = 0; i < count; i += kFloatsInLine) PrefetchLine(begin + i);
}

}  // namespace

// Rows whose update is to come. Lives as long as a push.
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
      // One after the other: a key that occurs twice has the same row twice.
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
  std::vector<float> scratch_;  // values in float32, where the rows have others
  size_t count_ = 0;
};

void RowStripe::PrefetchRows(absl::Span<const KeyAt> keys, size_t bytes, Guesses& guesses) const {
  std::array<const std::byte*, kGroup> rows;
  for (size_t i = 0; i < keys.size(); ++i) {
    guesses[i] = index_.Guess(keys[i].hash);
    // Any line will do where there is none.
    rows[i] =
        guesses[i] == kNone ? reinterpret_cast<const std::byte*>(this) : slabs_.At(guesses[i]);
  }
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
        if (header.uses != std::numeric_limits<uint32_t>::max()) ++header.uses;
        updates.Add(slabs_.At(row), key.at);
      });
  updates.Flush();
  if (rules_.ttl != 0) Sweep(keys.size() * kSweptPerKey, push.now);
}

bool RowStripe::IsAdmitted(const KeyAt& key, uint64_t step) {
  const RowPolicy& policy = rules_.policy;
  if (policy.admit_after > 1 && sights_.See(key.hash) < policy.admit_after) return false;
  return policy.admit_probability == 1 ||
         layout_.stream().Child(~key.key).Uniform(step) < policy.admit_probability;
}

uint32_t RowStripe::MakeRow(const KeyAt& key, const RowPush& push, Updates& updates) {
  if (!IsAdmitted(key, push.step.step)) return kNone;
  if (IsAtLimit()) {
    updates.Flush();  // what is evicted may be waiting for its update
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
  const int32_t age = RowTime::Age(a.stamp, now);
  const int32_t other_age = RowTime::Age(b.stamp, now);
  if (age != other_age) return age > other_age;
  return HashOf(a.key) - from < HashOf(b.key) - from;
}

void RowStripe::Evict(uint64_t draw, uint32_t now) {
  COHORT_CHECK(index_.rows() > 0, "a row to evict");
  const uint64_t range = RangeOf(kDrawn);
  uint32_t worst = kNone;
  // Ranges without a row are rare, and one after the other they cover all.
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
  swept_ = 0;
}

}  // namespace cohort
