#include "tests/sim/ps_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
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

constexpr uint64_t kNotPulled = ~uint64_t{0};

}  // namespace

void PsChecker::Violate(const SimMessage& message, const std::string& what) {
  options_.violate(
      absl::StrCat(message.to, " answered ", message.method, " of ", message.from, ": ", what));
}

const SliceModel* PsChecker::ModelOf(const std::string& host, uint32_t slice) const {
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
      for (const auto& [slice, model] : ps.slices) {
        if (model.Has(older.id)) continue;
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

void PsChecker::OnArrival(const SimMessage& message) {
  if (!absl::EndsWith(message.method, "/RunClosure")) return;
  const auto run = Parse<proto::RunClosureRequest>(message.request);
  if (run.round() > 0) ++steps_[{run.epoch(), {run.closure_id(), run.attempt()}}].arrivals;
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
    Violate(message, absl::StrCat("epoch ", granted.epoch, " of coordinator ", granted.coordinator,
                                  " was granted; held was ", held.epoch, " of ", held.coordinator));
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
  for (const uint32_t slice : response.created_slice_ids()) ps.slices[slice] = SliceModel();
}

void PsChecker::OnPull(const SimMessage& message, Ps& ps) {
  const auto request = Parse<proto::PullRequest>(message.request);
  const auto response = ResponseOf<proto::PullResponse>(message);
  CheckEpoch(message, ps, request.epoch());
  PayloadReader payload((*message.response)->payload);
  for (int i = 0; i < request.slice_ids_size(); ++i) {
    const uint32_t slice = request.slice_ids(i);
    const uint64_t version = response.versions(i);
    const SliceModel& model = ps.slices[slice];
    // A step of a round may read what was before it.
    if (version != model.version() && version != model.VersionBefore(request.round())) {
      Violate(message, absl::StrCat("slice ", slice, " has version ", version, ", and ",
                                    model.version(), " pushes are in it"));
      continue;
    }
    uint64_t& seen = ps.versions[slice];
    if (version < seen && request.round() == 0) {
      Violate(message, absl::StrCat("slice ", slice, " went back from version ", seen, " to ",
                                    version, " in epoch ", ps.epoch));
    }
    seen = std::max(seen, version);
    std::vector<float> values(static_cast<size_t>(response.tensors(i).dims(0)));
    const absl::Status read =
        payload.Read({reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)});
    const auto expected = static_cast<float>(model.ValueOf(version));
    const bool whole = read.ok() && std::all_of(values.begin(), values.end(),
                                                [&](float value) { return value == expected; });
    if (whole) continue;
    Violate(message, absl::StrCat("slice ", slice, " is ", absl::StrJoin(values, " "), ", and ",
                                  version, " pushes are in it"));
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

void PsChecker::CheckSender(const SimMessage& message, const Ps& ps, const proto::PushRequest& push,
                            const proto::PushResponse& answer) {
  CheckEpoch(message, ps, push.epoch());
  if (ps.restored_epoch != ps.epoch) {
    Violate(message, absl::StrCat("a push of epoch ", ps.epoch, " came before its restore"));
  }
  if (push.closure_id() < ps.watermark && answer.applied() > 0) {
    Violate(message, absl::StrCat("closure ", push.closure_id(),
                                  " was applied below the watermark ", ps.watermark));
  }
  if (ps.fenced.count(push.worker_incarnation()) > 0 && answer.applied() > 0) {
    Violate(message, absl::StrCat("closure ", push.closure_id(), " of the fenced session ",
                                  push.worker_incarnation(), " was applied"));
  }
  CheckWatermark(message, ps, push.watermark());
}

void PsChecker::CheckRead(const SimMessage& message, const proto::PushRequest& push,
                          const proto::PushSlice& slice, const SliceModel& model) {
  const uint64_t before = model.VersionBefore(push.round());
  if (push.round() == 0 || slice.pulled_version() == kNotPulled) return;
  if (slice.pulled_version() == before) return;
  Step& step = steps_[{push.epoch(), {push.closure_id(), push.attempt()}}];
  if (step.arrivals > 1) return;
  step.wrong = absl::StrCat("closure ", push.closure_id(), " of round ", push.round(),
                            " has read version ", slice.pulled_version(), " of slice ",
                            slice.slice_id(), ", and before its round it was ", before);
  if (step.counted) Violate(message, step.wrong);
}

void PsChecker::CheckCounted(const SimMessage& message, const Ps& ps, const SliceModel& model) {
  for (const SliceModel::Attempt& attempt : model.added()) {
    Step& step = steps_[{ps.epoch, attempt}];
    if (!step.counted && !step.wrong.empty()) Violate(message, step.wrong);
    step.counted = true;
  }
}

void PsChecker::OnPush(const SimMessage& message, Ps& ps) {
  const auto request = Parse<proto::PushRequest>(message.request);
  const auto response = ResponseOf<proto::PushResponse>(message);
  const uint64_t closure = request.closure_id();
  CheckSender(message, ps, request, response);
  ps.watermark = std::max(ps.watermark, request.watermark());
  SliceModel::Push push;
  push.attempt = {closure, request.attempt()};
  push.round = request.round();
  push.aggregate = request.aggregate();
  if (push.round > 0) push.amount = options_.amount(ps.coordinator, closure);
  std::map<SliceModel::Outcome, uint32_t> counts;
  for (const proto::PushSlice& slice : request.slices()) {
    SliceModel& model = ps.slices[slice.slice_id()];
    CheckRead(message, request, slice, model);
    model.RaiseWatermark(ps.watermark);
    ++counts[model.Take(push)];
    CheckCounted(message, ps, model);
  }
  using Outcome = SliceModel::Outcome;
  const uint32_t news = counts[Outcome::kAdded] + counts[Outcome::kKept];
  if (news != response.applied()) {
    Violate(message, absl::StrCat("closure ", closure, " of epoch ", ps.epoch, " was applied to ",
                                  response.applied(), " of ", request.slices_size(),
                                  " slices; it was not yet in ", news));
  }
  const uint32_t open = counts[Outcome::kKept] + counts[Outcome::kKeptBefore];
  if (open != response.open_rounds() || counts[Outcome::kLate] != response.dropped()) {
    Violate(message,
            absl::StrCat("closure ", closure, " waits for its round in ", response.open_rounds(),
                         " slices and was late for ", response.dropped(), "; those are ", open,
                         " and ", counts[Outcome::kLate]));
  }
}

void PsChecker::OnFence(const SimMessage& message, Ps& ps) {
  const auto request = Parse<proto::FenceRequest>(message.request);
  CheckEpoch(message, ps, request.epoch());
  ps.watermark = std::max(ps.watermark, request.watermark());
  for (auto& [slice, model] : ps.slices) model.RaiseWatermark(ps.watermark);
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
  for (const auto& [slice, model] : ps.slices) {
    saved_[request.prefix()][slice] = model.WithoutKept();
  }
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
  for (auto& [slice, model] : ps.slices) {
    model = request.prefix().empty() ? SliceModel() : saved_[request.prefix()][slice];
  }
}

}  // namespace cohort
