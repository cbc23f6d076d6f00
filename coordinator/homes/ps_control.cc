#include "coordinator/homes/ps_control.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "common/wire/error_detail.h"
#include "common/wire/moved_bytes.h"
#include "coordinator/cluster/await.h"
#include "coordinator/homes/home_calls.h"
#include "coordinator/homes/ps_stats_sum.h"
#include "coordinator/homes/row_split.h"

namespace cohort {

namespace {

// The time in which a server whose process was killed refuses enough calls to be declared lost.
constexpr absl::Duration kLossNoticed = absl::Milliseconds(500);

constexpr char kCreateVariables[] = "CreateVariables";
constexpr char kPull[] = "Pull";
constexpr char kGetStats[] = "GetStats";

// Exists during a call that may change variables. If a home gets a mirrored copy meanwhile,
// Cluster::TakeHome rejects the copy, which may lack the change. Pull and GetStats change nothing.
class ChangeOf {
 public:
  ChangeOf(Cluster& cluster, absl::string_view method)
      : cluster_(method == kPull || method == kGetStats ? nullptr : &cluster) {
    if (cluster_ != nullptr) cluster_->BeginChange();
  }
  ~ChangeOf() {
    if (cluster_ != nullptr) cluster_->EndChange();
  }

 private:
  Cluster* const cluster_;
};

// Returns `count` empty requests, but at least one. CallAllOnce sets their epoch.
template <typename Request>
std::vector<Envelope<Request>> ForEach(int count) {
  return std::vector<Envelope<Request>>(static_cast<size_t>(std::max(count, 1)));
}

// Returns an uninitialized tensor for the whole value of the variable, as its homes keep it: if the
// variable has one value per replica, these are the rows of the tensor.
absl::StatusOr<Tensor> AllocateVariable(const proto::VariableLayout& variable) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(variable.dtype()));
  return Tensor(dtype, Shape(absl::MakeConstSpan(variable.dims().data(),
                                                 static_cast<size_t>(variable.dims_size()))));
}

// Returns the range of bytes that slice number `i` takes in the whole variable, or in the whole
// content of a slot. A slot that has not the variable's rows belongs to a rule whose variables are
// one slice.
ByteRange BytesOfSlice(const Tensor& whole, const proto::VariableLayout& variable, size_t i) {
  if (variable.slices_size() == 1) return {0, whole.num_bytes()};
  const proto::SliceHome& slice = variable.slices(static_cast<int>(i));
  const size_t row = static_cast<size_t>(whole.shape().row_elements()) * ElementSize(whole.dtype());
  return {static_cast<size_t>(slice.row_begin()) * row,
          static_cast<size_t>(slice.row_count()) * row};
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

template <typename T, typename Start>
absl::StatusOr<T> PsControl::AwaitHomes(absl::Duration timeout, absl::string_view what,
                                        Start start) {
  // If a home of mirrored variables is lost, other homes can take its calls. But the call under way
  // must end before it is repeated. So this wait does not end because of a loss.
  if (cluster_->IsMirrored()) return Await<T>(waiter_, timeout, what, std::move(start));
  return AwaitUnlessLost<T>(waiter_, timeout, what, cluster_, std::nullopt, std::move(start));
}

template <typename Response, typename Request>
absl::StatusOr<std::vector<Envelope<Response>>> PsControl::CallAllOnce(
    const std::string& method, std::vector<Envelope<Request>> requests) {
  const ChangeOf change(*cluster_, method);
  ASSIGN_OR_RETURN(std::vector<TaskLink> links, cluster_->ps());
  // If variables are mirrored, there is one request, which goes to every home with a valid copy. A
  // Pull goes only to the first of these homes, because all copies are equal.
  if (method == kPull && requests.size() == 1) links.resize(1);
  if (links.size() != requests.size()) requests.resize(links.size(), requests.front());
  // With half of unanswered_max as its limit, a call is tried twice before the job gives up.
  absl::Duration silence = std::min(options_.timeout, options_.unanswered_max / 2);
  const size_t bytes = LargestOf(requests);
  silence = TimeFor(silence, bytes);
  for (Envelope<Request>& request : requests) {
    request.header.set_epoch(cluster_->epoch());
    request.silence = silence;
  }
  const absl::Duration timeout = LongestTime(silence, bytes + LargestAnswerTo(requests));
  // A call may be repeated once, and each attempt has its own time-out.
  return AwaitHomes<std::vector<Envelope<Response>>>(
      timeout * 2, absl::StrCat(method, " on all parameter servers"), [&](auto done) {
        CallEach<Response>(links, absl::StrCat("/cohort.proto.PsService/", method),
                           std::move(requests), timeout, std::move(done));
      });
}

absl::Status PsControl::WaitUntilStable(absl::Time deadline, const absl::Status& loss) {
  if (!loss.ok()) {
    // This time is enough for the coordinator's connection to the server to find out whether the
    // server is lost.
    cluster_->SuspectPs(DetailOf(loss).origin().index());
    Event never;
    waiter_.Wait(never, kLossNoticed);
  }
  return Await<bool>(waiter_, deadline - world_.clock.Now(), "a recovery to end",
                     [&](auto done) { options_.when_stable(StatusTo(std::move(done))); })
      .status();
}

// Calls `once`, and again after each recovery of lost homes, until it succeeds. If a home was lost,
// waits as long as the recovery takes. If the home serves, and only this call to it is not answered
// or breaks (as in a network that loses large packets), gives up after unanswered_max.
template <typename T, typename Once>
absl::StatusOr<T> PsControl::UntilStable(const UnansweredCall& call, Once once) {
  const absl::Time deadline = world_.clock.Now() + options_.recovery_timeout;
  absl::Status loss;
  uint64_t epoch = 0;  // the epoch in which the last attempt was made
  absl::Duration unanswered;
  // The number of unanswered attempts. One alone proves little: its message may have been lost with
  // its connection.
  int silences = 0;
  while (true) {
    if (options_.when_stable) RETURN_IF_ERROR(WaitUntilStable(deadline, loss));
    // Exchange and comparison are two statements: in a single expression, the order in which the
    // compiler reads `epoch` and exchanges it would be open.
    const uint64_t before = std::exchange(epoch, cluster_->epoch());
    if (before != epoch) {
      // A recovery has ended since the last attempt, so attempts before it no longer count as
      // unanswered.
      unanswered = absl::ZeroDuration();
      silences = 0;
    }
    const absl::Time start = world_.clock.Now();
    absl::StatusOr<T> result = once();
    loss = result.status();
    // Only a lost home (PS_LOST) or a changed epoch (STALE) can be waited for. Any other error
    // would come again.
    if (ClassOf(loss) != proto::PS_LOST && ClassOf(loss) != proto::STALE) return result;
    if (absl::IsDeadlineExceeded(loss) || absl::IsUnavailable(loss)) {
      unanswered += world_.clock.Now() - start;
      ++silences;
    }
    // If the connections to all homes serve after the failed call, no home is lost.
    const bool there = ClassOf(loss) == proto::PS_LOST && cluster_->ps().ok();
    const bool ends = !options_.when_stable || world_.clock.Now() >= deadline;
    const bool silent = silences > 1 && unanswered >= options_.unanswered_max;
    if (there && (ends || silent)) return UnansweredError(call, unanswered, loss);
    if (ends) return result;
  }
}

template <typename Response, typename Request>
absl::StatusOr<std::vector<Envelope<Response>>> PsControl::CallAll(
    const std::string& method, std::vector<Envelope<Request>> requests) {
  return UntilStable<std::vector<Envelope<Response>>>(
      {method, LargestOf(requests)}, [&] { return CallAllOnce<Response>(method, requests); });
}

absl::StatusOr<std::vector<size_t>> PsControl::HomesOf(
    const proto::VariableLayout& variable) const {
  std::vector<size_t> homes;
  // For a mirrored variable, a single request goes to all copies. So every slice belongs to request
  // 0.
  if (variable.mirrored()) return std::vector<size_t>(static_cast<size_t>(variable.slices_size()));
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
  // This is checked first: if a slice named a home that does not exist, no ps would create the
  // slice, and none would report an error.
  for (const proto::VariableLayout& variable : variables) {
    RETURN_IF_ERROR(HomesOf(variable).status());
  }
  auto requests = ForEach<proto::CreateVariablesRequest>(num_ps());
  for (auto& request : requests) {
    for (const proto::VariableLayout& variable : variables) {
      *request.header.add_variables() = variable;
    }
  }
  ASSIGN_OR_RETURN(const auto answers,
                   CallAll<proto::CreateVariablesResponse>(kCreateVariables, std::move(requests)));
  SayReplaced(answers);
  return absl::OkStatus();
}

void PsControl::SayReplaced(absl::Span<const Envelope<proto::CreateVariablesResponse>> answers) {
  uint64_t slices = 0;
  for (const auto& answer : answers) slices += answer.header.replaced_slices();
  // A job may create its variables in several calls, but this line is logged only once.
  if (slices == 0 || said_replaced_.exchange(true)) return;
  Log(LogLevel::kInfo, "variables_replaced",
      {{"slices", slices},
       {"cause", "an earlier coordinator left variables on these tasks; this job makes its own"}});
}

absl::StatusOr<Tensor> PsControl::Read(const proto::VariableLayout& variable) {
  ASSIGN_OR_RETURN(Tensor all, ReadAll(variable));
  if (variable.replicas() == 0) return all;
  return ValueOfRows({variable.name(), variable.aggregation()}, all);
}

absl::StatusOr<Tensor> PsControl::ReadAll(const proto::VariableLayout& variable) {
  ASSIGN_OR_RETURN(Tensor whole, AllocateVariable(variable));
  RETURN_IF_ERROR(ReadInto(variable, /*slot=*/"", whole));
  return whole;
}

absl::StatusOr<Tensor> PsControl::ReadSlot(const proto::VariableLayout& variable,
                                           const std::string& slot) {
  ASSIGN_OR_RETURN(const Shape shape, SlotShapeOf(variable, slot));
  Tensor whole(DType::kFloat32, shape);
  RETURN_IF_ERROR(ReadInto(variable, slot, whole));
  return whole;
}

absl::Status PsControl::ReadInto(const proto::VariableLayout& variable, const std::string& slot,
                                 Tensor& whole) {
  ASSIGN_OR_RETURN(const std::vector<size_t> homes, HomesOf(variable));
  std::vector<SliceLoad> loads;
  for (size_t i = 0; i < homes.size(); ++i) {
    loads.push_back({homes[i], BytesOfSlice(whole, variable, i).count});
  }
  for (const std::vector<size_t>& round : CallRounds(loads, options_.call_bytes_max)) {
    RETURN_IF_ERROR(ReadSlices({variable, slot, homes}, round, whole));
  }
  return absl::OkStatus();
}

absl::Status PsControl::ReadSlices(const Reading& reading, absl::Span<const size_t> slices,
                                   Tensor& whole) {
  const auto& [variable, slot, homes] = reading;
  auto requests = ForEach<proto::PullRequest>(NumRequests(variable.mirrored()));
  for (auto& request : requests) request.header.set_slot(slot);
  for (const size_t i : slices) {
    const proto::SliceHome& slice = variable.slices(static_cast<int>(i));
    requests[homes[i]].header.add_slice_ids(slice.slice_id());
    requests[homes[i]].answer_bytes += BytesOfSlice(whole, variable, i).count;
  }
  ASSIGN_OR_RETURN(const auto responses, CallAll<proto::PullResponse>(kPull, std::move(requests)));
  std::vector<PayloadReader> readers;
  readers.reserve(responses.size());
  for (const auto& response : responses) readers.emplace_back(response.payload);
  for (const size_t i : slices) {
    const ByteRange range = BytesOfSlice(whole, variable, i);
    RETURN_IF_ERROR(Annotate(
        readers[homes[i]].Read(absl::MakeSpan(whole.mutable_raw() + range.begin, range.count)),
        absl::StrCat("reading ", variable.name())));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> PsControl::ReadRows(const proto::VariableLayout& variable,
                                           absl::Span<const int64_t> ids) {
  if (variable.replicas() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", variable.name(), " has a value for each replica, which is read whole"));
  }
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(variable.dtype()));
  std::vector<int64_t> dims(variable.dims().begin(), variable.dims().end());
  dims[0] = static_cast<int64_t>(ids.size());
  Tensor rows(dtype, Shape(absl::MakeConstSpan(dims)));
  if (rows.num_bytes() == 0) return rows;
  // All rows may lie on one home. So a call asks for no more rows than one response can carry.
  const size_t row_bytes = rows.num_bytes() / ids.size();
  const size_t most = std::max<size_t>(options_.call_bytes_max / row_bytes, 1);
  for (size_t first = 0; first < ids.size(); first += most) {
    RETURN_IF_ERROR(ReadSomeRows(variable, ids.subspan(first, most), row_bytes,
                                 rows.mutable_raw() + first * row_bytes));
  }
  return rows;
}

absl::Status PsControl::ReadSomeRows(const proto::VariableLayout& variable,
                                     absl::Span<const int64_t> ids, size_t row_bytes,
                                     std::byte* out) {
  ASSIGN_OR_RETURN(const std::vector<size_t> homes, HomesOf(variable));
  const std::vector<SliceIds> split = SplitRows(variable, ids);
  std::vector<Tensor> wanted(homes.size());
  auto requests = ForEach<proto::PullRequest>(NumRequests(variable.mirrored()));
  for (size_t i = 0; i < homes.size(); ++i) {
    // A row that is asked for several times is transferred once.
    wanted[i] = EachOnce(split[i].ids);
    if (split[i].ids.empty()) continue;
    auto& request = requests[homes[i]];
    proto::PullRows& asked = *request.header.add_rows();
    asked.set_slice_id(variable.slices(static_cast<int>(i)).slice_id());
    *asked.mutable_ids() = MetaOf(wanted[i]);
    request.payload.push_back(SliceOf(wanted[i]));
    request.answer_bytes += split[i].ids.size() * row_bytes;
  }
  ASSIGN_OR_RETURN(const auto responses, CallAll<proto::PullResponse>(kPull, std::move(requests)));
  std::vector<PayloadReader> readers;
  readers.reserve(responses.size());
  for (const auto& response : responses) readers.emplace_back(response.payload);
  for (size_t i = 0; i < homes.size(); ++i) {
    std::vector<std::byte> came(wanted[i].span<int64_t>().size() * row_bytes);
    RETURN_IF_ERROR(Annotate(readers[homes[i]].Read(absl::MakeSpan(came)),
                             absl::StrCat("reading ", variable.name())));
    PutRows(split[i], wanted[i], came, row_bytes, out);
  }
  return absl::OkStatus();
}

uint64_t PsControl::NextUpdate() {
  // The epoch is in the upper bits, so the numbers of a later coordinator are greater. Each claim
  // raises the epoch by one, so 32 bits are enough for it.
  constexpr int kUpdatesOfEpochBits = 32;
  const uint64_t first = (cluster_->epoch() << kUpdatesOfEpochBits) + 1;
  MutexLock lock(update_mutex_);
  last_update_ = std::max(last_update_ + 1, first);
  return last_update_;
}

absl::Status PsControl::Change(const proto::VariableLayout& variable, const VariableChange& change,
                               uint64_t update) {
  std::vector<VariablePart> parts;
  if (variable.replicas() > 0) {
    // The homes keep the values of replicas as the rows of one tensor. So the change is made to all
    // rows.
    ASSIGN_OR_RETURN(const VariableChange of_all, ChangeOfReplicas(variable, change));
    ASSIGN_OR_RETURN(parts, PartsOf(variable, of_all));
  } else {
    ASSIGN_OR_RETURN(parts, PartsOf(variable, change));
  }
  proto::AssignRequest numbered;
  numbered.set_op(change.op);
  numbered.set_update(update);
  return ChangeAll(variable, parts, numbered);
}

absl::Status PsControl::SetSlot(const proto::VariableLayout& variable, const std::string& slot,
                                const Tensor& content, uint64_t update) {
  ASSIGN_OR_RETURN(const std::vector<VariablePart> parts, SlotPartsOf(variable, slot, content));
  proto::AssignRequest numbered;
  numbered.set_slot(slot);
  numbered.set_update(update);
  return ChangeAll(variable, parts, numbered);
}

absl::Status PsControl::ChangeAll(const proto::VariableLayout& variable,
                                  absl::Span<const VariablePart> parts,
                                  const proto::AssignRequest& numbered) {
  ASSIGN_OR_RETURN(const std::vector<size_t> homes, HomesOf(variable));
  std::vector<SliceLoad> loads;
  for (size_t i = 0; i < homes.size(); ++i) {
    loads.push_back({homes[i], parts[i].ids.num_bytes() + parts[i].operand.num_bytes()});
  }
  // All calls carry the same number of the change. By this number, each slice makes the change
  // once.
  for (const std::vector<size_t>& round : CallRounds(loads, options_.call_bytes_max)) {
    RETURN_IF_ERROR(ChangeSlices(variable, parts, round, numbered));
  }
  return absl::OkStatus();
}

absl::Status PsControl::ChangeSlices(const proto::VariableLayout& variable,
                                     absl::Span<const VariablePart> parts,
                                     absl::Span<const size_t> slices,
                                     const proto::AssignRequest& numbered) {
  ASSIGN_OR_RETURN(const std::vector<size_t> homes, HomesOf(variable));
  auto requests = ForEach<proto::AssignRequest>(NumRequests(variable.mirrored()));
  for (auto& request : requests) request.header = numbered;
  for (const size_t i : slices) {
    AddPart(variable.slices(static_cast<int>(i)), parts[i], requests[homes[i]]);
  }
  // If an answer is lost, the request is sent again. By the number of the change, a slice knows
  // whether it has made the change.
  for (int attempt = 1;; ++attempt) {
    absl::Status status = CallAll<proto::AssignResponse>("Assign", requests).status();
    if (ClassOf(status) != proto::PS_LOST || attempt == kCallAttemptsMax) return status;
  }
}

absl::Status PsControl::AssignAverages(absl::Span<const proto::VariableLayout> variables) {
  const bool mirrored = std::all_of(variables.begin(), variables.end(),
                                    [](const auto& variable) { return variable.mirrored(); });
  auto requests = ForEach<proto::AssignRequest>(NumRequests(mirrored));
  for (auto& request : requests) request.header.set_averages(true);
  for (const proto::VariableLayout& variable : variables) {
    ASSIGN_OR_RETURN(const std::vector<size_t> homes, HomesOf(variable));
    for (size_t i = 0; i < homes.size(); ++i) {
      const uint32_t slice = variable.slices(static_cast<int>(i)).slice_id();
      requests[homes[i]].header.add_slice_ids(slice);
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
  return UntilStable<Slices>({"Save"}, [&] {
    order.epoch = cluster_->epoch();
    // The whole save has no timeout. Each of its calls has one, and the number of calls depends on
    // the variables.
    return AwaitHomes<Slices>(absl::InfiniteDuration(), "the shards to be saved",
                              [&](auto done) { transfer_->Save(order, std::move(done)); });
  });
}

absl::Status PsControl::Restore(const std::string& prefix, Slots slots) {
  ShardTransfer::RestoreOrder order;
  order.prefix = prefix;
  order.slots = slots == Slots::kOfCheckpoint;
  order.new_slots = true;
  return UntilStable<bool>(
             {"Restore"},
             [&] {
               order.epoch = cluster_->epoch();
               return AwaitHomes<bool>(
                   absl::InfiniteDuration(), "the shards to be restored",
                   [&](auto done) { transfer_->Restore(order, StatusTo(std::move(done))); });
             })
      .status();
}

absl::StatusOr<proto::PsStatsResponse> PsControl::Stats() {
  ASSIGN_OR_RETURN(const auto responses, CallAll<proto::PsStatsResponse>(
                                             kGetStats, ForEach<proto::PsStatsRequest>(num_ps())));
  proto::PsStatsResponse sum;
  for (const auto& response : responses) AddPsStats(response.header, sum);
  return sum;
}

}  // namespace cohort
