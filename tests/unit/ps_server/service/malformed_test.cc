// Valid requests with random damage: an answer or an error comes back, and the task stays whole.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/sequence_rng.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

constexpr int kCases = 500;

// A request that sets the slot of slice 1.
Envelope<proto::AssignRequest> SlotOfA() {
  auto request = AssignOf({{1, Tensor::Zeros(DType::kFloat32, Shape{6, 5})}});
  request.header.set_slot("velocity");
  request.header.set_update(9);
  return request;
}

std::vector<std::pair<std::string, Message>> ValidRequests(const std::string& prefix) {
  const Tensor values(DType::kFloat32, Shape{6, 5});
  std::vector<std::pair<std::string, Message>> requests;
  const auto add = [&](const char* method, Message message) {
    requests.emplace_back(absl::StrCat("/cohort.proto.PsService/", method), std::move(message));
  };
  auto layouts = LayOut({{"a", DType::kFloat32, Shape{6, 5}, Rule("rmsprop", {{"rho", 0.9}})},
                         {"b", DType::kInt64, Shape{}, Rule("assign_add", {}), "zeros"}},
                        1);
  add("CreateVariables", Pack(Envelope<proto::CreateVariablesRequest>{CreateRequest(layouts), {}}));
  layouts[1].set_name("c");
  layouts[1].mutable_slices(0)->set_slice_id(3);
  add("CreateVariables", Pack(Envelope<proto::CreateVariablesRequest>{CreateRequest(layouts), {}}));
  add("Pull", Pack(PullOf({1, 2})));
  add("Push", Pack(PushOf({.closure = 9}, {{1, Tensor::Zeros(DType::kFloat32, Shape{6, 5})},
                                           {2, Tensor::Scalar<int64_t>(3)}})));
  add("Push", Pack(PushRowsOf({.closure = 10},
                              {{1, {3, 0, 3}, Tensor::Zeros(DType::kFloat32, Shape{3, 5})}})));
  add("Assign", Pack(AssignOf({{1, Tensor::Zeros(DType::kFloat32, Shape{6, 5})}})));
  add("Assign", Pack(SlotOfA()));
  Envelope<proto::FenceRequest> fence;
  fence.header.set_epoch(kTestEpoch);
  fence.header.add_worker_incarnations(1);
  add("Fence", Pack(std::move(fence)));
  proto::HoldShardRequest hold = HoldRequest(prefix + "-again");
  hold.set_epoch(kTestEpoch);
  hold.set_save(100);
  add("HoldShard", Pack(Envelope<proto::HoldShardRequest>{hold, {}}));
  Envelope<proto::ReadShardRequest> read;
  read.header.set_epoch(kTestEpoch);
  read.header.set_save(100);
  read.header.set_max_bytes(50);
  add("ReadShard", Pack(read));
  Envelope<proto::StageRestoreRequest> stage;
  stage.header.set_epoch(kTestEpoch);
  stage.header.set_restore(100);
  stage.header.set_prefix(prefix);
  add("StageRestore", Pack(stage));
  Envelope<proto::WriteStagedRequest> staged;
  staged.header.set_epoch(kTestEpoch);
  staged.header.set_restore(100);
  add("WriteStaged", Pack(staged));
  Envelope<proto::FetchStagedRequest> fetch;
  fetch.header.set_epoch(kTestEpoch);
  fetch.header.set_restore(100);
  fetch.header.mutable_from()->set_address("nobody:1");
  fetch.header.set_timeout_ms(1);
  add("FetchStaged", Pack(fetch));
  Envelope<proto::RestoreShardRequest> restore;
  restore.header.set_epoch(kTestEpoch);
  restore.header.set_prefix(prefix);
  add("RestoreShard", Pack(restore));
  restore.header.set_applied(true);
  restore.header.set_watermark(3);
  add("RestoreShard", Pack(std::move(restore)));
  return requests;
}

// One to three changes: a byte set, a bit flipped, bytes cut off, inserted or repeated, payload
// added or lost.
void Damage(SequenceRng& rng, Message& message) {
  for (uint64_t i = 1 + rng.Below(3); i > 0; --i) {
    std::string& header = message.header;
    const size_t at = header.empty() ? 0 : rng.Below(header.size());
    switch (rng.Below(7)) {
      case 0:
        if (!header.empty()) header[at] = static_cast<char>(rng.Next());
        break;
      case 1:
        if (!header.empty()) header[at] = static_cast<char>(header[at] ^ (1 << rng.Below(8)));
        break;
      case 2:
        header.resize(at);
        break;
      case 3:
        header.insert(at, 1 + rng.Below(9), static_cast<char>(rng.Next()));
        break;
      case 4:
        header += header.substr(at);
        break;
      case 5:
        if (!message.payload.empty()) message.payload.pop_back();
        break;
      default:
        message.payload.push_back(SliceOf(Tensor::Zeros(DType::kUint8, Shape{3})));
        break;
    }
  }
}

TEST(Malformed, DamagedRequestsNeverEndTheTask) {
  const uint64_t first = TestSeed(1);
  PsCluster cluster(1);
  const auto requests = ValidRequests("/no_such_checkpoint");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cluster.CallRaw(0, requests[0].first, requests[0].second).ok());
  }
  int refused = 0;
  for (uint64_t seed = first; seed < first + kCases; ++seed) {
    SCOPED_TRACE(Replay(seed, "Malformed.*"));
    SequenceRng rng(seed);
    auto [method, message] = requests[rng.Below(requests.size())];
    Damage(rng, message);
    const absl::Status status = cluster.CallRaw(0, method, std::move(message)).status();
    refused += status.ok() ? 0 : 1;
    ASSERT_NE(status.code(), absl::StatusCode::kInternal) << status;
    ASSERT_NE(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    const absl::StatusOr<std::vector<Tensor>> alive = cluster.Pull(0, {1, 2});
    ASSERT_TRUE(alive.ok()) << alive.status();
  }
  EXPECT_GT(refused, kCases / 4) << "the damage must hurt";
}

// Sizes whose sum is 2^64: as many bytes as the payload has, if nobody looks.
TEST(Malformed, SizesThatAddUpToNothingAreRefused) {
  PsCluster cluster(1);
  VariableSpec spec = {"a", DType::kInt64, Shape{4}, Rule("assign_add", {}), "zeros"};
  VariableSpec other = spec;
  other.name = "b";
  ASSERT_TRUE(cluster.CreateAll(LayOut({spec, other}, 1)).ok());
  Envelope<proto::AssignRequest> assign;
  assign.header.set_epoch(kTestEpoch);
  assign.header.set_update(1);
  Envelope<proto::PushRequest> push = PushOf({}, {});
  for (const uint32_t slice : {1, 2}) {
    proto::TensorMeta huge;
    huge.set_dtype(static_cast<int32_t>(DType::kInt64));
    huge.add_dims(int64_t{1} << 59);
    assign.header.add_slice_ids(slice);
    *assign.header.add_tensors() = huge;
    *assign.header.add_ids() = huge;
    proto::PushSlice& pushed = *push.header.add_slices();
    pushed.set_slice_id(slice);
    *pushed.mutable_tensor() = huge;
    *pushed.mutable_ids() = huge;
  }
  const auto assigned =
      cluster.Call<proto::AssignResponse>(0, "/cohort.proto.PsService/Assign", std::move(assign));
  EXPECT_EQ(assigned.status().code(), absl::StatusCode::kInvalidArgument) << assigned.status();
  EXPECT_EQ(cluster.Push(0, std::move(push)).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cohort
