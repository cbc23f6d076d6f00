// What a slice saves it can restore, in whatever shape: all optimizers, widths of rows, types of
// rows and ways to cut. Expectations: what a restored slice saves again is what it was restored
// from, and restored over other servers it goes on with the same bits.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/tensor/slice_spec.h"
#include "tests/unit/ps_server/checkpoint/cut_cluster.h"

namespace cohort {
namespace {

constexpr int kServers = 2;

// Each operator with all slots that it can have.
std::vector<proto::UpdateRule> Rules() {
  std::vector<proto::UpdateRule> rules;
  const std::vector<std::pair<std::string, std::vector<std::pair<std::string, double>>>> operators =
      {{"adadelta", {}},
       {"adagrad", {}},
       {"adam", {}},
       {"adam", {{"amsgrad", 1}}},
       {"adamax", {}},
       {"ftrl", {}},
       {"nadam", {}},
       {"rmsprop", {{"momentum", 0.5}, {"centered", 1}}},
       {"rowwise_adagrad", {}},
       {"sgd", {}},
       {"sgd", {{"momentum", 0.9}}}};
  for (const auto& [op, parameters] : operators) {
    for (const bool average : {false, true}) {
      if (average && op != "sgd" && op != "adam") continue;
      auto all = parameters;
      if (average) all.push_back({"use_ema", 1});
      for (const proto::SparseMode mode : {proto::LAZY, proto::LAZY_COMPENSATED}) {
        rules.push_back(Rule(op, all));
        rules.back().set_sparse(mode);
      }
    }
  }
  rules.push_back(Rule("assign_add", {}));
  return rules;
}

class RestoredShapes : public testing::Test {
 protected:
  // Names and bytes of all tensors of the checkpoint.
  std::map<std::string, std::string> Tensors(const std::string& prefix) {
    std::map<std::string, std::string> tensors;
    const auto reader = BundleReader::Open(*files_, prefix);
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (!reader.ok()) return tensors;
    for (const auto& [name, tensor] : (*reader)->tensors()) {
      const int64_t rows = tensor.shape.rank() == 0 ? 1 : tensor.shape.dim(0);
      const absl::StatusOr<Tensor> value = (*reader)->ReadRows(name, {0, rows});
      EXPECT_TRUE(value.ok()) << value.status();
      if (!value.ok()) continue;
      tensors[absl::StrCat(name, " ", value->TypeString())] =
          std::string(reinterpret_cast<const char*>(value->raw()), value->num_bytes());
    }
    return tensors;
  }

  // To all slices; of a dynamic table those keys that are in them.
  void Push(CutCluster& cluster, const VariableSpec& spec, uint64_t closure) {
    for (const proto::SliceHome& slice : cluster.slices()) {
      if (!spec.dynamic.has_value()) {
        ASSERT_TRUE(cluster.Push(closure, slice).ok());
        continue;
      }
      std::vector<int64_t> keys;
      for (int64_t key = -20; key < 20; ++key) {
        const int64_t bucket = KeyBucket(key) - slice.row_begin();
        if (bucket >= 0 && bucket < slice.row_count()) keys.push_back(key);
      }
      const int64_t width = spec.shape.dim(1);
      const auto count = static_cast<int64_t>(keys.size());
      std::vector<float> gradients;
      for (int64_t i = 0; i < count * width; ++i) {
        const RandomStream stream(closure, absl::StrCat(keys[static_cast<size_t>(i / width)]));
        gradients.push_back(stream.Normal(static_cast<uint64_t>(i % width)));
      }
      auto push = PushRowsOf(
          {.closure = closure, .learning_rate = 0.1, .step = closure},
          {{slice.slice_id(), keys, Tensor::FromVector<float>(gradients, Shape{count, width})}});
      push.header.set_epoch(cluster.epoch());
      const auto answer = cluster.ps().Push(static_cast<int>(slice.ps()), std::move(push));
      ASSERT_TRUE(answer.ok()) << answer.status();
    }
  }

  // Whole variables behind so many servers' restore of /saved and one more push.
  std::map<std::string, std::string> GoOnOver(int servers, const VariableSpec& spec) {
    CutCluster other(servers, *files_, {spec});
    for (int ps = 0; ps < servers; ++ps) {
      Envelope<proto::RestoreShardRequest> request;
      request.header.set_epoch(other.epoch());
      request.header.set_prefix("/saved");
      request.header.set_slots(true);
      const auto restored = other.ps().Call<proto::RestoreShardResponse>(
          ps, "/cohort.proto.PsService/RestoreShard", std::move(request));
      EXPECT_TRUE(restored.ok()) << restored.status();
    }
    Push(other, spec, 3);
    const std::string prefix = absl::StrCat("/other-", servers);
    EXPECT_TRUE(other.Save(prefix).ok());
    const std::map<std::string, std::string> tensors = Tensors(prefix);
    std::map<std::string, std::string> rows;
    for (const auto& [name, bytes] : tensors) {
      if (!absl::StrContains(name, "/.COHORT_")) rows[name] = bytes;
      const size_t keys = name.find("/keys ");
      if (keys != std::string::npos) AddRows(tensors, name.substr(0, keys + 1), bytes, rows);
    }
    EXPECT_FALSE(rows.empty());
    return rows;
  }

  // Of a part of a table each row's columns, by column and key.
  static void AddRows(const std::map<std::string, std::string>& tensors, const std::string& part,
                      const std::string& keys, std::map<std::string, std::string>& rows) {
    const size_t count = keys.size() / sizeof(int64_t);
    for (const auto& [name, bytes] : tensors) {
      if (!absl::StartsWith(name, part) || count == 0) continue;
      const std::string column = name.substr(part.size(), name.find(' ') - part.size());
      const size_t width = bytes.size() / count;
      for (size_t i = 0; i < count; ++i) {
        int64_t key = 0;
        std::memcpy(&key, keys.data() + i * sizeof(key), sizeof(key));
        rows[absl::StrCat(column, " ", key)] = bytes.substr(i * width, width);
      }
    }
  }

  void Check(const VariableSpec& spec) {
    SCOPED_TRACE(absl::StrCat(spec.dynamic.has_value() ? "dynamic " : "", spec.shape.ToString(),
                              " ", spec.rule.ShortDebugString()));
    files_ = std::make_unique<MemoryFileSystem>();
    CutCluster cluster(kServers, *files_, {spec});
    for (const uint64_t closure : {1, 2}) Push(cluster, spec, closure);
    const absl::Status status = cluster.Save("/saved");
    ASSERT_TRUE(status.ok()) << status;
    const auto saved = Tensors("/saved");
    CutCluster again(kServers, *files_, {spec});  // which has rows in the order of the checkpoint
    again.GoBackTo({"/saved"});
    const absl::Status saved_again = again.Save("/again");
    ASSERT_TRUE(saved_again.ok()) << saved_again;
    EXPECT_TRUE(Tensors("/again") == saved);
    const auto over_one = GoOnOver(1, spec);
    EXPECT_TRUE(GoOnOver(3, spec) == over_one);
  }

  std::unique_ptr<MemoryFileSystem> files_;
};

TEST_F(RestoredShapes, OfDynamicTablesFitWhateverTheOptimizerTheWidthAndTheType) {
  for (const proto::UpdateRule& rule : Rules()) {
    for (const int64_t width : {1, 2, 3, 64}) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
        VariableSpec spec = TableSpec("t", width, rule);
        spec.dynamic->set_row_dtype(static_cast<int32_t>(dtype));
        spec.dynamic->set_admit_after(width == 2 ? 2 : 1);
        ASSERT_NO_FATAL_FAILURE(Check(spec));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(RestoredShapes, OfVariablesFitWhateverTheOptimizerAndTheWidth) {
  for (const proto::UpdateRule& rule : Rules()) {
    for (const Shape& shape : {Shape{7}, Shape{7, 1}, Shape{7, 2}, Shape{7, 3, 1}, Shape{7, 64}}) {
      ASSERT_NO_FATAL_FAILURE(Check({"v", DType::kFloat32, shape, rule}));
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace cohort
