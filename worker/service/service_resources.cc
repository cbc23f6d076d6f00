// The handlers of the calls RegisterProgram, CreateDataset, GatherStatistics, CreateIterator,
// ReleaseResources and ListDevices.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/task/data_files.h"
#include "common/tensor/dtype.h"
#include "common/wire/error_detail.h"
#include "worker/devices/replica_runners.h"
#include "worker/service/worker_service.h"

namespace cohort {

namespace {

// The largest answer of GatherStatistics, below what a header may have.
constexpr size_t kStatisticsBytesMax = size_t{128} << 20;

// Gives an error of making a data set or an iterator the class INPUT, because it is a fault of the
// job's data. RESOURCE_EXHAUSTED gets the class APPLICATION.
absl::Status InputError(const absl::Status& status) {
  proto::ErrorDetail detail = DetailOf(status);
  detail.set_error_class(absl::IsResourceExhausted(status) ? proto::APPLICATION : proto::INPUT);
  return WithDetail(status, detail);
}

// Returns the names and types of the components of an element, for messages.
std::string TypesOf(const proto::ElementSpec& element) {
  std::vector<std::string> types;
  for (const proto::ComponentSpec& component : element.components()) {
    const absl::StatusOr<DType> dtype = DTypeFromNumber(component.dtype());
    types.push_back(absl::StrCat(component.name(), component.name().empty() ? "" : " ",
                                 dtype.ok() ? DTypeName(*dtype) : "?", "[",
                                 absl::StrJoin(component.dims(), ","), "]"));
  }
  return absl::StrJoin(types, ", ");
}

std::string FilesOf(const proto::DatasetSource& source) {
  if (source.has_idx()) return absl::StrJoin(source.idx().paths(), ", ");
  if (source.has_click_log()) return absl::StrJoin(source.click_log().paths(), ", ");
  if (source.has_record_files()) return absl::StrJoin(source.record_files().paths(), ", ");
  if (source.has_numpy()) return absl::StrJoin(source.numpy().paths(), ", ");
  if (source.has_image_folder()) return source.image_folder().directory();
  return "";
}

// Describes the data of `worker` for a message; `data` is an ExpectedData or a
// CreateDatasetResponse. The text says whether it counts batches or examples, and also the number
// of examples in the source, because files of different lengths may give equally many batches.
template <typename Data>
std::string DescribeData(const proto::TaskRef& worker, const proto::DatasetSpec& spec,
                         const Data& data) {
  const auto& transforms = spec.transforms();
  const bool batched = std::any_of(transforms.begin(), transforms.end(),
                                   [](const auto& transform) { return transform.has_batch(); });
  return absl::StrCat(
      TaskName(worker), " has ", data.cardinality(), batched ? " batches of " : " examples of ",
      TypesOf(data.element_spec()),
      data.source_elements() < 0 || data.source_elements() == data.cardinality()
          ? ""
          : absl::StrCat(", and its source has ", data.source_elements(), " examples"));
}

// Returns true if each worker reads its own shard of the source. The data of two workers then
// differ on purpose.
bool IsShardOfWorker(const proto::DatasetSpec& spec) {
  const auto& transforms = spec.transforms();
  return std::any_of(transforms.begin(), transforms.end(),
                     [](const auto& transform) { return transform.shard().by_worker(); });
}

// Compares the data that `this_worker` has found with the data that the request expects, which are
// those of another worker. Types must be equal; lengths and checksums too, unless each worker reads
// its own shard. So it does not matter which worker makes a batch. Errors: INVALID_ARGUMENT that
// describes the data of both workers, with the number of examples in each source.
absl::Status CheckExpected(const proto::CreateDatasetRequest& request,
                           const proto::CreateDatasetResponse& found,
                           const proto::TaskRef& this_worker) {
  if (!request.has_expected()) return absl::OkStatus();
  const proto::ExpectedData& expected = request.expected();
  const bool own_shard = IsShardOfWorker(request.spec());
  const bool same_length = own_shard || expected.cardinality() == found.cardinality();
  const bool same_content = own_shard || expected.content() == found.content();
  const bool same_types = TypesOf(expected.element_spec()) == TypesOf(found.element_spec());
  if (same_length && same_types && same_content) return absl::OkStatus();
  const proto::TaskRef other = WithoutIncarnation(expected.worker());
  const proto::TaskRef worker = WithoutIncarnation(this_worker);
  const std::string files = FilesOf(request.spec().source());
  const std::string difference =
      FirstDifference({TaskName(other), expected.files()}, {TaskName(worker), found.files()});
  return absl::InvalidArgumentError(absl::StrCat(
      "workers read different data",
      files.empty() ? "" : absl::StrCat(" under the same name (", files, ")"), ": ",
      DescribeData(other, request.spec(), expected), "; ",
      DescribeData(worker, request.spec(), found), difference,
      same_content || !difference.empty()
          ? ""
          : absl::StrCat("; their checksums are ", absl::Hex(expected.content(), absl::kZeroPad8),
                         " and ", absl::Hex(found.content(), absl::kZeroPad8)),
      "; give all workers the same files, in one place that all see or by absolute paths"));
}

}  // namespace

absl::StatusOr<Envelope<proto::RegisterProgramResponse>> WorkerService::RegisterProgram(
    const proto::RegisterProgramRequest& request) {
  proto::RegisterProgramRequest own = request;
  for (proto::VariableLayout& layout : *own.mutable_variables()) {
    if (!layout.mirrored()) continue;
    // A mirrored variable has a copy on every worker, so in this worker's layout all of its slices
    // have their home here.
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
    // The position of a worker that joined the job later may exceed the number of shards. Such a
    // worker reads the same shard as another worker.
    const int64_t shards = std::max<int64_t>(transform.shard().num_shards(), 1);
    transform.mutable_shard()->set_index(parts_->worker_position % shards);
  }
  // A repeated call is cheap: CreateDataset() returns at once if the data set exists with an equal
  // spec.
  absl::StatusOr<std::shared_ptr<const Dataset>> dataset = resources_.CreateDataset(own);
  if (!dataset.ok()) {
    // The error names this worker, because a file may be missing on one worker and present on the
    // others.
    const proto::TaskRef worker = WithoutIncarnation(parts_->task_service->task_ref());
    return InputError(
        Annotate(dataset.status(), absl::StrCat(TaskName(worker), " cannot make its data set")));
  }
  Envelope<proto::CreateDatasetResponse> response;
  *response.header.mutable_element_spec() = (*dataset)->element_spec();
  response.header.set_cardinality((*dataset)->cardinality());
  response.header.set_content((*dataset)->content());
  response.header.set_source_elements((*dataset)->plan().source_elements());
  response.header.mutable_files()->Assign((*dataset)->files().begin(), (*dataset)->files().end());
  const absl::Status same =
      CheckExpected(request, response.header, parts_->task_service->task_ref());
  if (!same.ok()) return InputError(same);
  return response;
}

absl::StatusOr<Envelope<proto::GatherStatisticsResponse>> WorkerService::GatherStatistics(
    const proto::GatherStatisticsRequest& request) {
  proto::CreateDatasetRequest own;
  own.set_epoch(request.epoch());
  own.set_dataset_id(request.dataset_id());
  *own.mutable_spec() = request.spec();
  const auto gather = [&]() -> absl::StatusOr<std::vector<ColumnStatistics>> {
    ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> dataset, resources_.CreateDataset(own));
    return dataset->Gather(request.begin(), request.end());
  };
  const absl::StatusOr<std::vector<ColumnStatistics>> statistics = gather();
  if (!statistics.ok()) {
    const proto::TaskRef worker = WithoutIncarnation(parts_->task_service->task_ref());
    return InputError(Annotate(
        statistics.status(), absl::StrCat(TaskName(worker), " cannot read the data to adapt to")));
  }
  Envelope<proto::GatherStatisticsResponse> response;
  for (const ColumnStatistics& one : *statistics) {
    *response.header.add_statistics() = one.ToProto();
  }
  if (response.header.ByteSizeLong() > kStatisticsBytesMax) {
    return InputError(absl::ResourceExhaustedError(
        absl::StrCat("the distinct values of ", request.end() - request.begin(), " examples take ",
                     response.header.ByteSizeLong(), " bytes, above ", kStatisticsBytesMax,
                     "; give the vocabulary in the job file, or take Hashing, which needs none")));
  }
  return response;
}

absl::StatusOr<Envelope<proto::CreateIteratorResponse>> WorkerService::CreateIterator(
    const proto::CreateIteratorRequest& request) {
  const absl::Status status = resources_.CreateIterator(request);
  // A missing data set gives an error of class TRANSIENT, because the coordinator can create the
  // data set and repeat the call.
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
  // ListLocalDevices() may load CUDA, which is slow, so this handler runs on the strand of slow
  // calls.
  const LocalDevices local = ListLocalDevices(options_.find_cuda);
  Envelope<proto::ListDevicesResponse> response;
  for (const std::string& name : local.names) response.header.add_devices(name);
  response.header.set_no_gpu_reason(local.no_gpu_reason);
  return response;
}

}  // namespace cohort
