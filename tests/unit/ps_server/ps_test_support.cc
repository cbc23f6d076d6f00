#include "tests/unit/ps_server/ps_test_support.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/slice_spec.h"

namespace cohort {

Payload CutAt(const Tensor& tensor, const std::vector<size_t>& borders) {
  Payload payload;
  size_t begin = 0;
  const auto add = [&](size_t end) {
    const std::shared_ptr<Buffer> copy = Buffer::Allocate(end - begin + 1);
    std::memcpy(copy->data() + 1, tensor.raw() + begin, end - begin);
    payload.push_back({copy, copy->data() + 1, end - begin});
    begin = end;
  };
  for (const size_t border : borders) add(border);
  add(tensor.num_bytes());
  return payload;
}

proto::UpdateRule Rule(const std::string& op,
                       const std::vector<std::pair<std::string, double>>& parameters) {
  proto::UpdateRule rule;
  rule.set_op(op);
  for (const auto& [name, value] : parameters) {
    proto::HyperParameter& parameter = *rule.add_parameters();
    parameter.set_name(name);
    parameter.set_value(value);
  }
  return rule;
}

std::vector<proto::VariableLayout> LayOut(const std::vector<VariableSpec>& variables, int num_ps) {
  std::vector<proto::VariableLayout> layouts;
  uint32_t id = 0;
  for (const VariableSpec& variable : variables) {
    proto::VariableLayout& layout = layouts.emplace_back();
    layout.set_name(variable.name);
    layout.set_dtype(static_cast<int32_t>(variable.dtype));
    for (const int64_t dim : variable.shape.dims()) layout.add_dims(dim);
    const int64_t rows = variable.shape.rank() == 0 ? 1 : variable.shape.dim(0);
    uint32_t ps = 0;
    for (const RowRange& range : DivRows(rows, num_ps)) {
      proto::SliceHome& home = *layout.add_slices();
      home.set_slice_id(++id);
      home.set_row_begin(range.begin);
      home.set_row_count(range.count);
      home.set_ps(ps++);
    }
    *layout.mutable_rule() = variable.rule;
    if (variable.dynamic.has_value()) *layout.mutable_dynamic() = *variable.dynamic;
    layout.mutable_initializer()->set_op(variable.initializer);
    layout.mutable_initializer()->set_b(1);
    layout.mutable_initializer()->set_seed(3);
    layout.set_aggregation(variable.aggregation);
  }
  return layouts;
}

proto::CreateVariablesRequest CreateRequest(const std::vector<proto::VariableLayout>& layouts) {
  proto::CreateVariablesRequest request;
  request.set_epoch(kTestEpoch);
  for (const proto::VariableLayout& layout : layouts) *request.add_variables() = layout;
  return request;
}

Envelope<proto::PushRequest> PushOf(const PushSpec& spec,
                                    const std::vector<std::pair<uint32_t, Tensor>>& gradients) {
  Envelope<proto::PushRequest> request;
  request.header.set_epoch(kTestEpoch);
  request.header.set_closure_id(spec.closure);
  request.header.set_worker_incarnation(spec.worker);
  request.header.set_watermark(spec.watermark);
  request.header.set_learning_rate(spec.learning_rate);
  request.header.set_step(spec.step);
  for (const auto& [id, gradient] : gradients) {
    proto::PushSlice& slice = *request.header.add_slices();
    slice.set_slice_id(id);
    *slice.mutable_tensor() = MetaOf(gradient);
    request.payload.push_back(SliceOf(gradient));
  }
  return request;
}

Envelope<proto::PushRequest> PushRowsOf(const PushSpec& spec,
                                        const std::vector<RowsOfSlice>& slices) {
  Envelope<proto::PushRequest> request = PushOf(spec, {});
  for (const RowsOfSlice& rows : slices) {
    const Tensor ids = Tensor::FromVector(rows.ids, Shape{static_cast<int64_t>(rows.ids.size())});
    proto::PushSlice& slice = *request.header.add_slices();
    slice.set_slice_id(rows.slice);
    *slice.mutable_ids() = MetaOf(ids);
    *slice.mutable_tensor() = MetaOf(rows.gradients);
    request.payload.push_back(SliceOf(ids));
    request.payload.push_back(SliceOf(rows.gradients));
  }
  return request;
}

std::unique_ptr<VariableSlice> MakeShard(const VariableSpec& spec) {
  return *VariableSlice::Create((*SlicesOf(LayOut({spec}, 1)[0]))[0], HostMemory());
}

VariableSpec TableSpec(const std::string& name, int64_t width, const proto::UpdateRule& rule) {
  VariableSpec spec{name, DType::kFloat32, Shape{kKeyBuckets, width}, rule};
  spec.dynamic.emplace().set_row_dtype(static_cast<int32_t>(DType::kFloat32));
  return spec;
}

Tensor Joined(const Payload& payload, DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  COHORT_CHECK(tensor.num_bytes() == PayloadBytes(payload), "the tensor's bytes");
  std::byte* out = tensor.mutable_raw();
  for (const ByteSlice& slice : payload) {
    std::memcpy(out, slice.data, slice.size);
    out += slice.size;
  }
  return tensor;
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.num_bytes() == b.num_bytes() && std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0;
}

SliceState StateOf(VariableSlice& shard) {
  const SliceSnapshot snapshot = *shard.TakeSnapshot([]() -> absl::StatusOr<ClosureWindow> {
    return ClosureWindow{7, 0};
  });
  const SliceLayout& layout = shard.layout();
  SliceState state;
  state.value = Joined(snapshot.value, layout.dtype, shard.shape());
  for (size_t i = 0; i < snapshot.slots.size(); ++i) {
    state.slots.push_back(
        Joined(snapshot.slots[i], DType::kFloat32, layout.shape_of(layout.rule_spec.slots[i])));
  }
  state.history = snapshot.history;
  return state;
}

Envelope<proto::PullRequest> PullOf(const std::vector<uint32_t>& slice_ids) {
  Envelope<proto::PullRequest> request;
  request.header.set_epoch(kTestEpoch);
  request.header.mutable_slice_ids()->Add(slice_ids.begin(), slice_ids.end());
  return request;
}

Envelope<proto::AssignRequest> AssignOf(const std::vector<std::pair<uint32_t, Tensor>>& values) {
  Envelope<proto::AssignRequest> request;
  request.header.set_epoch(kTestEpoch);
  for (const auto& [id, value] : values) {
    request.header.add_slice_ids(id);
    *request.header.add_tensors() = MetaOf(value);
    request.payload.push_back(SliceOf(value));
  }
  return request;
}

PsCluster::PsCluster(int num_ps) : PsCluster(num_ps, own_files_) {}

PsCluster::PsCluster(int num_ps, FileSystem& files)
    : executor_(ThreadPool::Options{"ps-test", 3}), files_(files), transport_(clock_, executor_) {
  for (int ps = 0; ps < num_ps; ++ps) {
    PsTask::Options options;
    options.task = {Role::kPs, ps};
    options.listen_address = "test:0";
    options.incarnation = 900 + static_cast<uint64_t>(ps);
    options.resident_bytes_max = size_t{64} << 20;
    tasks_.push_back(
        std::make_unique<PsTask>(World{clock_, executor_, files_, transport_}, options));
    const absl::StatusOr<std::string> address = tasks_.back()->Start();
    COHORT_CHECK(address.ok(), "an in-process task listens");
    addresses_.push_back(*address);
    channels_.push_back(transport_.Connect(*address, Lane::kData));
    COHORT_CHECK(Attach(ps, kTestEpoch, kTestCoordinator).ok(), "a fresh task takes any epoch");
  }
}

PsCluster::~PsCluster() = default;

absl::Status PsCluster::Attach(int ps, uint64_t epoch, uint64_t coordinator) {
  Envelope<proto::AttachRequest> request;
  request.header.set_epoch(epoch);
  request.header.set_coordinator_incarnation(coordinator);
  return CallRaw(ps, "/cohort.proto.TaskService/Attach", Pack(std::move(request))).status();
}

absl::StatusOr<Message> PsCluster::CallRaw(int ps, const std::string& method, Message request) {
  struct Wait {
    Mutex mutex;
    CondVar wake;
    std::optional<absl::StatusOr<Message>> answer ABSL_GUARDED_BY(mutex);
  };
  const auto wait = std::make_shared<Wait>();
  const std::unique_ptr<cohort::Call> call = channel(ps).Start(
      method, std::move(request), absl::Seconds(60), [wait](absl::StatusOr<Message> answer) {
        MutexLock lock(wait->mutex);
        wait->answer = std::move(answer);
        wait->wake.NotifyAll();
      });
  MutexLock lock(wait->mutex);
  while (!wait->answer.has_value()) wait->wake.Wait(wait->mutex);
  return *std::move(wait->answer);
}

absl::Status PsCluster::CreateAll(const std::vector<proto::VariableLayout>& layouts) {
  for (int ps = 0; ps < static_cast<int>(tasks_.size()); ++ps) {
    RETURN_IF_ERROR(Call<proto::CreateVariablesResponse>(
                        ps, "/cohort.proto.PsService/CreateVariables",
                        Envelope<proto::CreateVariablesRequest>{CreateRequest(layouts), {}})
                        .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<proto::PushResponse> PsCluster::Push(int ps, Envelope<proto::PushRequest> request) {
  ASSIGN_OR_RETURN(
      const Envelope<proto::PushResponse> answer,
      Call<proto::PushResponse>(ps, "/cohort.proto.PsService/Push", std::move(request)));
  return answer.header;
}

absl::StatusOr<std::vector<Tensor>> PsCluster::Pull(int ps,
                                                    const std::vector<uint32_t>& slice_ids) {
  ASSIGN_OR_RETURN(
      const Envelope<proto::PullResponse> answer,
      Call<proto::PullResponse>(ps, "/cohort.proto.PsService/Pull", PullOf(slice_ids)));
  return ReadTensors(answer.header.tensors(), answer.payload);
}

proto::PsStatsResponse PsCluster::Stats(int ps) {
  Envelope<proto::PsStatsRequest> request;
  request.header.set_epoch(kTestEpoch);
  const auto answer =
      Call<proto::PsStatsResponse>(ps, "/cohort.proto.PsService/GetStats", std::move(request));
  COHORT_CHECK(answer.ok(), "stats of the current epoch");
  return answer->header;
}

proto::HoldShardRequest HoldRequest(const std::string& prefix) {
  proto::HoldShardRequest request;
  request.set_prefix(prefix);
  request.set_num_shards(1);
  return request;
}

absl::StatusOr<std::vector<proto::SavedSlice>> PsCluster::SaveShard(
    int ps, proto::HoldShardRequest request) {
  if (request.epoch() == 0) request.set_epoch(kTestEpoch);
  if (request.save() == 0) request.set_save(++last_save_);
  Envelope<proto::WriteShardRequest> write;
  write.header.set_epoch(request.epoch());
  write.header.set_save(request.save());
  RETURN_IF_ERROR(
      Call<proto::HoldShardResponse>(ps, "/cohort.proto.PsService/HoldShard",
                                     Envelope<proto::HoldShardRequest>{std::move(request), {}})
          .status());
  ASSIGN_OR_RETURN(
      const auto answer,
      Call<proto::WriteShardResponse>(ps, "/cohort.proto.PsService/WriteShard", std::move(write)));
  return std::vector<proto::SavedSlice>(answer.header.slices().begin(),
                                        answer.header.slices().end());
}

}  // namespace cohort
