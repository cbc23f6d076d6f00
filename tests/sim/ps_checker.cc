#include "tests/sim/ps_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "coordinator/recovery/recovery_store.h"
#include "proto/ps.pb.h"
#include "proto/task.pb.h"
#include "proto/worker.pb.h"
#include "tests/sim/fault_injector.h"

namespace cohort {

namespace {

template <typename Proto>
Proto Parse(const std::string& bytes) {
  Proto proto;
  COHORT_CHECK(proto.ParseFromString(bytes), "a message that production code made");
  return proto;
}

template <typename Response>
Response ResponseOf(const SimMessage& message) {
  return Parse<Response>((*message.response)->header);
}

// The numbers of a slice's history in a checkpoint (docs/PROTOCOL.md).
enum AppliedField {
  kAppliedRows,
  kAppliedVersion,
  kAppliedWatermark,
  kAppliedUpdate,
  kAppliedRound,
  kAppliedIds
};

bool Covers(const proto::CoordinatorState& state, uint64_t closure) {
  return closure < state.next_id() &&
         std::find(state.open().begin(), state.open().end(), closure) == state.open().end();
}

}  // namespace

void PsChecker::Violate(const SimMessage& message, const std::string& what) {
  options_.violate(absl::StrCat(message.to, " answered ", message.method, " of ", message.from,
                                ": ", what));
}

std::string PsChecker::PrefixOf(const std::string& path) const {
  if (!absl::StartsWith(path, options_.directory + "/recovery-")) return "";
  return path.substr(0, path.find('.'));
}

const PsChecker::History* PsChecker::HistoryOf(const std::string& host, uint32_t slice) const {
  const auto ps = ps_.find(host);
  if (ps == ps_.end()) return nullptr;
  const auto found = ps->second.slices.find(slice);
  return found == ps->second.slices.end() ? nullptr : &found->second;
}

uint64_t PsChecker::HolderOf(const std::string& host) const {
  const auto ps = ps_.find(host);
  return ps == ps_.end() ? 0 : ps->second.coordinator;
}

void PsChecker::OnRequest(const SimMessage& message) {
  if (!options_.steps_ahead_max || !absl::EndsWith(message.method, "/RunClosure")) return;
  const auto run = Parse<proto::RunClosureRequest>(message.request);
  const auto coordinator = coordinator_of_epoch_.find(run.epoch());
  if (coordinator == coordinator_of_epoch_.end()) return;
  for (const ClosureKnowledge& older : options_.closures(coordinator->second)) {
    if (older.id + *options_.steps_ahead_max >= run.closure_id()) continue;
    for (const auto& [host, ps] : ps_) {
      // What was started again, or taken over, holds nothing that this run would read.
      if (ps.epoch != run.epoch()) continue;
      for (const auto& [slice, history] : ps.slices) {
        if (history.count(older.id) > 0) continue;
        const std::string& variable = places_.at(slice).variable;
        const auto& changed = older.variables;
        if (std::find(changed.begin(), changed.end(), variable) == changed.end()) continue;
        options_.violate(absl::StrCat("closure ", run.closure_id(), " runs too far ahead of ",
                                      older.id, ", which is not in ", variable, ", slice ", slice,
                                      " of ", host));
      }
    }
  }
}

void PsChecker::OnKill(const std::string& host) {
  ps_.erase(host);
  if (!options_.grants_are_kept) grants_.erase(host);
}

void PsChecker::OnResponse(const SimMessage& message) {
  if (RoleOf(message.to) != "ps") return;
  const absl::string_view method = message.method;
  if (!message.response->ok()) return;
  Ps& ps = ps_[message.to];
  if (absl::EndsWith(method, "/Attach")) OnAttach(message, ps);
  if (absl::EndsWith(method, "/CreateVariables")) OnCreate(message, ps);
  if (absl::EndsWith(method, "/Pull")) OnPull(message, ps);
  if (absl::EndsWith(method, "/Push")) OnPush(message, ps);
  if (absl::EndsWith(method, "/Fence")) OnFence(message, ps);
  if (absl::EndsWith(method, "/HoldShard")) OnHold(message, ps);
  if (absl::EndsWith(method, "/RestoreShard")) OnRestore(message, ps);
}

void PsChecker::OnAttach(const SimMessage& message, Ps& ps) {
  const auto request = Parse<proto::AttachRequest>(message.request);
  Grant& held = grants_[message.to];
  const Grant granted{request.epoch(), request.coordinator_incarnation()};
  const bool tie = granted.epoch == held.epoch && granted.coordinator != held.coordinator;
  if (granted.epoch < held.epoch || tie) {
    Violate(message, absl::StrCat("epoch ", granted.epoch, " of coordinator ",
                                  granted.coordinator, " was granted; held was ", held.epoch,
                                  " of ", held.coordinator));
  }
  held = granted;
  if (ps.epoch != request.epoch()) ps.versions.clear();
  if (ps.coordinator != request.coordinator_incarnation()) {
    ps.watermark = 0;
    ps.fenced.clear();
  }
  ps.epoch = request.epoch();
  ps.coordinator = request.coordinator_incarnation();
  coordinator_of_epoch_[ps.epoch] = ps.coordinator;
  granted_.insert(ps.coordinator);
}

void PsChecker::CheckEpoch(const SimMessage& message, const Ps& ps, uint64_t epoch) {
  if (epoch == ps.epoch) return;
  Violate(message, absl::StrCat("a call of epoch ", epoch, " was let in; held is ", ps.epoch));
}

void PsChecker::OnCreate(const SimMessage& message, Ps& ps) {
  const auto request = Parse<proto::CreateVariablesRequest>(message.request);
  CheckEpoch(message, ps, request.epoch());
  for (const proto::VariableLayout& layout : request.variables()) {
    for (const proto::SliceHome& slice : layout.slices()) {
      places_[slice.slice_id()] = {layout.name(), {slice.row_begin(), slice.row_count()}};
    }
  }
  const auto response = ResponseOf<proto::CreateVariablesResponse>(message);
  for (const uint32_t slice : response.created_slice_ids()) ps.slices[slice].clear();
}

void PsChecker::OnPull(const SimMessage& message, Ps& ps) {
  const auto request = Parse<proto::PullRequest>(message.request);
  const auto response = ResponseOf<proto::PullResponse>(message);
  CheckEpoch(message, ps, request.epoch());
  PayloadReader payload((*message.response)->payload);
  for (int i = 0; i < request.slice_ids_size(); ++i) {
    const uint32_t slice = request.slice_ids(i);
    const uint64_t version = response.versions(i);
    const size_t pushes = ps.slices[slice].size();
    if (version != pushes) {
      Violate(message, absl::StrCat("slice ", slice, " has version ", version, ", and ", pushes,
                                    " pushes are in it"));
    }
    uint64_t& seen = ps.versions[slice];
    if (version < seen) {
      Violate(message, absl::StrCat("slice ", slice, " went back from version ", seen, " to ",
                                    version, " in epoch ", ps.epoch));
    }
    seen = version;
    std::vector<float> values(static_cast<size_t>(response.tensors(i).dims(0)));
    const absl::Status read = payload.Read(
        {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)});
    const bool whole = read.ok() && std::all_of(values.begin(), values.end(), [&](float value) {
                         return value == static_cast<float>(pushes);
                       });
    if (whole) continue;
    Violate(message, absl::StrCat("slice ", slice, " is ", absl::StrJoin(values, " "), ", and ",
                                  pushes, " pushes are in it"));
  }
}

void PsChecker::CheckWatermark(const SimMessage& message, const Ps& ps, uint64_t watermark) {
  const proto::CoordinatorState& durable = durable_[ps.epoch];
  for (const ClosureKnowledge& closure : options_.closures(ps.coordinator)) {
    if (closure.id >= watermark || Covers(durable, closure.id)) continue;
    Violate(message, absl::StrCat("the watermark ", watermark, " is above closure ", closure.id,
                                  ", which is not durable"));
  }
}

void PsChecker::OnPush(const SimMessage& message, Ps& ps) {
  const auto request = Parse<proto::PushRequest>(message.request);
  const auto response = ResponseOf<proto::PushResponse>(message);
  const uint64_t closure = request.closure_id();
  CheckEpoch(message, ps, request.epoch());
  if (ps.restored_epoch != ps.epoch) {
    Violate(message, absl::StrCat("a push of epoch ", ps.epoch, " came before its restore"));
  }
  if (closure < ps.watermark && response.applied() > 0) {
    Violate(message, absl::StrCat("closure ", closure, " was applied below the watermark ",
                                  ps.watermark));
  }
  if (ps.fenced.count(request.worker_incarnation()) > 0 && response.applied() > 0) {
    Violate(message, absl::StrCat("closure ", closure, " of the fenced session ",
                                  request.worker_incarnation(), " was applied"));
  }
  CheckWatermark(message, ps, request.watermark());
  ps.watermark = std::max(ps.watermark, request.watermark());
  uint32_t news = 0;
  for (const proto::PushSlice& slice : request.slices()) {
    news += ps.slices[slice.slice_id()].insert(closure).second ? 1 : 0;
  }
  if (news != response.applied()) {
    Violate(message, absl::StrCat("closure ", closure, " of epoch ", ps.epoch, " was applied to ",
                                  response.applied(), " of ", request.slices_size(),
                                  " slices; it was not yet in ", news));
  }
}

void PsChecker::OnFence(const SimMessage& message, Ps& ps) {
  const auto request = Parse<proto::FenceRequest>(message.request);
  CheckEpoch(message, ps, request.epoch());
  ps.watermark = std::max(ps.watermark, request.watermark());
  ps.fenced.insert(request.worker_incarnations().begin(), request.worker_incarnations().end());
}

bool PsChecker::IsFenced(uint64_t epoch, uint64_t session) const {
  return std::all_of(ps_.begin(), ps_.end(), [&](const auto& each) {
    const Ps& ps = each.second;
    // One that was started again holds nothing until a restore, which is of another epoch.
    return ps.epoch != epoch || ps.slices.empty() || ps.fenced.count(session) > 0;
  });
}

// The slices were frozen in the event of the first answer.
void PsChecker::OnHold(const SimMessage& message, const Ps& ps) {
  const auto request = Parse<proto::HoldShardRequest>(message.request);
  CheckEpoch(message, ps, request.epoch());
  if (!held_.emplace(request.prefix(), message.to).second) return;
  for (const auto& [slice, history] : ps.slices) saved_[request.prefix()][slice] = history;
}

void PsChecker::OnRestore(const SimMessage& message, Ps& ps) {
  const auto request = Parse<proto::RestoreShardRequest>(message.request);
  CheckEpoch(message, ps, request.epoch());
  if (!request.applied() || ps.restored_epoch == request.epoch()) return;
  if (!request.prefix().empty() && committed_.count(request.prefix()) == 0) {
    Violate(message, absl::StrCat(request.prefix(), " was restored and is not committed"));
  }
  ps.restored_epoch = request.epoch();
  ps.watermark = request.watermark();
  ps.versions.clear();
  if (durable_.count(request.epoch()) == 0) {
    durable_[request.epoch()] =
        request.prefix().empty() ? proto::CoordinatorState() : committed_[request.prefix()];
  }
  for (auto& [slice, history] : ps.slices) {
    history = request.prefix().empty() ? History() : saved_[request.prefix()][slice];
  }
}

void PsChecker::OnFileDone(const std::string& host, const FileCall& call) {
  // An index counts once it is whole under its name, however it came there.
  const bool whole =
      call.kind == FileCall::Kind::kRename || call.kind == FileCall::Kind::kClose;
  if (RoleOf(host) != "chief" || !whole || !absl::EndsWith(call.path, ".index")) return;
  const std::string prefix = PrefixOf(call.path);
  if (!prefix.empty()) OnCommit(prefix);
}

void PsChecker::OnCommit(const std::string& prefix) {
  const absl::StatusOr<std::unique_ptr<BundleReader>> reader = BundleReader::Open(disk_, prefix);
  const absl::StatusOr<Tensor> bytes =
      reader.ok() ? (*reader)->Read(kCoordinatorStateName) : reader.status();
  if (!bytes.ok()) return options_.violate(absl::StrCat(prefix, ": ", bytes.status().ToString()));
  proto::CoordinatorState& state = committed_[prefix];
  COHORT_CHECK(state.ParseFromArray(bytes->raw(), static_cast<int>(bytes->num_bytes())),
               "a state that production code made");
  durable_[state.epoch()] = state;
  const Slices& slices = saved_[prefix];
  for (const ClosureKnowledge& closure : options_.closures(coordinator_of_epoch_[state.epoch()])) {
    if (!Covers(state, closure.id)) continue;
    for (const auto& [slice, history] : slices) {
      const auto& pushed = closure.variables;
      if (std::find(pushed.begin(), pushed.end(), places_[slice].variable) == pushed.end()) {
        continue;
      }
      if (history.count(closure.id) > 0) continue;
      options_.violate(absl::StrCat(prefix, " covers closure ", closure.id,
                                    ", which is not in its slice ", slice));
    }
  }
  for (const auto& [slice, history] : slices) {
    if (!history.empty() && *history.rbegin() >= state.next_id()) {
      options_.violate(absl::StrCat(prefix, ", slice ", slice, ": closure ", *history.rbegin(),
                                    " is in it, and the next coordinator would give the id anew"));
    }
    const absl::Status whole = CheckSaved(**reader, slice, history, state);
    if (whole.ok()) continue;
    options_.violate(absl::StrCat(prefix, ", slice ", slice, ": ", whole.message()));
  }
  CheckVisible();
}

absl::Status PsChecker::CheckSaved(const BundleReader& reader, uint32_t slice,
                                   const History& history, const proto::CoordinatorState& state) {
  const Place& place = places_[slice];
  ASSIGN_OR_RETURN(const Tensor value, reader.ReadRows(place.variable, place.rows));
  for (const float element : value.span<float>()) {
    if (element == static_cast<float>(history.size())) continue;
    return absl::InternalError(
        absl::StrCat("its value is ", element, " where ", history.size(), " pushes are in it"));
  }
  const std::string name = absl::StrCat(place.variable, "/.COHORT_APPLIED/", place.rows.begin);
  ASSIGN_OR_RETURN(const Tensor fields, reader.Read(name));
  const absl::Span<const int64_t> numbers = fields.span<int64_t>();
  if (numbers.size() < kAppliedIds) return absl::InternalError("its history has no head");
  if (static_cast<size_t>(numbers[kAppliedVersion]) != history.size()) {
    return absl::InternalError(absl::StrCat("its version is ", numbers[kAppliedVersion], " where ",
                                            history.size(), " pushes are in it"));
  }
  // Below the watermark nothing is said.
  History said;
  for (size_t i = kAppliedIds; i + 1 < numbers.size(); i += 2) {
    for (int64_t id = numbers[i]; id <= numbers[i + 1]; ++id) {
      said.insert(static_cast<uint64_t>(id));
    }
  }
  const auto watermark = static_cast<uint64_t>(numbers[kAppliedWatermark]);
  if (watermark > state.watermark()) {
    return absl::InternalError(absl::StrCat("its watermark is ", watermark,
                                            ", that of the checkpoint is ", state.watermark()));
  }
  if (said == History(history.lower_bound(watermark), history.end())) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("above ", watermark, " it says that ",
                                          absl::StrJoin(said, " "), " are in it; those are ",
                                          absl::StrJoin(history, " ")));
}

void PsChecker::CheckVisible() {
  const absl::StatusOr<std::vector<std::string>> prefixes =
      ListCheckpoints(disk_, options_.directory);
  if (!prefixes.ok()) return;
  for (const std::string& prefix : *prefixes) {
    const absl::StatusOr<std::unique_ptr<BundleReader>> reader = BundleReader::Open(disk_, prefix);
    absl::Status status = reader.status();
    if (reader.ok()) {
      for (const auto& [name, tensor] : (*reader)->tensors()) {
        status.Update((*reader)->Read(name).status());
      }
    }
    if (!status.ok()) {
      options_.violate(absl::StrCat("the visible checkpoint ", prefix, " does not load: ",
                                    status.ToString()));
    }
  }
}

}  // namespace cohort
