#include "tests/sim/seed_job.h"

#include <algorithm>
#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/program/graph_builder.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_programs.h"

namespace cohort {

namespace {

using Item = SeedPlan::Item;

constexpr uint64_t kJobSalt = 0x10b;
constexpr uint64_t kRoundsSalt = 0x20d;
// One variable's part on one ps is more than what a ps takes at once (64 KiB).
constexpr int kManyRows = 18'000;

// Adds 1, or what its argument says, to every element of the variables. With `reads`, it pulls and
// fetches the first of them.
struct AddOptions {
  int rows = 1;
  bool by_argument = false;
  bool reads = false;
};
proto::Program AddProgram(const std::string& name, const std::vector<std::string>& variables,
                          const AddOptions& options) {
  GraphBuilder graph(name);
  proto::Program program;
  program.set_name(name);
  const std::vector<float> ones(static_cast<size_t>(options.rows), 1.0f);
  std::string one = graph.Constant("one", Tensor::FromVector<float>(ones, {options.rows}));
  const auto output = [&](const std::string& value) {
    graph.Output(value);
    proto::OutputBinding* const binding = program.add_outputs();
    binding->set_output(value);
    return binding;
  };
  const auto input = [&](const std::string& name, int64_t rows) {
    graph.Input(name, DType::kFloat32, {rows});
    proto::InputBinding* const binding = program.add_inputs();
    binding->set_input(name);
    return binding;
  };
  if (options.by_argument) {
    input("amount", 1)->set_argument(0);
    one = graph.Op("Mul", {one, "amount"});
  }
  if (options.reads) {
    input("value", options.rows)->set_variable(variables.front());
    output(graph.Op("Identity", {"value"}))->set_fetch(true);
  }
  for (const std::string& variable : variables) {
    output(graph.Op("Identity", {one}))->set_push(variable);
  }
  if (!options.reads) output(graph.Op("Identity", {one}))->set_fetch(true);
  const absl::StatusOr<onnx::ModelProto> model = graph.Finish();
  COHORT_CHECK(model.ok(), "the simulator's program is valid");
  program.set_model(model->SerializeAsString());
  return program;
}

}  // namespace

SeedPlan SeedPlan::Draw(uint64_t seed, const Wants& wants) {
  SequenceRng rng(Mix64(seed ^ kJobSalt));
  SeedPlan plan;
  plan.ps = 1 + static_cast<int>(rng.Below(3));
  plan.workers = 1 + static_cast<int>(rng.Below(4));
  plan.closures_in_flight = 1 + static_cast<int>(rng.Below(3));
  plan.slices = 1 + static_cast<int>(rng.Below(4));
  plan.queue_bound = rng.Below(3) == 0 ? 4 : 1024;
  plan.redo_max = rng.Below(3) == 0 ? 8 + rng.Below(24) : 65536;
  plan.recovery_interval = absl::Milliseconds(20 + rng.Below(300));
  plan.lease = rng.Below(3) == 0 ? absl::Seconds(3) : absl::Seconds(1);
  plan.pace = rng.Below(2) == 0 ? 0 : static_cast<uint32_t>(10 + rng.Below(60));
  const bool large = wants.takeover || rng.Below(20) == 0;
  if (large) {
    plan.rows = kManyRows * plan.ps;
    plan.closures_in_flight = 3;
    plan.pace = 0;
  }
  if (large || rng.Below(8) == 0) {
    plan.ps_delay = absl::Milliseconds(1 + rng.Below(large ? 300 : 20));
  }
  const uint64_t items = 30 + rng.Below(60);
  const bool fails = wants.fence || rng.Below(4) == 0;
  for (uint64_t i = 0; i < items; ++i) {
    const bool failing = fails && rng.Below(items) < 2;
    plan.items.push_back(failing ? Item::kFail : static_cast<Item>(rng.Below(5)));
  }
  if (wants.fence) plan.items[items / 2] = Item::kFail;
  plan.private_disks = rng.Below(3) == 0;
  plan.chunk_bytes = size_t{16} << rng.Below(10);
  if (large) plan.chunk_bytes = size_t{64} << 10;
  if (seed % 8 == 3 || seed % 8 == 5) plan.steps_ahead_max = seed / 8 % 6;
  plan.resume_pace = rng.Below(3) == 0 ? 0 : static_cast<uint32_t>(5 + rng.Below(40));
  if (seed % 8 == 4) plan.DrawRounds(seed);
  if (!large) plan.DrawCalls(seed);
  return plan;
}

// So many items fewer that there are about as many closures; where one fails one still does.
void SeedPlan::DrawRounds(uint64_t seed) {
  SequenceRng rng(Mix64(seed ^ kRoundsSalt));
  const uint64_t room = std::min(queue_bound, redo_max) / 2;
  rounds.emplace();
  // One in four of a single step, where nothing waits for another's.
  rounds->aggregate = std::min<uint32_t>(std::array{1u, 2u, 4u, 4u}[rng.Below(4)],
                                         static_cast<uint32_t>(room) / 2 * 2);
  rounds->backups = static_cast<uint32_t>(rng.Below(3));
  const bool fails = std::find(items.begin(), items.end(), Item::kFail) != items.end();
  items.resize(std::max<size_t>(10, items.size() / rounds->steps()));
  if (fails) items[items.size() / 2] = Item::kFail;
}

SeedPlan::Item SeedPlan::KindOf(const SeedWork& work) const {
  const bool other = work.round > 0 && work.member > 0 && Of(work.item) == Item::kFail;
  return other ? Item::kAddBoth : Of(work.item);
}

float SeedPlan::AmountOf(const SeedWork& work) const {
  if (work.round == 0) return 1;
  return static_cast<float>(rounds->aggregate << work.member);
}

bool SeedPlan::Adds(const SeedWork& work, const std::string& variable) const {
  switch (KindOf(work)) {
    case Item::kAddA:
      return variable == kVariableA;
    case Item::kAddB:
      return variable == kVariableB;
    case Item::kAddBoth:
    case Item::kReadAndAdd:
      return true;
    default:
      return false;
  }
}

std::string SeedPlan::Describe() const {
  return absl::StrCat(
      "ps=", ps, " workers=", workers, " in_flight=", closures_in_flight,
      steps_ahead_max ? absl::StrCat(" steps_ahead=", *steps_ahead_max) : "",
      rounds ? absl::StrCat(" rounds=", rounds->aggregate, "/", rounds->steps()) : "",
      " slices=", slices, " queue_bound=", queue_bound, " redo_max=", redo_max,
      " interval=", absl::FormatDuration(recovery_interval), " lease=", absl::FormatDuration(lease),
      " rows=", rows, " ps_delay=", absl::FormatDuration(ps_delay), " items=", items.size(),
      private_disks ? " private disks, chunks of " : "",
      private_disks ? absl::StrCat(chunk_bytes) : "",
      has_small_calls()
          ? absl::StrCat(" calls of ", call_bytes_max, " bytes, slices of ", slice_bytes_max)
          : "");
}

namespace {

std::string Describe(const absl::StatusOr<FetchedTensors>& result) {
  std::string text = result.status().ToString();
  if (!result.ok()) return text;
  for (const Tensor& tensor : *result) {
    absl::StrAppend(
        &text, " ", tensor.TypeString(), " ",
        absl::string_view(reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes()));
  }
  return text;
}

}  // namespace

bool ItemLog::IsAsFirstSeen(const Entry& entry) const {
  return entry.first.empty() || entry.first == Describe(entry.result.state().result());
}

ItemLog::Entry& ItemLog::Updated(uint64_t id) {
  Entry& entry = entries_.at(id);
  if (entry.state != State::kOpen || !entry.result.has_value() || !entry.result.state().IsReady()) {
    return entry;
  }
  entry.first = Describe(entry.result.state().result());
  const absl::Status status = entry.result.state().result().status();
  entry.state = status.ok()                 ? State::kDone
                : absl::IsCancelled(status) ? State::kCancelled
                                            : State::kFailed;
  return entry;
}

void ItemLog::Update() {
  for (const auto& [id, entry] : entries_) Updated(id);
}

std::map<uint64_t, ItemLog::RoundCount> ItemLog::Rounds() {
  Update();
  std::map<uint64_t, RoundCount> rounds;
  for (const auto& [id, entry] : entries_) {
    if (entry.work.round == 0) continue;
    RoundCount& count = rounds[entry.work.round];
    count.item = entry.work.item;
    ++count.closures;
    if (entry.state == State::kDone) ++count.done;
    if (entry.state == State::kOpen) ++count.open;
    if (entry.state == State::kOpen && entry.result.has_value()) ++count.admitted;
    count.failed = count.failed || entry.state == State::kFailed;
  }
  return rounds;
}

std::string ItemLog::Save(const Cut& cut) {
  std::string saved;
  for (const auto& [id, held] : entries_) {
    if (id >= cut.next.value) continue;
    const Entry& entry = Updated(id);
    State state = entry.state;
    const bool open = !cut.Covers(ClosureId{id});
    if (open) state = State::kOpen;
    // Admitted, done, and Schedule has not returned yet.
    if (!open && state == State::kOpen) state = State::kDone;
    absl::StrAppend(&saved, saved.empty() ? "" : " ", id, ":", entry.work.item, ":",
                    static_cast<int>(state));
    if (entry.work.round == 0) continue;
    absl::StrAppend(&saved, ":", entry.work.round, ":", entry.work.member);
  }
  return saved;
}

void ItemLog::Load(const std::string& saved) {
  if (saved.empty()) return;
  for (const absl::string_view each : absl::StrSplit(saved, ' ')) {
    const std::vector<std::string> parts = absl::StrSplit(each, ':');
    uint64_t id = 0;
    Entry entry;
    int state = 0;
    const bool round = parts.size() == 5;
    COHORT_CHECK((round || parts.size() == 3) && absl::SimpleAtoi(parts[0], &id) &&
                     absl::SimpleAtoi(parts[1], &entry.work.item) &&
                     absl::SimpleAtoi(parts[2], &state) &&
                     (!round || (absl::SimpleAtoi(parts[3], &entry.work.round) &&
                                 absl::SimpleAtoi(parts[4], &entry.work.member))),
                 "the simulator's own form");
    entry.state = static_cast<State>(state);
    entries_[id] = entry;
  }
}

absl::StatusOr<SeedPrograms> MakeSeedPrograms(ClusterCoordinator& coordinator,
                                              const SeedPlan& plan) {
  SeedPrograms made;
  for (const char* name : {kVariableA, kVariableB}) {
    VariableSpec spec;
    spec.name = name;
    spec.shape = Shape{plan.rows};
    spec.initializer.set_op("zeros");
    if (plan.rounds) spec.aggregation = proto::AGGREGATION_MEAN;
    ASSIGN_OR_RETURN(Variable variable, coordinator.Scope(AssignAdd()).CreateVariable(spec));
    made.variables.push_back(std::move(variable));
  }
  AddOptions options;
  options.rows = plan.rows;
  options.by_argument = plan.rounds.has_value();
  std::map<Item, proto::Program> programs = {
      {Item::kAddA, AddProgram("add_a", {kVariableA}, options)},
      {Item::kAddB, AddProgram("add_b", {kVariableB}, options)},
      {Item::kAddBoth, AddProgram("add_both", {kVariableA, kVariableB}, options)},
      {Item::kEcho, EchoProgram()},
      {Item::kFail, PickyProgram()}};
  if (plan.rounds) {
    programs[Item::kFail] = AddProgram("picky", {kVariableA, kVariableB}, options);
  }
  options.reads = true;
  programs[Item::kReadAndAdd] = AddProgram("read_and_add", {kVariableA, kVariableB}, options);
  for (const auto& [item, program] : programs) {
    ASSIGN_OR_RETURN(made.of[item], coordinator.Register(program));
  }
  return made;
}

ScheduleOptions OptionsFor(const SeedPlan& plan, const SeedWork& work) {
  ScheduleOptions options;
  const Item kind = plan.KindOf(work);
  if (work.round > 0) options.round = {work.round, plan.rounds->aggregate};
  if (kind == Item::kEcho || kind == Item::kFail) {
    options.arguments = {Tensor::FromVector<float>({1, 2, 3}, {3})};
  } else if (work.round > 0) {
    options.arguments = {Tensor::FromVector<float>({plan.AmountOf(work)}, {1})};
  }
  return options;
}

}  // namespace cohort
