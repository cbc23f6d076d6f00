#include "tests/unit/worker/worker_cluster.h"

#include <utility>

#include "common/program/program.h"

namespace cohort {

WorkerCluster::WorkerCluster(int num_ps, FindCuda find_cuda, size_t call_bytes_max) {
  for (int i = 0; i < num_ps; ++i) {
    PsTask::Options options;
    options.task = TaskId{Role::kPs, i};
    options.listen_address = "ps:0";
    options.incarnation = static_cast<uint64_t>(100 + i);
    ps_.push_back(std::make_unique<PsTask>(world_, options));
    ps_addresses_.push_back(*ps_.back()->Start());
  }
  WorkerTask::Options options;
  options.task = TaskId{Role::kWorker, 0};
  options.listen_address = "worker:0";
  options.incarnation = 7;
  options.retry.first_backoff = absl::Milliseconds(1);
  options.find_cuda = std::move(find_cuda);
  options.call_bytes_max = call_bytes_max;
  worker_ = std::make_unique<WorkerTask>(world_, options);
  worker_address_ = *worker_->Start();
}

absl::Status WorkerCluster::Attach(uint64_t epoch, uint64_t coordinator) {
  epoch_ = epoch;
  proto::AttachRequest request;
  request.set_epoch(epoch);
  request.set_coordinator_incarnation(coordinator);
  request.set_lease_ms(absl::ToInt64Milliseconds(lease_));
  for (size_t i = 0; i < ps_addresses_.size(); ++i) {
    proto::Peer& peer = *request.add_ps();
    peer.mutable_task()->set_role("ps");
    peer.mutable_task()->set_index(static_cast<int32_t>(i));
    peer.set_address(ps_addresses_[i]);
  }
  std::vector<std::string> all = ps_addresses_;
  all.push_back(worker_address_);
  absl::Status status;
  for (const std::string& address : all) {
    status.Update(Invoke<proto::AttachResponse>(address, "TaskService/Attach", request).status());
  }
  return status;
}

absl::Status WorkerCluster::CreateVariables(const std::vector<proto::VariableLayout>& layouts) {
  proto::CreateVariablesRequest request;
  request.set_epoch(epoch_);
  for (const auto& layout : layouts) *request.add_variables() = layout;
  absl::Status status;
  for (const std::string& address : ps_addresses_) {
    status.Update(
        Invoke<proto::CreateVariablesResponse>(address, "PsService/CreateVariables", request)
            .status());
  }
  return status;
}

absl::Status WorkerCluster::Register(const proto::Program& program,
                                     const std::vector<proto::VariableLayout>& layouts) {
  proto::RegisterProgramRequest request;
  request.set_epoch(epoch_);
  request.set_program_id(ProgramId(program));
  *request.mutable_program() = program;
  for (const auto& layout : layouts) *request.add_variables() = layout;
  return CallWorker<proto::RegisterProgramResponse>("RegisterProgram", request).status();
}

absl::StatusOr<proto::CreateDatasetResponse> WorkerCluster::CreateDataset(
    uint64_t id, const proto::DatasetSpec& spec) {
  proto::CreateDatasetRequest request;
  request.set_epoch(epoch_);
  request.set_dataset_id(id);
  *request.mutable_spec() = spec;
  auto response = CallWorker<proto::CreateDatasetResponse>("CreateDataset", request);
  if (!response.ok()) return response.status();
  return response->header;
}

absl::Status WorkerCluster::CreateIterator(uint64_t id, uint64_t dataset) {
  proto::CreateIteratorRequest request;
  request.set_epoch(epoch_);
  request.set_iterator_id(id);
  request.set_dataset_id(dataset);
  return CallWorker<proto::CreateIteratorResponse>("CreateIterator", request).status();
}

proto::RunClosureRequest WorkerCluster::Closure(const proto::Program& program) {
  proto::RunClosureRequest request;
  request.set_epoch(epoch_);
  request.set_closure_id(++last_closure_);
  request.set_attempt(1);
  request.set_program_id(ProgramId(program));
  request.set_learning_rate(0.5);
  request.set_step(last_closure_);
  return request;
}

Pending<proto::RunClosureResponse> WorkerCluster::StartClosure(
    const proto::RunClosureRequest& request, Payload payload, std::unique_ptr<Call>* handle) {
  return Start<proto::RunClosureResponse, proto::RunClosureRequest>(
      worker_address_, "WorkerService/RunClosure", {request, std::move(payload)}, handle);
}

absl::StatusOr<std::vector<Tensor>> WorkerCluster::Run(const proto::RunClosureRequest& request,
                                                       Payload payload) {
  auto response = StartClosure(request, std::move(payload)).get();
  if (!response.ok()) return response.status();
  return ReadTensors(response->header.fetches(), response->payload);
}

proto::VariableLayout MakeLayout(const std::string& name, DType dtype, std::vector<int64_t> dims,
                                 std::vector<int64_t> rows, uint32_t first_slice_id,
                                 uint32_t num_ps) {
  proto::VariableLayout layout;
  layout.set_name(name);
  layout.set_dtype(static_cast<int32_t>(dtype));
  for (const int64_t dim : dims) layout.add_dims(dim);
  int64_t begin = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    proto::SliceHome& slice = *layout.add_slices();
    slice.set_slice_id(first_slice_id + static_cast<uint32_t>(i));
    slice.set_row_begin(begin);
    slice.set_row_count(rows[i]);
    slice.set_ps(static_cast<uint32_t>(i) % num_ps);
    begin += rows[i];
  }
  layout.mutable_initializer()->set_op("zeros");
  layout.mutable_rule()->set_op("sgd");
  return layout;
}

std::vector<proto::VariableLayout> PerceptronLayouts() {
  std::vector<proto::VariableLayout> layouts = {
      MakeLayout("w1", DType::kFloat32, {4, 6}, {2, 2}, 0, 2),
      MakeLayout("b1", DType::kFloat32, {6}, {6}, 2, 2),
      MakeLayout("w2", DType::kFloat32, {6, 3}, {3, 2, 1}, 3, 2)};
  for (proto::VariableLayout& layout : layouts) {
    layout.mutable_initializer()->set_op("random_uniform");
    layout.mutable_initializer()->set_a(-1);
    layout.mutable_initializer()->set_b(1);
    layout.mutable_initializer()->set_seed(3);
  }
  return layouts;
}

}  // namespace cohort
