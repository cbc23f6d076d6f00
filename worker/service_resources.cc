// RegisterProgram, CreateDataset, CreateIterator, ReleaseResources and ListDevices.

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "worker/local_devices.h"
#include "worker/worker_service.h"

namespace cohort {

namespace {

// A data set that cannot be made is an input of the closures that would read it.
absl::Status InputError(const absl::Status& status) {
  proto::ErrorDetail detail = DetailOf(status);
  detail.set_error_class(absl::IsResourceExhausted(status) ? proto::APPLICATION : proto::INPUT);
  return WithDetail(status, detail);
}

}  // namespace

absl::StatusOr<Envelope<proto::RegisterProgramResponse>> WorkerService::RegisterProgram(
    const proto::RegisterProgramRequest& request) {
  proto::RegisterProgramRequest own = request;
  for (proto::VariableLayout& layout : *own.mutable_variables()) {
    if (!layout.mirrored()) continue;
    // This worker has them all itself.
    const auto here = static_cast<uint32_t>(parts_->task_service->task_ref().index());
    for (proto::SliceHome& slice : *layout.mutable_slices()) slice.set_ps(here);
  }
  RETURN_IF_ERROR(programs_.Register(own));
  return Envelope<proto::RegisterProgramResponse>();
}

absl::StatusOr<Envelope<proto::CreateDatasetResponse>> WorkerService::CreateDataset(
    const proto::CreateDatasetRequest& request) {
  proto::CreateDatasetRequest own = request;
  for (proto::DatasetTransform& transform : *own.mutable_spec()->mutable_transforms()) {
    if (!transform.shard().by_worker()) continue;
    // One that came late may lie behind the last shard: it shares one with another worker.
    const int64_t shards = std::max<int64_t>(transform.shard().num_shards(), 1);
    transform.mutable_shard()->set_index(parts_->worker_position % shards);
  }
  absl::StatusOr<std::shared_ptr<const Dataset>> dataset = resources_.CreateDataset(own);
  if (!dataset.ok()) return InputError(dataset.status());
  Envelope<proto::CreateDatasetResponse> response;
  *response.header.mutable_element_spec() = (*dataset)->element_spec();
  response.header.set_cardinality((*dataset)->cardinality());
  response.header.set_content((*dataset)->content());
  return response;
}

absl::StatusOr<Envelope<proto::CreateIteratorResponse>> WorkerService::CreateIterator(
    const proto::CreateIteratorRequest& request) {
  const absl::Status status = resources_.CreateIterator(request);
  if (absl::IsNotFound(status)) {
    return MakeError(status.code(), status.message(), proto::TRANSIENT);
  }
  if (!status.ok()) return InputError(status);
  return Envelope<proto::CreateIteratorResponse>();
}

absl::StatusOr<Envelope<proto::ReleaseResourcesResponse>> WorkerService::ReleaseResources(
    const proto::ReleaseResourcesRequest& request) {
  resources_.Release(request.ids());
  return Envelope<proto::ReleaseResourcesResponse>();
}

absl::StatusOr<Envelope<proto::ListDevicesResponse>> WorkerService::ListDevices(
    const proto::ListDevicesRequest&) {
  const LocalDevices local = ListLocalDevices(options_.find_cuda);
  Envelope<proto::ListDevicesResponse> response;
  for (const std::string& name : local.names) response.header.add_devices(name);
  response.header.set_no_gpu_reason(local.no_gpu_reason);
  return response;
}

}  // namespace cohort
