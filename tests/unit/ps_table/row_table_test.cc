#include "ps_server/table/row_table.h"

#include <cmath>
#include <limits>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/base/rng.h"
#include "common/program/update_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

using Keys = std::vector<uint64_t>;
using Floats = std::vector<float>;

constexpr size_t kWidth = 5;
constexpr uint64_t kLastKey = std::numeric_limits<uint64_t>::max();

RowTableOptions OptionsFor(const std::string& rule) {
  RowTableOptions options;
  options.name = "clicks";
  options.width = kWidth;
  options.initializer = {"random_uniform", -1, 1, 3};
  options.rule.set_op(rule);
  return options;
}

std::unique_ptr<RowTable> MakeTable(const RowTableOptions& options) {
  absl::StatusOr<std::unique_ptr<RowTable>> table = RowTable::Create(options);
  EXPECT_TRUE(table.ok()) << table.status();
  return std::move(*table);
}

Floats Pull(RowTable& table, const Keys& keys) {
  Floats out(keys.size() * kWidth, -77);
  table.Pull(keys, absl::MakeSpan(out));
  return out;
}

Floats RowOf(const Floats& all, size_t i) {
  return Floats(all.begin() + i * kWidth, all.begin() + (i + 1) * kWidth);
}

TEST(RowTableTest, EveryKeyIsLegal) {
  const auto table = MakeTable(OptionsFor("assign_add"));
  const Keys keys = {0, kLastKey, 1, uint64_t{1} << 63};
  const Floats before = Pull(*table, keys);
  Floats ones(keys.size() * kWidth);
  for (size_t i = 0; i < ones.size(); ++i) ones[i] = static_cast<float>(i / kWidth + 1);
  table->Push(keys, ones, {}, MissingRow::kSkip);
  const Floats after = Pull(*table, keys);
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i], before[i] + ones[i]);
  EXPECT_EQ(table->Use().rows, 4u);
  EXPECT_EQ(table->Erase(Keys{0, kLastKey, 2}), 2u);
  EXPECT_EQ(table->Use().rows, 2u);
  EXPECT_EQ(RowOf(Pull(*table, {0}), 0), RowOf(before, 0)) << "an erased row begins anew";
}

TEST(RowTableTest, FirstValuesDependOnSeedNameAndKeyAlone) {
  Keys keys;
  for (uint64_t i = 0; i < 1000; ++i) keys.push_back(i * i);
  const auto table = MakeTable(OptionsFor("adagrad"));
  const Floats values = Pull(*table, keys);
  const Keys backwards(keys.rbegin(), keys.rend());
  const auto other = MakeTable(OptionsFor("sgd"));  // other rows, too: there are no slots
  for (const uint64_t key : backwards) Pull(*other, {key});
  EXPECT_EQ(Pull(*other, keys), values);
  EXPECT_EQ(Pull(*table, keys), values) << "pulling does not change them";
  EXPECT_NE(RowOf(values, 1), RowOf(values, 2));

  RowTableOptions renamed = OptionsFor("sgd");
  renamed.name = "views";
  EXPECT_NE(Pull(*MakeTable(renamed), keys), values);
  RowTableOptions reseeded = OptionsFor("sgd");
  reseeded.initializer.seed = 4;
  EXPECT_NE(Pull(*MakeTable(reseeded), keys), values);
}

TEST(RowTableTest, FirstValuesFollowTheInitializer) {
  Keys keys(4000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  RowTableOptions options = OptionsFor("sgd");
  options.initializer = {"random_normal", 2, 0.5, 1};
  double sum = 0;
  double squares = 0;
  for (const float value : Pull(*MakeTable(options), keys)) {
    sum += value;
    squares += (value - 2) * (value - 2);
  }
  const double count = static_cast<double>(keys.size() * kWidth);
  EXPECT_NEAR(sum / count, 2, 0.02);                     // 5.6 standard errors
  EXPECT_NEAR(std::sqrt(squares / count), 0.5, 0.0125);  // 5
  options.initializer = {"constant", 1.5, 0, 1};
  EXPECT_THAT(Pull(*MakeTable(options), keys), testing::Each(1.5f));
  options.initializer = {"zeros", 0, 0, 1};
  EXPECT_THAT(Pull(*MakeTable(options), keys), testing::Each(0.0f));
}

TEST(RowTableTest, RepeatedKeysOfAPullAreOneRow) {
  const auto table = MakeTable(OptionsFor("sgd"));
  const Keys keys(50, 17);  // missing at first, and more than are under way at a time
  const Floats values = Pull(*table, keys);
  for (size_t i = 1; i < keys.size(); ++i) EXPECT_EQ(RowOf(values, i), RowOf(values, 0));
  EXPECT_EQ(table->Use().rows, 1u);
}

TEST(RowTableTest, AMissingKeyIsSkippedTogetherWithItsOwnGradient) {
  const auto table = MakeTable(OptionsFor("assign_add"));
  const Floats before = Pull(*table, {10, 12, 14});
  Floats gradients;
  for (float row = 1; row <= 5; ++row) gradients.insert(gradients.end(), kWidth, row);
  table->Push(Keys{10, 11, 12, 13, 14}, gradients, {}, MissingRow::kSkip);
  EXPECT_EQ(table->Use().rows, 3u);
  const Floats after = Pull(*table, {10, 12, 14});
  const float expected[] = {1, 3, 5};
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i], before[i] + expected[i / kWidth]);
  }
}

TEST(RowTableTest, APushCreatesMissingRowsFirst) {
  const auto table = MakeTable(OptionsFor("assign_add"));
  table->Push(Keys{5}, Floats(kWidth, 1), {}, MissingRow::kCreate);
  const Floats first = Pull(*MakeTable(OptionsFor("sgd")), {5});
  const Floats after = Pull(*table, {5});
  for (size_t i = 0; i < kWidth; ++i) EXPECT_EQ(after[i], first[i] + 1);
}

TEST(RowTableTest, SaysWhatIsWrong) {
  using testing::HasSubstr;
  RowTableOptions options = OptionsFor("sgd");
  options.width = 0;
  EXPECT_THAT(RowTable::Create(options).status().message(), HasSubstr("'clicks'"));
  options = OptionsFor("magic");
  EXPECT_THAT(RowTable::Create(options).status().message(), HasSubstr("magic"));
  options = OptionsFor("sgd");
  options.initializer.op = "guess";
  EXPECT_THAT(RowTable::Create(options).status().message(), HasSubstr("'guess'"));
}

// Keras's formulas in float, one row at a time.
struct Model {
  struct Row {
    Floats values;
    Floats sums;  // adagrad: for each element; rowwise_adagrad: one
  };

  void Push(uint64_t key, const float* gradient, float rate) {
    Row& row = rows.at(key);
    float mean = 0;
    for (size_t i = 0; i < kWidth; ++i) mean += gradient[i] * gradient[i] / kWidth;
    if (rule == "rowwise_adagrad") row.sums[0] += mean;
    for (size_t i = 0; i < kWidth; ++i) {
      float root = 1;
      if (rule == "adagrad") {
        row.sums[i] += gradient[i] * gradient[i];
        root = std::sqrt(row.sums[i] + 1e-7f);
      } else if (rule == "rowwise_adagrad") {
        root = std::sqrt(row.sums[0] + 1e-7f);
      }
      row.values[i] -= rate * gradient[i] / root;
    }
  }

  std::string rule;
  std::unordered_map<uint64_t, Row> rows;
};

Keys RandomKeys(SequenceRng& rng, size_t most) {
  Keys keys;
  std::unordered_map<uint64_t, bool> seen;
  for (size_t count = rng.Below(most) + 1; count > 0; --count) {
    uint64_t key = rng.Below(3000);
    if (key < 10) key = kLastKey - key;
    if (!seen.emplace(key, true).second) continue;
    keys.push_back(key);
  }
  return keys;
}

// One random operation on both.
void Step(SequenceRng& rng, RowTable& table, RowTable& fresh, Model& model) {
  const Keys keys = RandomKeys(rng, 200);
  const uint64_t choice = rng.Below(8);
  if (choice == 0) {
    size_t expected = 0;
    for (const uint64_t key : keys) expected += model.rows.erase(key);
    ASSERT_EQ(table.Erase(keys), expected);
    return;
  }
  const bool pushes = choice < 4;
  const bool creates = !pushes || choice == 1;
  for (const uint64_t key : keys) {
    if (!creates || model.rows.count(key) > 0) continue;
    model.rows[key] = {Pull(fresh, {key}), Floats(kWidth, 0.1f)};
  }
  if (pushes) {
    Floats gradients(keys.size() * kWidth);
    for (float& gradient : gradients) gradient = static_cast<float>(rng.Uniform() - 0.5);
    table.Push(keys, gradients, {0.05, 1}, creates ? MissingRow::kCreate : MissingRow::kSkip);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (model.rows.count(keys[i]) == 0) continue;
      model.Push(keys[i], &gradients[i * kWidth], 0.05f);
    }
  } else {
    const Floats values = Pull(table, keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_THAT(RowOf(values, i),
                  testing::Pointwise(testing::FloatNear(1e-4f), model.rows.at(keys[i]).values))
          << "key " << keys[i];
    }
  }
  ASSERT_EQ(table.Use().rows, model.rows.size());
}

TEST(RowTableTest, BehavesAsAMapUnderRandomOperations) {
  const uint64_t seed = TestSeed(1);
  SCOPED_TRACE(Replay("ps_table_test", seed, "RowTableTest.*Random*"));
  for (const char* rule : {"sgd", "adagrad", "rowwise_adagrad"}) {
    SequenceRng rng(seed);
    const auto table = MakeTable(OptionsFor(rule));
    const auto fresh = MakeTable(OptionsFor("assign_add"));
    Model model = {rule, {}};
    for (int step = 0; step < 1500; ++step) {
      Step(rng, *table, *fresh, model);
      ASSERT_FALSE(testing::Test::HasFailure()) << rule << ", step " << step;
    }
  }
}

TEST(RowTableTest, EightThreadsLoseNothingAndSeeWholeRows) {
  constexpr int kThreads = 8;
  constexpr int kPushes = 500;
  RowTableOptions options = OptionsFor("assign_add");
  options.initializer = {"zeros", 0, 0, 0};
  const auto table = MakeTable(options);
  std::vector<std::thread> threads;
  std::vector<int> torn(kThreads, 0);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const uint64_t own = 1000 + static_cast<uint64_t>(t);
      for (int i = 0; i < kPushes; ++i) {
        table->Push(Keys{7, own, 8}, Floats(3 * kWidth, 1), {}, MissingRow::kCreate);
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

// What erased rows leave is used again.
TEST(RowTableTest, MemoryDoesNotGrowWithRowsThatComeAndGo) {
  const auto table = MakeTable(OptionsFor("adagrad"));
  Keys keys(20000);
  size_t bytes = 0;
  for (uint64_t round = 0; round < 6; ++round) {
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = Mix64(round * keys.size() + i);
    Pull(*table, keys);
    const RowTableUse use = table->Use();
    EXPECT_EQ(use.rows, keys.size());
    if (round == 0) bytes = use.row_bytes;
    EXPECT_LE(use.row_bytes, bytes + (size_t{2} << 20)) << "round " << round;
    EXPECT_EQ(table->Erase(keys), keys.size());
  }
}

}  // namespace
}  // namespace cohort
