// Admission, eviction, 16-bit rows, and rows that move to other tables.

#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "common/runtime/kernel/half_floats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/table/row_table.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

using Keys = std::vector<uint64_t>;
using Floats = std::vector<float>;
const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

RowTableOptions OptionsFor(size_t width) {
  RowTableOptions options;
  options.row = {"views", width, DType::kFloat32, {"random_uniform", -1, 1, 3}};
  options.rule.set_op("adagrad");
  return options;
}

std::unique_ptr<RowTable> MakeTable(const RowTableOptions& options) {
  auto table = RowTable::Create(options);
  EXPECT_TRUE(table.ok()) << table.status();
  return std::move(*table);
}

void Push(RowTable& table, const Keys& keys, absl::Time now = kStart, uint64_t step = 1) {
  const Floats gradients(keys.size() * table.layout().width(), 0.5f);
  table.Push(keys, gradients, {0.1, step}, now);
}

Floats Pull(const RowTable& table, const Keys& keys) {
  Floats out(keys.size() * table.layout().width());
  table.Pull(keys, kStart, absl::MakeSpan(out));
  return out;
}

Keys Range(uint64_t first, size_t count) {
  Keys keys(count);
  for (size_t i = 0; i < count; ++i) keys[i] = Mix64(first + i);
  return keys;
}

std::set<uint64_t> LiveKeys(const RowTable& table, absl::Time now) {
  const TableRows rows = table.Save(now);
  const absl::Span<const int64_t> keys = rows.keys.span<int64_t>();
  return {keys.begin(), keys.end()};
}

TEST(RowPolicyTest, AKeyGetsItsRowAtTheNthSightAndItsNeighboursKeepTheirGradients) {
  RowTableOptions options = OptionsFor(4);
  options.policy.admit_after = 3;
  const auto table = MakeTable(options);
  Push(*table, {1, 2, 3});
  Push(*table, {2, 3});
  EXPECT_EQ(table->Use().rows, 0u);
  const Floats before = Pull(*table, {2, 4});
  Push(*table, {4, 2, 1});
  EXPECT_EQ(LiveKeys(*table, kStart), std::set<uint64_t>({2}));
  EXPECT_EQ(table->Use().counts.dropped, 7u);
  const Floats after = Pull(*table, {2, 4});
  EXPECT_NE(after[0], before[0]);
  EXPECT_EQ(after[4], before[4]);
}

// Of a million keys that come once hardly one is taken for another that was seen before.
TEST(RowPolicyTest, KeysThatAreSeenOnceGetHardlyAnyRows) {
  RowTableOptions options = OptionsFor(1);
  options.policy.admit_after = 2;
  const auto table = MakeTable(options);
  constexpr size_t kBatch = 10'000;
  for (uint64_t batch = 0; batch < 100; ++batch) {
    const Keys keys = Range(batch * kBatch, kBatch);
    Push(*table, keys);
    if (batch % 10 == 0) Push(*table, Keys(keys.begin(), keys.begin() + 100));
  }
  const RowTableUse use = table->Use();
  EXPECT_GE(use.rows, 1000u) << "those that came twice";
  // Four counters for each sight of a generation, a quarter and then half of them in use: a sixth
  // of the keys would be taken for others at the most.
  EXPECT_LE(use.rows, 1'000'000u / 6);
  EXPECT_LE(use.index_bytes, size_t{16} << 20);
}

TEST(RowPolicyTest, AdmissionByProbabilityIsDecidedBySeedTableKeyAndStep) {
  RowTableOptions options = OptionsFor(1);
  options.policy.admit_probability = 0.25;
  const auto table = MakeTable(options);
  const Keys keys = Range(0, 10'000);
  Push(*table, keys);
  EXPECT_NEAR(static_cast<double>(table->Use().rows), 2500, 5 * std::sqrt(10'000 * 0.25 * 0.75));
  const auto other = MakeTable(options);
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) Push(*other, {*key});
  EXPECT_EQ(LiveKeys(*other, kStart), LiveKeys(*table, kStart));
  Push(*other, keys, kStart, 2);
  EXPECT_NEAR(static_cast<double>(other->Use().rows), 4375, 5 * std::sqrt(10'000 * 0.44 * 0.56));
}

TEST(RowPolicyTest, ARowIsReadAsNewFromItsTimeToLiveOn) {
  RowTableOptions options = OptionsFor(2);
  options.policy.ttl = absl::Seconds(5);
  const auto table = MakeTable(options);
  const Floats first = Pull(*table, {9});
  Push(*table, {9});
  Floats out(2);
  table->Pull({9}, kStart + absl::Milliseconds(4900), absl::MakeSpan(out));
  EXPECT_NE(out, first);
  table->Pull({9}, kStart + absl::Seconds(5), absl::MakeSpan(out));
  EXPECT_EQ(out, first);
  Push(*table, {9}, kStart + absl::Seconds(5));
  EXPECT_EQ(table->Use().counts.expired, 1u);
  table->Pull({9}, kStart - absl::Hours(1), absl::MakeSpan(out));  // a clock that was put back
  EXPECT_NE(out, first);
}

TEST(RowPolicyTest, UnboundedNewKeysStayInTheMemoryThatTheTableMayTake) {
  for (const size_t width : {1, 16, 200}) {
    RowTableOptions options = OptionsFor(width);
    options.policy.bytes_max = size_t{10} << 20;
    const auto table = MakeTable(options);
    for (int64_t batch = 0; batch < 100; ++batch) {
      Push(*table, Range(static_cast<uint64_t>(batch) * 5000, 5000), kStart + absl::Seconds(batch));
    }
    const RowTableUse use = table->Use();
    EXPECT_LE(use.row_bytes + use.index_bytes, options.policy.bytes_max * 105 / 100) << width;
    EXPECT_GE(use.payload_bytes + use.rows * 24, options.policy.bytes_max * 60 / 100) << width;
    EXPECT_EQ(use.rows + use.counts.evicted, 500'000u);
  }
}

double SurvivorsOf(RowPolicy::Evict evict) {
  RowTableOptions options = OptionsFor(16);
  options.policy.bytes_max = size_t{8} << 20;
  options.policy.evict = evict;
  const auto table = MakeTable(options);
  const Keys often = Range(1'000'000'000, 1000);
  absl::Time now = kStart;
  for (int i = 0; i < 10; ++i) Push(*table, often, now);
  for (uint64_t batch = 0; batch < 30; ++batch) {
    now += absl::Seconds(1);
    Push(*table, Range(batch * 2000, 2000), now);
    if (evict == RowPolicy::Evict::kLeastRecentlyUsed) Push(*table, often, now);
  }
  const std::set<uint64_t> live = LiveKeys(*table, now);
  double survivors = 0;
  for (const uint64_t key : often) survivors += static_cast<double>(live.count(key));
  return survivors / static_cast<double>(often.size());
}

TEST(RowPolicyTest, WhatIsUsedOftenOrWasUsedLatelyStays) {
  EXPECT_GE(SurvivorsOf(RowPolicy::Evict::kLeastRecentlyUsed), 0.99);
  EXPECT_GE(SurvivorsOf(RowPolicy::Evict::kLeastFrequentlyUsed), 0.99);
}

TEST(RowPolicyTest, RowsMoveToTablesOfPartsOfTheKeys) {
  const auto table = MakeTable(OptionsFor(3));
  const Keys keys = Range(0, 3000);
  for (int i = 0; i < 3; ++i) Push(*table, Keys(keys.begin() + 500 * i, keys.end()));
  const TableRows rows = table->Save(kStart);
  const auto even = MakeTable(OptionsFor(3));
  const auto odd = MakeTable(OptionsFor(3));
  even->Load(
      {rows}, [](uint64_t key) { return key % 2 == 0; }, kStart);
  odd->Load(
      {rows}, [](uint64_t key) { return key % 2 == 1; }, kStart);
  EXPECT_EQ(even->Use().rows + odd->Use().rows, keys.size());
  const TableRows parts[] = {odd->Save(kStart), even->Save(kStart)};
  const auto whole = MakeTable(OptionsFor(3));
  whole->Load(
      parts, [](uint64_t) { return true; }, kStart);
  EXPECT_EQ(Pull(*whole, keys), Pull(*table, keys));
  for (RowTable* each : {whole.get(), table.get()}) Push(*each, keys);
  EXPECT_EQ(Pull(*whole, keys), Pull(*table, keys)) << "the slots, too";
}

// A row that is made at step 1000 has missed nothing.
TEST(RowPolicyTest, ANewRowHasNoStepsToMakeUpFor) {
  RowTableOptions options = OptionsFor(2);
  options.rule.set_op("adam");
  options.rule.set_sparse(proto::LAZY_COMPENSATED);
  proto::HyperParameter& decay = *options.rule.add_parameters();
  decay.set_name("weight_decay");
  decay.set_value(0.01);
  const auto late = MakeTable(options);
  const Floats before = Pull(*late, {5});
  late->Push({5}, Floats(2, 0), {0.1, 1000}, kStart);
  const Floats after = Pull(*late, {5});
  EXPECT_FLOAT_EQ(after[0], before[0] * (1 - 0.1f * 0.01f)) << "one step of decay, not a thousand";
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// The compiler's own 16-bit type, for each of its values and for floats beside them.
TEST(HalfFloatsTest, Float16IsTheCompilersForEachOfItsValues) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const auto exact = static_cast<float>(std::bit_cast<_Float16>(half));
    float value = 0;
    FromFloat16(&half, &value, 1);
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    ASSERT_EQ(value, exact) << bits;
    const float next = std::nextafter(exact, 1e9f);
    for (const float near : {exact, next, exact * 1.000244140625f, exact * 1.0003f}) {
      uint16_t rounded = 0;
      ToFloat16(&near, &rounded, 1);
      ASSERT_EQ(rounded, std::bit_cast<uint16_t>(static_cast<_Float16>(near))) << near;
    }
  }
}
#endif

// A bfloat16 is the upper half of a float32; the nearest of the two that surround a float is found
// by comparing distances.
TEST(HalfFloatsTest, Bfloat16IsTheNearestWithTiesToEven) {
  SequenceRng rng(5);
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<uint32_t>(rng.Next()) & (i % 3 == 0 ? 0xffff8000u : ~0u);
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value) || std::abs(value) > 3e38f) continue;
    uint16_t half = 0;
    ToBfloat16(&value, &half, 1);
    const auto below = static_cast<uint16_t>(bits >> 16);
    const double low = std::bit_cast<float>(uint32_t{below} << 16);
    const double high = std::bit_cast<float>((uint32_t{below} + 1) << 16);
    const double down = std::abs(value - low);
    const double up = std::abs(high - value);
    const bool goes_up = up < down || (up == down && below % 2 == 1);
    ASSERT_EQ(half, goes_up ? below + 1 : below) << value;
  }
  const float nan = std::nanf("");
  uint16_t half = 0;
  ToBfloat16(&nan, &half, 1);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(uint32_t{half} << 16)));
}

// One step in float32 from a rounded value, rounded again.
TEST(RowPolicyTest, RowsOf16BitsAreUpdatedInFloat32AndRounded) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    RowTableOptions options = OptionsFor(7);
    options.row.dtype = dtype;
    const auto table = MakeTable(options);
    const auto exact = MakeTable(OptionsFor(7));
    const Keys keys = Range(0, 100);
    const double digits = dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
    const Floats start = Pull(*exact, keys);
    const Floats rounded = Pull(*table, keys);
    Push(*table, keys);
    const Floats after = Pull(*table, keys);
    const float sum = 0.1f + 0.25f;
    for (size_t i = 0; i < start.size(); ++i) {
      ASSERT_NEAR(rounded[i], start[i], digits * std::abs(start[i]) + 1e-7);
      const double next = rounded[i] - 0.1 * 0.5 / std::sqrt(sum + 1e-7);
      ASSERT_NEAR(after[i], next, digits * std::abs(next) + 1e-6);
    }
    const size_t bytes = 7 * 2 + 2 + 7 * 4;  // values rounded up, slots
    EXPECT_EQ(table->layout().payload_bytes(), bytes);
  }
}

}  // namespace
}  // namespace cohort
