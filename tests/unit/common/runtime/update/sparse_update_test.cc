#include "common/runtime/update/sparse_update.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"
#include "tests/unit/common/runtime/sparse_rows.h"

namespace cohort {
namespace {

proto::SparseMode ModeOf(const std::string& name) {
  const absl::Span<const char* const> names = SparseModeNames();
  const auto found = std::find(names.begin(), names.end(), name);
  return static_cast<proto::SparseMode>(found - names.begin());
}

proto::UpdateRule Rule(const std::string& op, const std::map<std::string, double>& parameters,
                       proto::SparseMode mode) {
  proto::UpdateRule rule;
  rule.set_op(op);
  rule.set_sparse(mode);
  for (const auto& [name, value] : parameters) {
    rule.add_parameters()->set_name(name);
    rule.mutable_parameters()->rbegin()->set_value(value);
  }
  return rule;
}

struct GoldenPush {
  std::vector<int64_t> rows;
  std::vector<float> gradients;
};

struct GoldenCase {
  proto::UpdateRule rule;
  double learning_rate = 0;
  std::map<size_t, std::vector<double>> values;  // by step
};

// tests/golden/optimizers/make_sparse.py
struct Golden {
  size_t width = 0;
  std::vector<float> start;
  std::vector<GoldenPush> pushes;
  std::vector<GoldenCase> cases;
};

template <typename T>
std::vector<T> ReadNumbers(std::istream& in, size_t count) {
  std::vector<T> numbers(count);
  for (T& number : numbers) {
    double value = 0;
    in >> value;
    number = static_cast<T>(value);
  }
  return numbers;
}

GoldenCase ReadCase(std::istream& in) {
  GoldenCase next;
  std::string op, mode, name;
  int count = 0;
  in >> op >> mode >> next.learning_rate >> count;
  std::map<std::string, double> parameters;
  for (int i = 0; i < count; ++i) {
    in >> name;
    in >> parameters[name];
  }
  next.rule = Rule(op, parameters, ModeOf(mode));
  return next;
}

Golden ReadGolden() {
  std::ifstream in(COHORT_SOURCE_DIR "/tests/golden/optimizers/sparse.txt");
  Golden golden;
  size_t rows = 0;
  size_t steps = 0;
  in >> rows >> golden.width >> steps;
  golden.start = ReadNumbers<float>(in, rows * golden.width);
  for (size_t i = 0; i < steps; ++i) {
    size_t count = 0;
    in >> count;
    GoldenPush& push = golden.pushes.emplace_back();
    push.rows = ReadNumbers<int64_t>(in, count);
    push.gradients = ReadNumbers<float>(in, count * golden.width);
  }
  std::string word;
  while (in >> word) {
    if (word == "case") {
      golden.cases.push_back(ReadCase(in));
    } else {
      size_t step = 0;
      in >> step;
      golden.cases.back().values[step] = ReadNumbers<double>(in, rows * golden.width);
    }
  }
  return golden;
}

// As near as dense updates are, to the largest value that the element has had.
TEST(SparseUpdateTest, FollowsTensorFlowsAndKerassSparseUpdatesFor30Steps) {
  const Golden golden = ReadGolden();
  ASSERT_EQ(golden.cases.size(), 46u);
  for (const GoldenCase& each : golden.cases) {
    SCOPED_TRACE(each.rule.ShortDebugString());
    SparseRows table(each.rule, golden.start, golden.width);
    std::vector<double> largest(golden.start.size());
    for (size_t step = 1; step <= golden.pushes.size(); ++step) {
      const GoldenPush& push = golden.pushes[step - 1];
      table.Push(push.rows, push.gradients, each.learning_rate, step);
      for (size_t i = 0; i < largest.size(); ++i) {
        largest[i] = std::max({largest[i], 0.5, std::abs(static_cast<double>(table.value[i]))});
      }
      const auto expected = each.values.find(step);
      if (expected == each.values.end()) continue;
      for (size_t i = 0; i < largest.size(); ++i) {
        ASSERT_NEAR(table.value[i], expected->second[i], 1e-6 * largest[i])
            << "step " << step << " element " << i;
      }
    }
  }
}

std::vector<GoldenCase> DenseCases() {
  std::vector<GoldenCase> cases = ReadGolden().cases;
  std::erase_if(cases,
                [](const GoldenCase& each) { return each.rule.sparse() != proto::DENSE_EXACT; });
  for (const bool average : {false, true}) {
    const double share = average ? 1 : 0;
    cases.push_back({Rule("rowwise_adagrad", {{"use_ema", share}}, proto::DENSE_EXACT), 0.01, {}});
    cases.push_back({Rule("assign_add", {}, proto::DENSE_EXACT), 0.01, {}});
  }
  return cases;
}

// Random pushes to a table of rows of any width, alike for one seed.
class RandomPushes {
 public:
  explicit RandomPushes(uint64_t seed) : rng_(seed), width(1 + rng_.Below(40)) {
    num_rows = 4 + rng_.Below(60);
    start = Normals(num_rows * width);
  }

  GoldenPush Next() {
    GoldenPush push;
    for (uint64_t i = rng_.Below(12); i > 0; --i) {
      push.rows.push_back(static_cast<int64_t>(rng_.Below(num_rows)));
    }
    push.gradients = Normals(push.rows.size() * width);
    return push;
  }

  std::vector<float> Normals(size_t count) {
    const RandomStream random(rng_.Next(), "normals");
    std::vector<float> numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(random.Normal(i));
    return numbers;
  }

  SequenceRng& rng() { return rng_; }

 private:
  SequenceRng rng_;

 public:
  const size_t width;
  size_t num_rows = 0;
  std::vector<float> start;
};

std::vector<float> Densified(const GoldenPush& push, size_t num_rows, size_t width) {
  std::vector<float> dense(num_rows * width);
  for (size_t i = 0; i < push.rows.size(); ++i) {
    for (size_t k = 0; k < width; ++k) {
      dense[static_cast<size_t>(push.rows[i]) * width + k] += push.gradients[i * width + k];
    }
  }
  return dense;
}

TEST(SparseUpdateTest, DenseExactGivesTheBitsOfTheDenseUpdate) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 30; ++seed) {
    for (const GoldenCase& each : DenseCases()) {
      SCOPED_TRACE(Replay("runtime_test", seed, "SparseUpdateTest.*") + " " +
                   each.rule.ShortDebugString());
      RandomPushes pushes(seed);
      SparseRows sparse(each.rule, pushes.start, pushes.width);
      SparseRows dense(each.rule, pushes.start, pushes.width);
      for (uint64_t step = 1; step <= 12; ++step) {
        const GoldenPush push = pushes.Next();
        sparse.Push(push.rows, push.gradients, each.learning_rate, step);
        dense.PushDense(Densified(push, pushes.num_rows, pushes.width), each.learning_rate, step);
      }
      ASSERT_EQ(sparse.value, dense.value);
      ASSERT_EQ(sparse.slots, dense.slots);
    }
  }
}

TEST(SparseUpdateTest, GradientsOfOneRowAreAddedUpInTheOrderOfArrival) {
  const std::vector<float> gradients = {1e8f, 7, -1e8f, 1, 1, 1e8f, -1e8f};
  const std::vector<int64_t> rows = {2, 5, 2, 2, 0, 0, 0};
  const MergedRows merged(rows, gradients, 1);
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged.row(0), 0);
  EXPECT_EQ(merged.gradient(0)[0], (1 + 1e8f) + -1e8f);
  EXPECT_EQ(merged.row(1), 2);
  EXPECT_EQ(merged.gradient(1)[0], 1) << "(1e8 - 1e8) + 1";
  EXPECT_EQ(merged.row(2), 5);
  EXPECT_EQ(merged.gradient(2)[0], 7);
  EXPECT_EQ(MergedRows({}, {}, 3).size(), 0u);
}

// What lazy modes leave of rows that are not in a push.
TEST(SparseUpdateTest, LazyModesLeaveOtherRowsAlone) {
  for (const proto::SparseMode mode : {proto::LAZY, proto::LAZY_COMPENSATED}) {
    SparseRows table(Rule("adam", {{"use_ema", 1}, {"weight_decay", 0.1}}, mode), {1, 2, 3, 4}, 2);
    table.Push({1, 1}, {1, 1, 1, 1}, 0.1, 7);
    EXPECT_THAT(std::vector<float>(table.value.begin(), table.value.begin() + 2),
                testing::ElementsAre(1, 2));
    EXPECT_NE(table.value[2], 3);
    const std::vector<float> starts = {0, 0, 1};  // m, v, the average
    for (size_t i = 0; i < starts.size(); ++i) {
      const std::vector<float>& slot = i == 2 ? table.slots.back() : table.slots[i];
      EXPECT_EQ(slot[0], starts[i]) << i;
      EXPECT_NE(slot[2], i == 2 ? 3 : 0) << i;
    }
  }
}

// A row that was in a later step's push already has missed nothing.
TEST(SparseUpdateTest, StepsInAnyOrderAreMadeUpForOnce) {
  const proto::UpdateRule rule = Rule("sgd", {{"momentum", 0.5}}, proto::LAZY_COMPENSATED);
  SparseRows table(rule, {0}, 1);
  table.Push({0}, {-1}, 1, 1);  // m = 1, v = 1
  table.Push({0}, {0}, 1, 4);   // two missed and this one: m = 1/8, v = 1 + 1/2 + 1/4 + 1/8
  EXPECT_EQ(table.value[0], 1.875f);
  table.Push({0}, {0}, 1, 3);
  table.Push({0}, {0}, 1, 5);
  EXPECT_EQ(table.value[0], 1.875f + 0.0625f + 0.03125f);
}

// A dense push finds rows that have missed different numbers of steps.
TEST(SparseUpdateTest, ADensePushMakesUpForWhatEachRowHasMissed) {
  const uint64_t seed = TestSeed(3);
  SCOPED_TRACE(Replay("runtime_test", seed, "SparseUpdateTest.*"));
  RandomPushes pushes(seed);
  const proto::UpdateRule rule =
      Rule("adam", {{"use_ema", 1}, {"ema_momentum", 0.5}, {"weight_decay", 0.01}},
           proto::LAZY_COMPENSATED);
  SparseRows dense(rule, pushes.start, pushes.width);
  SparseRows by_row(rule, pushes.start, pushes.width);
  std::vector<int64_t> all(pushes.num_rows);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  for (uint64_t step = 1; step < 60; ++step) {
    const GoldenPush push = pushes.Next();
    dense.Push(push.rows, push.gradients, 0.01, step);
    by_row.Push(push.rows, push.gradients, 0.01, step);
    if (step % 10 != 0) continue;
    const std::vector<float> gradients = pushes.Normals(pushes.start.size());
    dense.PushDense(gradients, 0.01, step + 1);
    by_row.Push(all, gradients, 0.01, ++step);
  }
  EXPECT_EQ(dense.value, by_row.value);
  for (size_t i = 0; i < dense.slots.size(); ++i) EXPECT_EQ(dense.slots[i], by_row.slots[i]) << i;
}

// Adam and its kin make up for missed moves nearly: all of them with the bias correction of the
// push, and an epsilon that decays. From step 1000 on the first is as good as right.
TEST(SparseUpdateTest, CompensatedAdamAndItsKinStayNearDenseExact) {
  const std::map<std::string, std::map<std::string, double>> rules = {
      {"adam", {{"weight_decay", 0.001}}},
      {"amsgrad", {{"amsgrad", 1}}},
      {"adamax", {}},
      {"nadam", {}}};
  for (const auto& [name, parameters] : rules) {
    SCOPED_TRACE(name);
    const std::string op = name == "amsgrad" ? "adam" : name;
    const std::vector<float> start(64, 1.0f);
    SparseRows exact(Rule(op, parameters, proto::DENSE_EXACT), start, 4);
    SparseRows lazy(Rule(op, parameters, proto::LAZY), start, 4);
    SparseRows compensated(Rule(op, parameters, proto::LAZY_COMPENSATED), start, 4);
    RandomPushes random(TestSeed(5));
    double moved = 0;
    std::vector<float> before;
    std::vector<int64_t> all(16);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    for (uint64_t step = 1; step <= 1400; ++step) {
      std::vector<int64_t> rows = {static_cast<int64_t>(random.rng().Below(16))};
      if (step == 1400 || step <= 1000) rows = all;
      const std::vector<float> gradients = random.Normals(rows.size() * 4);
      for (SparseRows* table : {&exact, &lazy, &compensated}) {
        table->Push(rows, gradients, 0.001, step);
      }
      if (step <= 1000) before = exact.value;
      for (size_t i = 0; i < before.size(); ++i) moved += std::abs(exact.value[i] - before[i]);
      before = exact.value;
    }
    double off = 0;
    double lazy_off = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      off += std::abs(compensated.value[i] - exact.value[i]);
      lazy_off += std::abs(lazy.value[i] - exact.value[i]);
    }
    RecordProperty(name, std::to_string(off / moved) + " lazy " + std::to_string(lazy_off / moved));
    EXPECT_LT(off, 0.002 * moved);
    EXPECT_GT(lazy_off, 0.02 * moved) << "else there was nothing to make up for";
  }
}

}  // namespace
}  // namespace cohort
