#include "coordinator/cluster/ps_control.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/ps_group.h"

namespace cohort {

namespace {

// A killed server refuses calls so often within this time that it is known to be gone.
constexpr absl::Duration kLossNoticed = absl::Milliseconds(500);

// One empty request for each ps; the epoch is filled in when they are sent.
template <typename Request>
std::vector<Envelope<Request>> ForEach(int num_ps) {
  return std::vector<Envelope<Request>>(static_cast<size_t>(num_ps));
}

absl::StatusOr<Tensor> AllocateVariable(const proto::VariableLayout& variable) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(variable.dtype()));
  return Tensor(dtype, Shape(absl::MakeConstSpan(variable.dims().data(),
                                                 static_cast<size_t>(variable.dims_size()))));
}

// The bytes of one slice inside the whole variable.
struct ByteRange {
  size_t offset;
  size_t size;
};
ByteRange BytesOfSlice(const Tensor& whole, const proto::SliceHome& slice) {
  const size_t row = static_cast<size_t>(whole.shape().row_elements()) * ElementSize(whole.dtype());
  return {static_cast<size_t>(slice.row_begin()) * row,
          static_cast<size_t>(slice.row_count()) * row};
}

Tensor SliceView(const Tensor& whole, const proto::SliceHome& slice) {
  if (whole.shape().rank() == 0) return whole;
  return whole.Rows(slice.row_begin(), slice.row_count());
}

proto::InlineTensor Inline(const Tensor& value) {
  proto::InlineTensor tensor;
  tensor.set_dtype(static_cast<int32_t>(value.dtype()));
  for (const int64_t dim : value.shape().dims()) tensor.add_dims(dim);
  tensor.set_data(value.raw(), value.num_bytes());
  return tensor;
}

}  // namespace

PsControl::PsControl(World world, std::shared_ptr<Cluster> cluster,
                     std::shared_ptr<ShardTransfer> transfer, Waiter& waiter, Options options)
    : world_(world),
      cluster_(std::move(cluster)),
      transfer_(std::move(transfer)),
      waiter_(waiter),
      options_(std::move(options)) {}

template <typename Response, typename Request>
absl::StatusOr<std::vector<Envelope<Response>>> PsControl::CallAllOnce(
    const std::string& method, std::vector<Envelope<Request>> requests) {
  ASSIGN_OR_RETURN(const std::vector<TaskLink> links, cluster_->ps());
  for (Envelope<Request>& request : requests) request.header.set_epoch(cluster_->epoch());
  return Await<std::vector<Envelope<Response>>>(
      waiter_, options_.timeout * 2, absl::StrCat(method, " on all parameter servers"),
      [&](auto done) {
        CallEach<Response>(links, absl::StrCat("/cohort.proto.PsService/", method),
                           std::move(requests), options_.timeout, std::move(done));
      });
}

absl::Status PsControl::WaitUntilStable(absl::Time deadline, const absl::Status& loss) {
  if (!loss.ok()) {
    // The coordinator's own connection says whether the server is gone; give it time to.
    cluster_->SuspectPs(DetailOf(loss).origin().index());
    Event never;
    waiter_.Wait(never, kLossNoticed);
  }
  return Await<bool>(waiter_, deadline - world_.clock.Now(), "a recovery to end",
                     [&](auto done) {
                       options_.when_stable([done = std::move(done)](absl::Status error) mutable {
                         if (!error.ok()) return done(error);
                         done(true);
                       });
                     })
      .status();
}

template <typename T, typename Once>
absl::StatusOr<T> PsControl::UntilStable(Once once) {
  if (!options_.when_stable) return once();
  const absl::Time deadline = world_.clock.Now() + options_.recovery_timeout;
  absl::Status loss;
  while (true) {
    RETURN_IF_ERROR(WaitUntilStable(deadline, loss));
    absl::StatusOr<T> result = once();
    loss = result.status();
    const bool again = ClassOf(loss) == proto::PS_LOST || ClassOf(loss) == proto::STALE;
    if (!again || world_.clock.Now() >= deadline) return result;
  }
}

template <typename Response, typename Request>
absl::StatusOr<std::vector<Envelope<Response>>> PsControl::CallAll(
    const std::string& method, std::vector<Envelope<Request>> requests) {
  return UntilStable<std::vector<Envelope<Response>>>(
      [&] { return CallAllOnce<Response>(method, requests); });
}

absl::StatusOr<std::vector<size_t>> PsControl::HomesOf(
    const proto::VariableLayout& variable) const {
  std::vector<size_t> homes;
  for (const proto::SliceHome& slice : variable.slices()) {
    const absl::StatusOr<size_t> position = cluster_->PositionOfPs(slice.ps());
    if (!position.ok()) {
      return Annotate(position.status(), absl::StrCat("variable ", variable.name()));
    }
    homes.push_back(*position);
  }
  return homes;
}

absl::Status PsControl::CreateVariables(absl::Span<const proto::VariableLayout> variables) {
  // A slice without a home would be made nowhere, and nobody would say so.
  for (const proto::VariableLayout& variable : variables) {
    RETURN_IF_ERROR(HomesOf(variable).status());
  }
  auto requests = ForEach<proto::CreateVariablesRequest>(num_ps());
  for (auto& request : requests) {
    for (const proto::VariableLayout& variable : variables) {
      *request.header.add_variables() = variable;
    }
  }
  return CallAll<proto::CreateVariablesResponse>("CreateVariables", std::move(requests)).status();
}

absl::StatusOr<Tensor> PsControl::Read(const proto::VariableLayout& variable) {
  ASSIGN_OR_RETURN(Tensor whole, AllocateVariable(variable));
  ASSIGN_OR_RETURN(const std::vector<size_t> homes, HomesOf(variable));
  auto requests = ForEach<proto::PullRequest>(num_ps());
  for (size_t i = 0; i < homes.size(); ++i) {
    requests[homes[i]].header.add_slice_ids(variable.slices(static_cast<int>(i)).slice_id());
  }
  ASSIGN_OR_RETURN(const auto responses,
                   CallAll<proto::PullResponse>("Pull", std::move(requests)));
  std::vector<PayloadReader> readers;
  for (const auto& response : responses) readers.emplace_back(response.payload);
  for (size_t i = 0; i < homes.size(); ++i) {
    const ByteRange range = BytesOfSlice(whole, variable.slices(static_cast<int>(i)));
    RETURN_IF_ERROR(Annotate(readers[homes[i]].Read(
                                 absl::MakeSpan(whole.mutable_raw() + range.offset, range.size)),
                             absl::StrCat("reading ", variable.name())));
  }
  return whole;
}

absl::Status PsControl::Assign(const proto::VariableLayout& variable, const Tensor& value) {
  const Shape shape(absl::MakeConstSpan(variable.dims().data(),
                                        static_cast<size_t>(variable.dims_size())));
  if (static_cast<int32_t>(value.dtype()) != variable.dtype() || value.shape() != shape) {
    return absl::InvalidArgumentError(absl::StrCat("variable ", variable.name(), " has shape ",
                                                   shape.ToString(), "; the value is ",
                                                   value.TypeString()));
  }
  ASSIGN_OR_RETURN(const std::vector<size_t> homes, HomesOf(variable));
  auto requests = ForEach<proto::AssignRequest>(num_ps());
  for (size_t i = 0; i < homes.size(); ++i) {
    const proto::SliceHome& slice = variable.slices(static_cast<int>(i));
    auto& request = requests[homes[i]];
    const Tensor rows = SliceView(value, slice);
    request.header.add_slice_ids(slice.slice_id());
    *request.header.add_tensors() = MetaOf(rows);
    request.payload.push_back(SliceOf(rows));
  }
  return CallAll<proto::AssignResponse>("Assign", std::move(requests)).status();
}

absl::Status PsControl::AssignAverages(absl::Span<const proto::VariableLayout> variables) {
  auto requests = ForEach<proto::AssignRequest>(num_ps());
  for (auto& request : requests) request.header.set_averages(true);
  for (const proto::VariableLayout& variable : variables) {
    ASSIGN_OR_RETURN(const std::vector<size_t> homes, HomesOf(variable));
    for (size_t i = 0; i < homes.size(); ++i) {
      requests[homes[i]].header.add_slice_ids(variable.slices(static_cast<int>(i)).slice_id());
    }
  }
  return CallAll<proto::AssignResponse>("Assign", std::move(requests)).status();
}

absl::StatusOr<std::vector<proto::SavedSlice>> PsControl::Save(
    const std::string& prefix, const std::map<std::string, Tensor>& extras) {
  ShardTransfer::SaveOrder order;
  order.prefix = prefix;
  for (const auto& [name, value] : extras) {
    proto::NamedTensor& extra = order.extras.emplace_back();
    extra.set_name(name);
    *extra.mutable_tensor() = Inline(value);
  }
  using Slices = std::vector<proto::SavedSlice>;
  return UntilStable<Slices>([&] {
    order.epoch = cluster_->epoch();
    // Each of its calls has a deadline; how many there are, the variables say.
    return Await<Slices>(waiter_, absl::InfiniteDuration(), "the shards to be saved",
                         [&](auto done) { transfer_->Save(order, std::move(done)); });
  });
}

absl::Status PsControl::Restore(const std::string& prefix, bool slots) {
  ShardTransfer::RestoreOrder order;
  order.prefix = prefix;
  order.slots = slots;
  return UntilStable<bool>([&] {
           order.epoch = cluster_->epoch();
           return Await<bool>(waiter_, absl::InfiniteDuration(), "the shards to be restored",
                              [&](auto done) {
                                transfer_->Restore(order, [done = std::move(done)](
                                                              absl::Status status) mutable {
                                  if (!status.ok()) return done(status);
                                  done(true);
                                });
                              });
         })
      .status();
}

absl::StatusOr<proto::PsStatsResponse> PsControl::Stats() {
  ASSIGN_OR_RETURN(const auto responses,
                   CallAll<proto::PsStatsResponse>(
                       "GetStats", ForEach<proto::PsStatsRequest>(num_ps())));
  proto::PsStatsResponse sum;
  for (const auto& response : responses) {
    const proto::PsStatsResponse& one = response.header;
    sum.set_pulls(sum.pulls() + one.pulls());
    sum.set_pushes(sum.pushes() + one.pushes());
    sum.set_pulled_slices(sum.pulled_slices() + one.pulled_slices());
    sum.set_applied_slices(sum.applied_slices() + one.applied_slices());
    sum.set_duplicate_slices(sum.duplicate_slices() + one.duplicate_slices());
    sum.set_bytes_out(sum.bytes_out() + one.bytes_out());
    sum.set_bytes_in(sum.bytes_in() + one.bytes_in());
    sum.set_staleness_sum(sum.staleness_sum() + one.staleness_sum());
    sum.set_staleness_max(std::max(sum.staleness_max(), one.staleness_max()));
    sum.set_apply_log_entries(sum.apply_log_entries() + one.apply_log_entries());
    sum.set_resident_bytes(sum.resident_bytes() + one.resident_bytes());
    sum.set_refused_pushes(sum.refused_pushes() + one.refused_pushes());
    sum.mutable_traffic()->MergeFrom(one.traffic());
  }
  return sum;
}

}  // namespace cohort
