// A copy of a table goes on as the table itself does, whatever its policy: what every later push
// does follows from what is saved and from the push. Expectations: the table that was copied, whose
// memory, index and draws have another past.

#include <limits>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/table/row_table.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

using Keys = std::vector<uint64_t>;

constexpr size_t kWidth = 256;  // so that few rows reach the least limit of memory
const absl::Time kStart = absl::FromUnixSeconds(1000);

RowTableOptions OptionsFor(const RowPolicy& policy) {
  RowTableOptions options;
  options.row = {"clicks", kWidth, DType::kFloat32, {"zeros", 0, 0, 3}};
  options.policy = policy;
  options.rule.set_op("adagrad");
  return options;
}

std::unique_ptr<RowTable> MakeTable(const RowPolicy& policy) {
  auto table = RowTable::Create(OptionsFor(policy));
  EXPECT_TRUE(table.ok()) << table.status();
  return std::move(*table);
}

std::unique_ptr<RowTable> CopyOf(const RowTable& table, const RowPolicy& policy, absl::Time now) {
  auto copy = MakeTable(policy);
  copy->Load(
      {table.Save(now)}, [](uint64_t) { return true; }, now);
  copy->LoadState({table.SaveState()});
  return copy;
}

// Of each key its row: age, uses, and the first value.
std::map<int64_t, std::string> Contents(const RowTable& table, absl::Time now) {
  const TableRows rows = table.Save(now);
  std::map<int64_t, std::string> contents;
  for (size_t i = 0; i < static_cast<size_t>(rows.keys.num_elements()); ++i) {
    const int32_t* const uses = rows.uses.data<int32_t>() + 2 * i;
    contents[rows.keys.data<int64_t>()[i]] =
        absl::StrCat(uses[0], " ", uses[1], " ", rows.values.data<float>()[i * kWidth], " ",
                     rows.slots[0].data<float>()[i * kWidth]);
  }
  EXPECT_EQ(contents.size(), table.Use().rows);
  return contents;
}

bool SameState(const RowTable& a, const RowTable& b) {
  const TableState one = a.SaveState();
  const TableState other = b.SaveState();
  const auto same = [](const Tensor& x, const Tensor& y) {
    return x.num_bytes() == y.num_bytes() && std::equal(x.raw(), x.raw() + x.num_bytes(), y.raw());
  };
  return same(one.stripes, other.stripes) && same(one.sights, other.sights) &&
         one.counts.dropped == other.counts.dropped && one.counts.expired == other.counts.expired &&
         one.counts.evicted == other.counts.evicted;
}

struct Push {
  Keys keys;
  uint64_t step = 0;
  absl::Time now;
};

// Many keys that come once and some that come often; sometimes none, or after a while.
Push DrawPush(SequenceRng& rng, uint64_t step, absl::Time& now) {
  now += absl::Milliseconds(rng.Below(20) == 0 ? 2000 : rng.Below(100));
  Push push = {{}, step, now};
  const size_t count = rng.Below(10) == 0 ? rng.Below(3) : rng.Below(300);
  for (size_t i = 0; i < count; ++i) {
    push.keys.push_back(Mix64(rng.Below(3) == 0 ? rng.Below(400) : rng.Next()));
  }
  return push;
}

void Apply(RowTable& table, const Push& push) {
  const std::vector<float> gradients(push.keys.size() * kWidth,
                                     static_cast<float>(push.step % 7 + 1));
  table.Push(push.keys, gradients, {0.1, push.step}, push.now);
}

std::vector<RowPolicy> Policies() {
  std::vector<RowPolicy> policies;
  for (const uint32_t admit_after : {1, 3}) {
    for (const double probability : {1.0, 0.5}) {
      for (const absl::Duration ttl : {absl::InfiniteDuration(), absl::Seconds(3)}) {
        policies.push_back({admit_after, probability, ttl});
        for (const auto evict :
             {RowPolicy::Evict::kLeastRecentlyUsed, RowPolicy::Evict::kLeastFrequentlyUsed}) {
          policies.push_back({admit_after, probability, ttl, size_t{8} << 20, evict});
        }
      }
    }
  }
  return policies;
}

TEST(TableCopyTest, ACopyGoesOnAsTheTableDoesUnderEveryPolicy) {
  const uint64_t seed = TestSeed(1);
  SCOPED_TRACE(Replay("ps_table_test", seed, "TableCopyTest.*"));
  RowCounts met;
  for (const RowPolicy& policy : Policies()) {
    SCOPED_TRACE(absl::StrCat("admit_after ", policy.admit_after, ", probability ",
                              policy.admit_probability, ", ttl ", absl::FormatDuration(policy.ttl),
                              ", bytes_max ", policy.bytes_max, ", evict ",
                              static_cast<int>(policy.evict)));
    SequenceRng rng(seed);
    absl::Time now = kStart;
    const auto table = MakeTable(policy);
    std::unique_ptr<RowTable> copy = MakeTable(policy);
    for (uint64_t step = 1; step <= 100; ++step) {
      const Push push = DrawPush(rng, step, now);
      Apply(*table, push);
      Apply(*copy, push);
      if (step % 10 == 0) {
        ASSERT_EQ(Contents(*copy, now), Contents(*table, now)) << "step " << step;
        ASSERT_TRUE(SameState(*copy, *table)) << "step " << step;
      }
      // Also a copy of the copy.
      if (rng.Below(25) == 0) copy = CopyOf(rng.Below(2) == 0 ? *table : *copy, policy, now);
    }
    const RowCounts counts = table->Use().counts;
    met.dropped += counts.dropped;
    met.expired += counts.expired;
    met.evicted += counts.evicted;
  }
  EXPECT_GT(met.dropped, 10'000u) << "the test meets what it is for";
  EXPECT_GT(met.expired, 10'000u);
  EXPECT_GT(met.evicted, 10'000u);
}

// A table that is cut otherwise: no key counts as seen less often than it was.
TEST(TableCopyTest, SightsGoToTablesOfOtherPartsOfTheKeys) {
  RowPolicy policy;
  policy.admit_after = 3;
  const auto even = MakeTable(policy);
  const auto odd = MakeTable(policy);
  Keys keys;
  for (uint64_t i = 0; i < 600; ++i) keys.push_back(i);
  for (const uint64_t key : keys) {
    for (uint64_t step : {1, 2}) Apply(*(key % 2 == 0 ? even : odd), {{key}, step, kStart});
  }
  const auto whole = MakeTable(policy);
  const TableState states[] = {even->SaveState(), odd->SaveState()};
  whole->LoadState(states);
  Apply(*whole, {keys, 3, kStart});
  EXPECT_EQ(whole->Use().rows, keys.size());
  whole->Load(
      {}, [](uint64_t) { return true; }, kStart);
  Apply(*whole, {keys, 3, kStart});
  EXPECT_EQ(whole->Use().rows, 0u) << "a table that is loaded anew has seen nothing";
}

// What a file says is not believed: a generation that never ends would forget nothing.
TEST(TableCopyTest, NumbersOfAFileThatCannotBeAreCutToWhatCan) {
  RowPolicy policy;
  policy.admit_after = 2;
  const auto table = MakeTable(policy);
  Apply(*table, {{1}, 1, kStart});
  for (const int64_t sights : {std::numeric_limits<int64_t>::max(), int64_t{-1}}) {
    TableState state = table->SaveState();
    std::fill_n(state.stripes.mutable_data<int64_t>(), state.stripes.num_elements(), sights);
    const auto loaded = MakeTable(policy);
    loaded->LoadState({state});
    EXPECT_LE(loaded->SaveState().stripes.data<int64_t>()[0],
              static_cast<int64_t>(SightCounts::kSightsInGeneration));
    EXPECT_GE(loaded->SaveState().stripes.data<int64_t>()[0], 0);
    Apply(*loaded, {{1}, 2, kStart});
    EXPECT_EQ(loaded->Use().rows, 1u) << "the generation before counts too";
  }
}

}  // namespace
}  // namespace cohort
