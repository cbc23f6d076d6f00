// A step that pulls and pushes rows of two tables against the same program bound to whole tables,
// on parameter servers of its own: values, what travels, and errors. And rows under keys against
// rows under numbers.

#include <map>
#include <set>

#include "common/base/rng.h"
#include "common/tensor/slice_spec.h"
#include "common/wire/error_detail.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/inline_tensors.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kRows = 40;
constexpr int64_t kBatch = 6;
constexpr int kSteps = 3;

std::vector<proto::VariableLayout> Layouts() {
  std::vector<proto::VariableLayout> layouts = {
      MakeLayout("table", DType::kFloat32, {kRows, 3}, {14, 13, 13}, 0, 2),
      MakeLayout("other", DType::kFloat32, {kRows, 3}, {40}, 3, 2),
      MakeLayout("bias", DType::kFloat32, {3}, {3}, 4, 2)};
  for (proto::VariableLayout& layout : layouts) {
    layout.mutable_initializer()->set_op("random_uniform");
    layout.mutable_initializer()->set_a(-1);
    layout.mutable_initializer()->set_b(1);
    layout.mutable_initializer()->set_seed(3);
    layout.mutable_rule()->set_op("sgd");
  }
  return layouts;
}

// Sum of squares of table[a] + table[b] + other[c] + bias; "a", "b" and "c" are components 0 to 2.
proto::Program MakeProgram(bool by_rows) {
  proto::Program program;
  program.set_name(by_rows ? "rows" : "whole");
  GraphBuilder builder("lookups");
  const auto ids = [&](const std::string& name, uint32_t component, const std::string& table) {
    builder.Input(name, DType::kInt64, {-1});
    BindBatch(program, name, component);
    if (by_rows) program.mutable_inputs()->rbegin()->set_rows_of(table);
    return name;
  };
  const auto table = [&](const std::string& name) {
    if (by_rows) {
      builder.Input(name, DType::kFloat32, {-1, 3}, name + ":rows");
    } else {
      builder.Input(name, DType::kFloat32, {kRows, 3});
    }
    BindVariable(program, name);
    return name;
  };
  const std::string a = ids("table:a", 0, "table"), b = ids("table:b", 1, "table");
  const std::string c = ids("other:c", 2, "other");
  table("table");
  table("other");
  builder.Input("bias", DType::kFloat32, {3});
  BindVariable(program, "bias");
  std::string sum =
      builder.Op("Add", {builder.Op("Gather", {"table", a}), builder.Op("Gather", {"table", b})});
  sum = builder.Op("Add", {sum, builder.Op("Gather", {"other", c})});
  sum = builder.Op("Add", {sum, "bias"});
  const std::string loss =
      builder.Op("ReduceSum", {builder.Op("Mul", {sum, sum})}, {IntAttribute("keepdims", 0)});
  builder.Output(loss);
  const auto model = builder.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  const std::vector<std::string> variables = {"table", "other", "bias"};
  const auto gradients = AddGradients(*model, loss, variables);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  program.set_model(gradients->model.SerializeAsString());
  BindFetch(program, loss);
  for (size_t i = 0; i < 3; ++i) BindPush(program, gradients->gradients[i], variables[i]);
  return program;
}

// Ids that come twice, in both columns, and on the borders of slices.
Tensor Ids(int64_t stride, int64_t begin) {
  Tensor ids(DType::kInt64, Shape{kBatch * kSteps});
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    ids.mutable_data<int64_t>()[i] = i % 3 == 0 ? 13 : (begin + i * stride) % kRows;
  }
  return ids;
}

// Thread-compatible.
class Cluster {
 public:
  explicit Cluster(bool by_rows, Tensor a = Ids(7, 0), Tensor b = Ids(11, 5))
      : Cluster(by_rows, a, b, Layouts(), a) {}
  Cluster(bool by_rows, Tensor a, Tensor b, std::vector<proto::VariableLayout> layouts)
      : Cluster(by_rows, a, b, std::move(layouts), a) {}
  // With ids of its own for the other table.
  Cluster(bool by_rows, Tensor a, Tensor b, std::vector<proto::VariableLayout> layouts, Tensor c)
      : layouts_(std::move(layouts)), program_(MakeProgram(by_rows)) {
    EXPECT_TRUE(cluster_.Attach(1).ok());
    EXPECT_TRUE(cluster_.CreateVariables(layouts_).ok());
    const absl::Status registered = cluster_.Register(program_, layouts_);
    EXPECT_TRUE(registered.ok()) << registered;
    proto::DatasetSpec spec;
    AddInline(spec, a);
    AddInline(spec, b);
    AddInline(spec, c);
    spec.add_transforms()->mutable_batch()->set_size(kBatch);
    EXPECT_TRUE(cluster_.CreateDataset(1, spec).ok());
  }

  absl::StatusOr<std::vector<Tensor>> Step(int step) {
    proto::RunClosureRequest closure = cluster_.Closure(program_);
    closure.mutable_split()->set_dataset_id(1);
    closure.mutable_split()->mutable_position()->set_element(step);
    return cluster_.Run(closure);
  }

  std::vector<float> Read(const std::string& name, const std::vector<int64_t>& dims) {
    const proto::Program read = ReadProgram(name, DType::kFloat32, dims);
    EXPECT_TRUE(cluster_.Register(read, layouts_).ok());
    const auto value = cluster_.Run(cluster_.Closure(read));
    EXPECT_TRUE(value.ok()) << value.status();
    const absl::Span<const float> span = (*value)[0].span<float>();
    return {span.begin(), span.end()};
  }

  proto::PsStatsResponse Stats(int ps) {
    proto::PsStatsRequest request;
    request.set_epoch(cluster_.epoch());
    const auto stats = cluster_.Invoke<proto::PsStatsResponse>(cluster_.ps_address(ps),
                                                               "PsService/GetStats", request);
    EXPECT_TRUE(stats.ok()) << stats.status();
    return stats->header;
  }

 private:
  WorkerCluster cluster_{2};
  const std::vector<proto::VariableLayout> layouts_;
  proto::Program program_;
};

TEST(RowStep, TrainsTheTablesAsAStepWithWholeTablesDoes) {
  Cluster rows(true), whole(false);
  for (int step = 0; step < kSteps; ++step) {
    const auto by_rows = rows.Step(step);
    const auto with_whole = whole.Step(step);
    ASSERT_TRUE(by_rows.ok() && with_whole.ok()) << by_rows.status() << with_whole.status();
    EXPECT_EQ(*(*by_rows)[0].data<float>(), *(*with_whole)[0].data<float>());
  }
  for (const char* name : {"table", "other"}) {
    EXPECT_EQ(rows.Read(name, {kRows, 3}), whole.Read(name, {kRows, 3})) << name;
  }
  EXPECT_EQ(rows.Read("bias", {3}), whole.Read("bias", {3}));
}

TEST(RowStep, AsksEachServerOnceForEachRowOnce) {
  const Tensor a = Tensor::FromVector<int64_t>({1, 1, 39, 1, 1, 39}, {6});
  const Tensor b = Tensor::FromVector<int64_t>({1, 1, 20, 1, 1, 1}, {6});
  Cluster cluster(true, a, b);
  ASSERT_TRUE(cluster.Step(0).ok());
  // table has rows 1, 20 and 39, other 1 and 39, the bias is whole.
  EXPECT_EQ(cluster.Stats(0).bytes_out() + cluster.Stats(1).bytes_out(), (3 + 2 + 1) * 12u);
  for (int ps = 0; ps < 2; ++ps) {
    EXPECT_EQ(cluster.Stats(ps).pulls(), 1u);
    EXPECT_EQ(cluster.Stats(ps).pushes(), 1u);
  }
  // A slice without any of the rows is pushed to as well.
  EXPECT_EQ(cluster.Stats(0).applied_slices() + cluster.Stats(1).applied_slices(), 5u);
}

TEST(RowStep, AnIdOutsideTheTableIsAnErrorOfTheInput) {
  const Tensor a = Tensor::FromVector<int64_t>({1, 1, 39, 1, 40, 39}, {6});
  Cluster cluster(true, a, Tensor::FromVector<int64_t>({1, 1, 20, 1, 1, 1}, {6}));
  const auto step = cluster.Step(0);
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(ClassOf(step.status()), proto::INPUT);
  EXPECT_THAT(std::string(step.status().message()),
              AllOf(HasSubstr("id 40 of"), HasSubstr("in example 4 is not a row"),
                    HasSubstr("which has 40")));
  EXPECT_EQ(cluster.Stats(0).pulls(), 0u);
}

TEST(RowStep, RowsOfWhatIsNoInputAreRefused) {
  WorkerCluster cluster(1);
  ASSERT_TRUE(cluster.Attach(1).ok());
  proto::Program program = MakeProgram(true);
  program.mutable_inputs(0)->set_rows_of("bia");
  EXPECT_THAT(std::string(cluster.Register(program, Layouts()).message()),
              HasSubstr("input 'table:a' is bound to rows of 'bia'"));
}

// Any key will do for an id. Not in their order.
int64_t KeyOf(int64_t id) { return static_cast<int64_t>(Mix64(static_cast<uint64_t>(id) + 77)); }

Tensor KeysOf(const Tensor& ids) {
  Tensor keys = ids.Clone();
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    keys.mutable_data<int64_t>()[i] = KeyOf(ids.data<int64_t>()[i]);
  }
  return keys;
}

std::vector<proto::VariableLayout> ZeroLayouts() {
  std::vector<proto::VariableLayout> layouts = Layouts();
  for (proto::VariableLayout& layout : layouts) layout.mutable_initializer()->set_op("zeros");
  layouts[2].mutable_initializer()->set_op("ones");
  return layouts;
}

std::vector<proto::VariableLayout> DynamicLayouts() {
  std::vector<proto::VariableLayout> layouts = ZeroLayouts();
  layouts[0].set_dims(0, kKeyBuckets);
  layouts[0].mutable_slices(1)->set_row_count(30000);
  layouts[0].mutable_slices(2)->set_row_begin(30014);
  layouts[0].mutable_slices(2)->set_row_count(kKeyBuckets - 30014);
  layouts[0].mutable_dynamic()->set_row_dtype(static_cast<int32_t>(DType::kFloat32));
  return layouts;
}

TEST(RowStep, TrainsADynamicTableAsOneWithAVocabulary) {
  const Tensor a = Ids(7, 0);
  const Tensor b = Ids(11, 5);
  // The other table is looked up with the same ids: it has a vocabulary, so they are rows here.
  Cluster rows(true, a, b, ZeroLayouts());
  Cluster keys(true, KeysOf(a), KeysOf(b), DynamicLayouts(), a);
  for (int step = 0; step < kSteps; ++step) {
    const auto by_rows = rows.Step(step);
    const auto by_keys = keys.Step(step);
    ASSERT_TRUE(by_rows.ok() && by_keys.ok()) << by_rows.status() << by_keys.status();
    EXPECT_EQ(*(*by_rows)[0].data<float>(), *(*by_keys)[0].data<float>());
  }
  std::set<int64_t> named(a.data<int64_t>(), a.data<int64_t>() + a.num_elements());
  named.insert(b.data<int64_t>(), b.data<int64_t>() + b.num_elements());
  EXPECT_EQ(keys.Stats(0).tables().rows() + keys.Stats(1).tables().rows(), named.size());
  for (int ps = 0; ps < 2; ++ps) {
    EXPECT_EQ(keys.Stats(ps).pulls(), static_cast<uint64_t>(kSteps)) << "one a step";
  }
  EXPECT_EQ(rows.Read("other", {kRows, 3}), keys.Read("other", {kRows, 3}));
}

}  // namespace
}  // namespace cohort
