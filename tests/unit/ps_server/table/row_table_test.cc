#include "ps_server/table/row_table.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "common/program/update_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

using Keys = std::vector<uint64_t>;
using Floats = std::vector<float>;

constexpr size_t kWidth = 19;  // twice eight, and some
constexpr uint64_t kLastKey = std::numeric_limits<uint64_t>::max();
const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

RowTableOptions OptionsFor(const std::string& rule) {
  RowTableOptions options;
  options.row.table = "clicks";
  options.row.width = kWidth;
  options.row.initializer = {"random_uniform", -1, 1, 3};
  options.rule.set_op(rule);
  return options;
}

std::unique_ptr<RowTable> MakeTable(const RowTableOptions& options) {
  absl::StatusOr<std::unique_ptr<RowTable>> table = RowTable::Create(options);
  EXPECT_TRUE(table.ok()) << table.status();
  return std::move(*table);
}

Floats Pull(const RowTable& table, const Keys& keys, absl::Time now = kStart) {
  Floats out(keys.size() * kWidth, -77);
  table.Pull(keys, now, absl::MakeSpan(out));
  return out;
}

// The same gradient for all.
void PushOnes(RowTable& table, const Keys& keys, absl::Time now = kStart, uint64_t step = 1) {
  table.Push(keys, Floats(keys.size() * kWidth, 1), {1, step}, now);
}

Floats RowOf(const Floats& all, size_t i) {
  return Floats(all.begin() + i * kWidth, all.begin() + (i + 1) * kWidth);
}

Keys Range(uint64_t first, size_t count) {
  Keys keys(count);
  for (size_t i = 0; i < count; ++i) keys[i] = Mix64(first + i);
  return keys;
}

TEST(RowTableTest, EveryKeyIsLegal) {
  const auto table = MakeTable(OptionsFor("assign_add"));
  const Keys keys = {0, kLastKey, 1, uint64_t{1} << 63};
  const Floats before = Pull(*table, keys);
  Floats ones(keys.size() * kWidth);
  for (size_t i = 0; i < ones.size(); ++i) ones[i] = static_cast<float>(i / kWidth + 1);
  table->Push(keys, ones, {}, kStart);
  const Floats after = Pull(*table, keys);
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i], before[i] + ones[i]);
  EXPECT_EQ(table->Use().rows, 4u);
}

TEST(RowTableTest, APullMakesNoRow) {
  const auto table = MakeTable(OptionsFor("sgd"));
  const Keys keys(50, 17);  // more than are under way at a time
  const Floats values = Pull(*table, keys);
  for (size_t i = 1; i < keys.size(); ++i) EXPECT_EQ(RowOf(values, i), RowOf(values, 0));
  EXPECT_EQ(table->Use().rows, 0u);
}

TEST(RowTableTest, FirstValuesDependOnSeedNameAndKeyAlone) {
  Keys keys;
  for (uint64_t i = 0; i < 1000; ++i) keys.push_back(i * i);
  const auto table = MakeTable(OptionsFor("adagrad"));
  const Floats values = Pull(*table, keys);
  const auto other = MakeTable(OptionsFor("assign_add"));  // other rows, too: there are no slots
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    other->Push({*key}, Floats(kWidth, 0), {}, kStart);
  }
  EXPECT_EQ(other->Use().rows, keys.size());
  EXPECT_EQ(Pull(*other, keys), values) << "live rows";
  EXPECT_NE(RowOf(values, 1), RowOf(values, 2));

  RowTableOptions renamed = OptionsFor("sgd");
  renamed.row.table = "views";
  EXPECT_NE(Pull(*MakeTable(renamed), keys), values);
  RowTableOptions reseeded = OptionsFor("sgd");
  reseeded.row.initializer.seed = 4;
  EXPECT_NE(Pull(*MakeTable(reseeded), keys), values);
}

TEST(RowTableTest, FirstValuesFollowTheInitializer) {
  Keys keys(4000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  RowTableOptions options = OptionsFor("sgd");
  options.row.initializer = {"random_normal", 2, 0.5, 1};
  double sum = 0;
  double squares = 0;
  for (const float value : Pull(*MakeTable(options), keys)) {
    sum += value;
    squares += (value - 2) * (value - 2);
  }
  const double count = static_cast<double>(keys.size() * kWidth);
  EXPECT_NEAR(sum / count, 2, 0.02);                     // 5.6 standard errors
  EXPECT_NEAR(std::sqrt(squares / count), 0.5, 0.0125);  // 5
  options.row.initializer = {"constant", 1.5, 0, 1};
  EXPECT_THAT(Pull(*MakeTable(options), keys), testing::Each(1.5f));
  options.row.initializer = {"zeros", 0, 0, 1};
  EXPECT_THAT(Pull(*MakeTable(options), keys), testing::Each(0.0f));
}

TEST(RowTableTest, SaysWhatIsWrong) {
  using testing::HasSubstr;
  const auto error = [](const RowTableOptions& options) {
    return std::string(RowTable::Create(options).status().message());
  };
  RowTableOptions options = OptionsFor("sgd");
  options.row.width = 0;
  EXPECT_THAT(error(options), HasSubstr("'clicks'"));
  EXPECT_THAT(error(OptionsFor("magic")), HasSubstr("magic"));
  options = OptionsFor("sgd");
  options.row.initializer.op = "guess";
  EXPECT_THAT(error(options), HasSubstr("'guess'"));
  options = OptionsFor("sgd");
  options.row.dtype = DType::kInt32;
  EXPECT_THAT(error(options), HasSubstr("int32"));
  options = OptionsFor("adam");
  EXPECT_THAT(error(options), HasSubstr("dense_exact updates by 'adam'"));
  options.rule.set_sparse(proto::LAZY);
  EXPECT_EQ(error(options), "");
  options.policy.admit_after = 0;
  EXPECT_THAT(error(options), HasSubstr("admit_after is 0"));
  options = OptionsFor("sgd");
  options.policy.admit_probability = 0;
  EXPECT_THAT(error(options), HasSubstr("admit_probability is 0"));
  options = OptionsFor("sgd");
  options.policy.ttl = absl::ZeroDuration();
  EXPECT_THAT(error(options), HasSubstr("ttl is 0"));
  options = OptionsFor("sgd");
  options.policy.bytes_max = 1000;
  EXPECT_THAT(error(options), HasSubstr("bytes_max is 1000"));
}

// Keras's formulas in double, one row at a time, and the table's rules for keys.
class Model {
 public:
  struct Row {
    std::vector<double> values;
    std::vector<double> sums;  // adagrad: for each element; rowwise_adagrad: one
    absl::Time pushed;
  };

  Model(std::string rule, const RowPolicy& policy, const RowTable& fresh)
      : rule_(std::move(rule)), policy_(policy), fresh_(fresh) {}

  std::vector<double> Values(uint64_t key, absl::Time now) {
    Expire(key, now);
    const auto row = rows_.find(key);
    if (row != rows_.end()) return row->second.values;
    const Floats values = Pull(fresh_, {key});
    return {values.begin(), values.end()};
  }

  void Push(uint64_t key, const float* gradient, double rate, absl::Time now) {
    Expire(key, now);
    if (rows_.count(key) == 0) {
      if (++sights_[key] < policy_.admit_after) return;
      rows_[key] = {Values(key, now), std::vector<double>(kWidth, 0.1), now};
    }
    Row& row = rows_.at(key);
    row.pushed = now;
    double mean = 0;
    for (size_t i = 0; i < kWidth; ++i) mean += double{gradient[i]} * gradient[i] / kWidth;
    if (rule_ == "rowwise_adagrad") row.sums[0] += mean;
    for (size_t i = 0; i < kWidth; ++i) {
      double root = 1;
      if (rule_ == "adagrad") {
        row.sums[i] += double{gradient[i]} * gradient[i];
        root = std::sqrt(row.sums[i] + 1e-7);
      } else if (rule_ == "rowwise_adagrad") {
        root = std::sqrt(row.sums[0] + 1e-7);
      }
      row.values[i] -= rate * gradient[i] / root;
    }
  }

  void ExpireAll(absl::Time now) {
    std::erase_if(rows_, [&](const auto& row) { return now - row.second.pushed >= policy_.ttl; });
  }
  void ForgetSights() { sights_.clear(); }
  const std::map<uint64_t, Row>& rows() const { return rows_; }

 private:
  void Expire(uint64_t key, absl::Time now) {
    const auto row = rows_.find(key);
    if (row != rows_.end() && now - row->second.pushed >= policy_.ttl) rows_.erase(row);
  }

  const std::string rule_;
  const RowPolicy policy_;
  const RowTable& fresh_;
  std::map<uint64_t, Row> rows_;
  std::map<uint64_t, uint32_t> sights_;
};

Keys RandomKeys(SequenceRng& rng, size_t most) {
  Keys keys;
  for (size_t count = rng.Below(most) + 1; count > 0; --count) {
    const uint64_t key = rng.Below(500);
    keys.push_back(key < 10 ? kLastKey - key : key);
  }
  return keys;
}

struct Played {
  std::unique_ptr<RowTable> table;
  Model model;
  SequenceRng rng;
  absl::Time now = kStart;
};

void ExpectRows(Played& run, const Keys& keys) {
  const Floats values = Pull(*run.table, keys, run.now);
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::vector<double> expected = run.model.Values(keys[i], run.now);
    for (size_t k = 0; k < kWidth; ++k) {
      ASSERT_NEAR(values[i * kWidth + k], expected[k], 1e-5 * (1 + std::abs(expected[k])))
          << "key " << keys[i];
    }
  }
}

void ExpectSameKeys(Played& run) {
  run.model.ExpireAll(run.now);
  const TableRows saved = run.table->Save(run.now);
  Keys live;
  for (size_t i = 0; i < static_cast<size_t>(saved.keys.num_elements()); ++i) {
    const auto key = static_cast<uint64_t>(saved.keys.data<int64_t>()[i]);
    if (saved.uses.data<int32_t>()[2 * i] < absl::Seconds(1) / RowTime::kTick) live.push_back(key);
  }
  Keys expected;
  for (const auto& [key, row] : run.model.rows()) expected.push_back(key);
  ASSERT_THAT(live, testing::UnorderedElementsAreArray(expected));
  const size_t rows = run.table->Use().rows;
  ASSERT_EQ(static_cast<size_t>(saved.keys.num_elements()), rows);
  // Loaded again they are the same rows; keys without rows are not in it.
  run.model.ForgetSights();
  run.table->Load(
      {saved}, [](uint64_t) { return true; }, run.now);
  ASSERT_EQ(run.table->Use().rows, rows);
}

void Step(Played& run) {
  run.now += absl::Milliseconds(62.5) * static_cast<int64_t>(run.rng.Below(6));
  const Keys keys = RandomKeys(run.rng, 100);
  switch (run.rng.Below(4)) {
    case 0:
      return ExpectRows(run, keys);
    case 1:
      if (run.rng.Below(20) == 0) ExpectSameKeys(run);
      return;
    default:
      break;
  }
  Floats gradients(keys.size() * kWidth);
  for (float& gradient : gradients) gradient = static_cast<float>(run.rng.Uniform() - 0.5);
  run.table->Push(keys, gradients, {0.05, 1}, run.now);
  for (size_t i = 0; i < keys.size(); ++i) {
    run.model.Push(keys[i], &gradients[i * kWidth], 0.05, run.now);
  }
}

TEST(RowTableTest, BehavesAsAMapUnderRandomOperations) {
  const uint64_t seed = TestSeed(1);
  SCOPED_TRACE(Replay("ps_table_test", seed, "RowTableTest.*Random*"));
  for (const char* rule : {"sgd", "adagrad", "rowwise_adagrad"}) {
    for (const uint32_t admit_after : {1, 3}) {
      RowTableOptions options = OptionsFor(rule);
      options.policy.admit_after = admit_after;
      options.policy.ttl = absl::Seconds(1);
      const auto fresh = MakeTable(OptionsFor("assign_add"));
      Played run = {MakeTable(options), Model(rule, options.policy, *fresh), SequenceRng(seed)};
      for (int step = 0; step < 1000; ++step) {
        Step(run);
        ASSERT_FALSE(testing::Test::HasFailure()) << rule << ", step " << step;
      }
      EXPECT_GT(run.table->Use().counts.expired, 100u) << "the test meets what it is for";
    }
  }
}

TEST(RowTableTest, EightThreadsLoseNothingAndSeeWholeRows) {
  constexpr int kThreads = 8;
  constexpr int kPushes = 500;
  RowTableOptions options = OptionsFor("assign_add");
  options.row.initializer = {"zeros", 0, 0, 0};
  const auto table = MakeTable(options);
  std::vector<std::thread> threads;
  std::vector<int> torn(kThreads, 0);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const uint64_t own = 1000 + static_cast<uint64_t>(t);
      for (int i = 0; i < kPushes; ++i) {
        PushOnes(*table, {7, own, 8});
        const Floats row = Pull(*table, {7});
        for (const float value : row) torn[t] += value != row[0] ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(torn, testing::Each(0));
  EXPECT_THAT(Pull(*table, {7, 8}), testing::Each(kThreads * kPushes));
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_THAT(Pull(*table, {1000 + static_cast<uint64_t>(t)}), testing::Each(kPushes));
  }
}

// What expired rows leave is used again, also that of keys which nobody asks for any more.
// So large that several threads copy it.
TEST(RowTableTest, EveryRowOfALargeTableIsSavedWhole) {
  constexpr size_t kWide = 1024;
  constexpr size_t kRows = 3000;
  RowTableOptions options = OptionsFor("adagrad");
  options.row.width = kWide;
  const auto table = MakeTable(options);
  const Keys keys = Range(0, kRows);
  std::map<uint64_t, float> gradients;
  Floats all(kRows * kWide);
  for (size_t i = 0; i < kRows; ++i) {
    gradients[keys[i]] = static_cast<float>(i % 7 + 1);
    std::fill_n(all.begin() + i * kWide, kWide, gradients[keys[i]]);
  }
  table->Push(keys, all, {0.5, 1}, kStart);
  const TableRows saved = table->Save(kStart + absl::Seconds(2));
  ASSERT_EQ(saved.keys.num_elements(), kRows);
  ASSERT_EQ(saved.slots.size(), 1u);
  Keys found;
  for (size_t i = 0; i < kRows; ++i) {
    const auto key = static_cast<uint64_t>(saved.keys.data<int64_t>()[i]);
    found.push_back(key);
    EXPECT_EQ(saved.uses.data<int32_t>()[2 * i], absl::Seconds(2) / RowTime::kTick);
    EXPECT_EQ(saved.uses.data<int32_t>()[2 * i + 1], 1);
    Floats row(kWide);
    table->Pull({key}, kStart, absl::MakeSpan(row));
    const float accumulated = 0.1f + gradients[key] * gradients[key];  // Keras's first value
    for (size_t k = 0; k < kWide; ++k) {
      ASSERT_EQ(saved.values.data<float>()[i * kWide + k], row[k]) << "row " << i;
      ASSERT_FLOAT_EQ(saved.slots[0].data<float>()[i * kWide + k], accumulated) << "row " << i;
    }
  }
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(keys));
}

TEST(RowTableTest, MemoryDoesNotGrowWithRowsThatComeAndGo) {
  RowTableOptions options = OptionsFor("adagrad");
  options.policy.ttl = absl::Seconds(10);
  const auto table = MakeTable(options);
  size_t bytes = 0;
  for (uint64_t round = 0; round < 12; ++round) {
    const absl::Time now = kStart + absl::Seconds(10) * static_cast<int64_t>(round);
    PushOnes(*table, Range(round * 20000, 20000), now);
    const RowTableUse use = table->Use();
    EXPECT_LE(use.rows, 40000u);
    if (round == 1) bytes = use.row_bytes;
    if (round <= 1) continue;
    EXPECT_LE(use.row_bytes, bytes + (size_t{2} << 20)) << "round " << round;
  }
}

}  // namespace
}  // namespace cohort
