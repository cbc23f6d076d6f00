// Saving with some number of parameter servers and restoring into another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/wire/error_detail.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char kRestore[] = "/cohort.proto.PsService/RestoreShard";

std::vector<VariableSpec> Model(const std::string& initializer) {
  return {{"dense/kernel", DType::kFloat32, Shape{13, 7}, Rule("rmsprop", {{"momentum", 0.5}}),
           initializer},
          {"dense/bias", DType::kFloat32, Shape{7}, Rule("adam", {}), initializer},
          {"rows", DType::kFloat32, Shape{13, 7}, Rule("rowwise_adagrad", {{"use_ema", 1}}),
           initializer},
          {"temperature", DType::kFloat32, Shape{}, Rule("rowwise_adagrad", {}), initializer},
          {"iterations", DType::kInt64, Shape{}, Rule("assign_add", {}), "zeros"}};
}

absl::Status Save(PsCluster& cluster, int num_ps, const std::string& prefix) {
  std::vector<proto::SavedSlice> slices;
  for (int ps = 0; ps < num_ps; ++ps) {
    proto::HoldShardRequest request = HoldRequest(prefix);
    request.set_shard(ps);
    request.set_num_shards(num_ps);
    ASSIGN_OR_RETURN(const auto saved, cluster.SaveShard(ps, std::move(request)));
    slices.insert(slices.end(), saved.begin(), saved.end());
  }
  return WriteIndex(cluster.files(), prefix, num_ps, slices);
}

absl::StatusOr<uint32_t> Restore(PsCluster& cluster, int ps, const std::string& prefix, bool slots,
                                 bool new_slots = false) {
  Envelope<proto::RestoreShardRequest> request;
  request.header.set_epoch(kTestEpoch);
  request.header.set_prefix(prefix);
  request.header.set_slots(slots);
  request.header.set_new_slots(new_slots);
  ASSIGN_OR_RETURN(const auto answer,
                   cluster.Call<proto::RestoreShardResponse>(ps, kRestore, std::move(request)));
  return answer.header.restored_tensors();
}

// Some steps of gradients that depend on the whole variable's element alone, so any layout trains
// the same.
void Train(PsCluster& cluster, const std::vector<proto::VariableLayout>& layouts,
           uint64_t first_step) {
  for (uint64_t step = first_step; step < first_step + 3; ++step) {
    for (const proto::VariableLayout& layout : layouts) {
      for (const proto::SliceHome& home : layout.slices()) {
        const SliceLayout slice = (*SlicesOf(layout))[0];
        Tensor gradient = Tensor::Scalar<int64_t>(1);
        if (slice.dtype == DType::kFloat32) {
          gradient = *InitialRows({"random_normal", 0, 1, step}, layout.name(), slice.dtype,
                                  slice.full_shape, {home.row_begin(), home.row_count()});
        }
        const PushSpec spec = {.closure = step, .learning_rate = 0.01, .step = step};
        ASSERT_TRUE(
            cluster.Push(static_cast<int>(home.ps()), PushOf(spec, {{home.slice_id(), gradient}}))
                .ok());
      }
    }
  }
}

// Without the histories, which differ from layout to layout.
std::map<std::string, std::string> Contents(FileSystem& files, const std::string& prefix) {
  std::map<std::string, std::string> contents;
  const auto reader = *BundleReader::Open(files, prefix);
  for (const auto& [name, tensor] : reader->tensors()) {
    if (absl::StrContains(name, "/.COHORT_APPLIED/")) continue;
    const Tensor value = *reader->Read(name);
    contents[name] = absl::StrCat(value.TypeString(), ":");
    contents[name].append(reinterpret_cast<const char*>(value.raw()), value.num_bytes());
  }
  return contents;
}

class CheckpointTest : public testing::Test {
 protected:
  MemoryFileSystem files_;  // of all clusters of a test
};

TEST_F(CheckpointTest, AnyNumberOfParameterServersRestoresTheSameBits) {
  PsCluster saved(3, files_);
  const auto layouts = LayOut(Model("random_normal"), 3);
  ASSERT_TRUE(saved.CreateAll(layouts).ok());
  Train(saved, layouts, 1);
  const std::string prefix = "/three";
  ASSERT_TRUE(Save(saved, 3, prefix).ok());
  const auto expected = Contents(files_, prefix);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : expected) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("dense/bias", "dense/bias/.OPTIMIZER_SLOT/adam/m",
                                 "dense/bias/.OPTIMIZER_SLOT/adam/v", "dense/kernel",
                                 "dense/kernel/.OPTIMIZER_SLOT/rmsprop/momentum",
                                 "dense/kernel/.OPTIMIZER_SLOT/rmsprop/velocity", "iterations",
                                 "rows", "rows/.OPTIMIZER_SLOT/rowwise_adagrad/accumulator",
                                 "rows/.OPTIMIZER_SLOT/rowwise_adagrad/average", "temperature",
                                 "temperature/.OPTIMIZER_SLOT/rowwise_adagrad/accumulator"));
  EXPECT_EQ((*BundleReader::Open(files_, prefix))
                ->tensors()
                .at("rows/.OPTIMIZER_SLOT/rowwise_adagrad/accumulator")
                .shape,
            Shape{13});
  PsCluster straight(1, files_);
  const auto one = LayOut(Model("random_normal"), 1);
  ASSERT_TRUE(straight.CreateAll(one).ok());
  Train(straight, one, 1);
  Train(straight, one, 4);
  ASSERT_TRUE(Save(straight, 1, "/straight").ok());
  const auto straight_contents = Contents(files_, "/straight");
  for (const int num_ps : {1, 2, 5}) {
    PsCluster other(num_ps, files_);
    const auto other_layouts = LayOut(Model("zeros"), num_ps);
    ASSERT_TRUE(other.CreateAll(other_layouts).ok());
    for (int ps = 0; ps < num_ps; ++ps) ASSERT_TRUE(Restore(other, ps, prefix, true).ok());
    const std::string again = absl::StrCat("/again", num_ps);
    ASSERT_TRUE(Save(other, num_ps, again).ok());
    EXPECT_EQ(Contents(files_, again), expected) << num_ps;
    // And training goes on as if nothing had happened.
    Train(other, other_layouts, 4);
    const std::string later = absl::StrCat("/later", num_ps);
    ASSERT_TRUE(Save(other, num_ps, later).ok());
    EXPECT_EQ(Contents(files_, later), straight_contents) << num_ps;
  }
}

// Rows, version, watermark, last change and round, and the interval [1, 3], by first row.
TEST_F(CheckpointTest, BesideEachSliceLiesWhichClosuresAreInIt) {
  PsCluster cluster(2, files_);
  const auto layouts = LayOut(Model("random_normal"), 2);
  ASSERT_TRUE(cluster.CreateAll(layouts).ok());
  Train(cluster, layouts, 1);
  ASSERT_TRUE(Save(cluster, 2, "/two").ok());
  const auto reader = *BundleReader::Open(files_, "/two");
  const auto history = [&](const std::string& name) {
    const Tensor tensor = *reader->Read(name);
    const absl::Span<const int64_t> fields = tensor.span<int64_t>();
    return std::vector<int64_t>(fields.begin(), fields.end());
  };
  EXPECT_THAT(history("dense/kernel/.COHORT_APPLIED/0"), ElementsAre(7, 3, 1, 0, 0, 1, 3));
  EXPECT_THAT(history("dense/kernel/.COHORT_APPLIED/7"), ElementsAre(6, 3, 1, 0, 0, 1, 3));
  EXPECT_THAT(history("iterations/.COHORT_APPLIED/0"), ElementsAre(1, 3, 1, 0, 0, 1, 3));
}

TEST_F(CheckpointTest, WithoutSlotsOnlyTheVariablesComeBack) {
  PsCluster cluster(1, files_);
  const auto layouts = LayOut(Model("random_normal"), 1);
  ASSERT_TRUE(cluster.CreateAll(layouts).ok());
  ASSERT_TRUE(Save(cluster, 1, "/start").ok());
  Train(cluster, layouts, 1);
  ASSERT_TRUE(Save(cluster, 1, "/trained").ok());
  EXPECT_EQ(*Restore(cluster, 0, "/start", false), 5u);
  ASSERT_TRUE(Save(cluster, 1, "/mixed").ok());
  const auto start = Contents(files_, "/start");
  const auto trained = Contents(files_, "/trained");
  for (const auto& [name, bytes] : Contents(files_, "/mixed")) {
    EXPECT_EQ(bytes, name.find("SLOT") == std::string::npos ? start.at(name) : trained.at(name));
  }
}

// Slots of `name` in a cluster that has trained nothing.
std::string Fresh(const std::vector<VariableSpec>& model, const std::string& name) {
  MemoryFileSystem files;
  PsCluster cluster(1, files);
  EXPECT_TRUE(cluster.CreateAll(LayOut(model, 1)).ok());
  EXPECT_TRUE(Save(cluster, 1, "/fresh").ok());
  return Contents(files, "/fresh").at(name);
}

// Another optimizer goes on from the checkpoint: what it does not find begins as new.
TEST_F(CheckpointTest, SlotsThatTheCheckpointDoesNotHaveBeginAsNew) {
  PsCluster cluster(2, files_);
  const auto layouts = LayOut(Model("random_normal"), 2);
  ASSERT_TRUE(cluster.CreateAll(layouts).ok());
  Train(cluster, layouts, 1);
  ASSERT_TRUE(Save(cluster, 2, "/trained").ok());
  const auto trained = Contents(files_, "/trained");

  auto model = Model("ones");
  model[0].rule = Rule("rmsprop", {{"momentum", 0.5}, {"use_ema", 1}});
  model[1].rule = Rule("adagrad", {{"initial_accumulator_value", 0.25}});
  PsCluster other(1, files_);
  ASSERT_TRUE(other.CreateAll(LayOut(model, 1)).ok());
  EXPECT_FALSE(Restore(other, 0, "/trained", true).ok()) << "where it is not said";
  ASSERT_TRUE(Restore(other, 0, "/trained", true, /*new_slots=*/true).ok());
  ASSERT_TRUE(Save(other, 1, "/mixed").ok());
  for (const auto& [name, bytes] : Contents(files_, "/mixed")) {
    const std::string average = "dense/kernel/.OPTIMIZER_SLOT/rmsprop/average";
    const std::string accumulator = "dense/bias/.OPTIMIZER_SLOT/adagrad/accumulator";
    if (name == average) {
      EXPECT_EQ(bytes, trained.at("dense/kernel")) << "it follows the value that was restored";
    } else if (name == accumulator) {
      EXPECT_EQ(bytes, Fresh(model, accumulator));
    } else {
      EXPECT_EQ(bytes, trained.at(name)) << name;
    }
  }
}

TEST_F(CheckpointTest, WeightsAloneComeWithSlotsThatAreNew) {
  PsCluster cluster(1, files_);
  auto model = Model("random_normal");
  const auto layouts = LayOut(model, 1);
  ASSERT_TRUE(cluster.CreateAll(layouts).ok());
  Train(cluster, layouts, 1);
  ASSERT_TRUE(Save(cluster, 1, "/trained").ok());
  const auto trained = Contents(files_, "/trained");
  Train(cluster, layouts, 4);
  ASSERT_TRUE(Restore(cluster, 0, "/trained", false, /*new_slots=*/true).ok());
  ASSERT_TRUE(Save(cluster, 1, "/mixed").ok());
  for (const auto& [name, bytes] : Contents(files_, "/mixed")) {
    if (absl::EndsWith(name, "/average")) {
      EXPECT_EQ(bytes, trained.at("rows"));
    } else if (absl::StrContains(name, "SLOT")) {
      EXPECT_EQ(bytes, Fresh(model, name)) << name;
    } else {
      EXPECT_EQ(bytes, trained.at(name)) << name;
    }
  }
}

// Every row would make up for the steps of before the checkpoint.
TEST_F(CheckpointTest, WhatCountsMissedStepsCannotBeNew) {
  PsCluster cluster(1, files_);
  ASSERT_TRUE(cluster.CreateAll(LayOut(Model("ones"), 1)).ok());
  ASSERT_TRUE(Save(cluster, 1, "/model").ok());
  auto model = Model("zeros");
  model[1].rule = Rule("adam", {});
  model[1].rule.set_sparse(proto::LAZY_COMPENSATED);
  PsCluster other(1, files_);
  ASSERT_TRUE(other.CreateAll(LayOut(model, 1)).ok());
  EXPECT_THAT(std::string(Restore(other, 0, "/model", true, true).status().message()),
              HasSubstr("adam/last_step"));
  EXPECT_TRUE(Restore(other, 0, "/model", false, true).ok());
}

TEST_F(CheckpointTest, ErrorsNameWhatIsMissingOrDifferentAndChangeNothing) {
  PsCluster cluster(1, files_);
  ASSERT_TRUE(cluster.CreateAll(LayOut(Model("ones"), 1)).ok());
  ASSERT_TRUE(Save(cluster, 1, "/model").ok());

  PsCluster renamed(1, files_);
  auto model = Model("zeros");
  model[1].name = "dense/biases";
  ASSERT_TRUE(renamed.CreateAll(LayOut(model, 1)).ok());
  const absl::Status missing = Restore(renamed, 0, "/model", false).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no tensor 'dense/biases'"));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("nearest are: dense/bias, "));
  EXPECT_EQ(DetailOf(missing).origin().role(), "ps");
  EXPECT_EQ((*renamed.Pull(0, {1}))[0].span<float>()[0], 0) << "the kernel was there, and stays";

  PsCluster reshaped(1, files_);
  model = Model("zeros");
  model[0].shape = Shape{7, 13};
  ASSERT_TRUE(reshaped.CreateAll(LayOut(model, 1)).ok());
  const absl::Status different = Restore(reshaped, 0, "/model", true).status();
  EXPECT_EQ(different.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(different.message()),
              HasSubstr("float32[13,7], the job's is float32[7,13]"));

  PsCluster other_optimizer(1, files_);
  model = Model("zeros");
  model[1].rule = Rule("adagrad", {});
  ASSERT_TRUE(other_optimizer.CreateAll(LayOut(model, 1)).ok());
  EXPECT_THAT(std::string(Restore(other_optimizer, 0, "/model", true).status().message()),
              HasSubstr("dense/bias/.OPTIMIZER_SLOT/adagrad/accumulator"));
  EXPECT_TRUE(Restore(other_optimizer, 0, "/model", false).ok());

  EXPECT_EQ(Restore(cluster, 0, "/nowhere", false).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Restore(cluster, 0, "", false).ok());
  EXPECT_EQ(Save(cluster, 1, "/no/such/place").code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointTest, WhatTheCoordinatorSendsAlongIsSavedBesideTheSlices) {
  PsCluster cluster(1, files_);
  proto::HoldShardRequest request = HoldRequest("/model");
  proto::NamedTensor& step = *request.add_extras();
  step.set_name("step");
  step.mutable_tensor()->set_dtype(static_cast<int32_t>(DType::kInt64));
  step.mutable_tensor()->set_data(std::string(7, '\1'));
  const absl::Status shorter = cluster.SaveShard(0, request).status();
  EXPECT_THAT(std::string(shorter.message()), HasSubstr("'step' needs a name and 8 bytes"));
  step.mutable_tensor()->set_data(std::string(8, '\1'));
  const auto saved = cluster.SaveShard(0, request);
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_TRUE(WriteIndex(files_, "/model", 1, *saved).ok());
  const auto reader = *BundleReader::Open(files_, "/model");
  EXPECT_EQ(reader->Read("step")->span<int64_t>()[0], 0x0101010101010101);
}

TEST_F(CheckpointTest, AFullDiskIsAnErrorThatNamesTheFileAndTrainingGoesOn) {
  PsCluster cluster(1, files_);
  const auto layouts = LayOut(Model("ones"), 1);
  ASSERT_TRUE(cluster.CreateAll(layouts).ok());
  files_.SetCapacity(100);
  const absl::Status full = Save(cluster, 1, "/model");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("/model.data-00000-of-00001"));
  Train(cluster, layouts, 1);
  files_.SetCapacity(1 << 20);
  EXPECT_TRUE(Save(cluster, 1, "/model").ok());
}

TEST_F(CheckpointTest, AShardNumberOutsideItsRangeIsRefused) {
  PsCluster cluster(1, files_);
  for (const auto& [shard, num_shards] :
       std::vector<std::pair<int, int>>{{-1, 1}, {1, 1}, {0, 0}, {0, 1 << 30}}) {
    proto::HoldShardRequest request = HoldRequest("/x");
    request.set_shard(shard);
    request.set_num_shards(num_shards);
    EXPECT_EQ(cluster.SaveShard(0, std::move(request)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace cohort
