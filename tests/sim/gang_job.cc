#include "tests/sim/gang_job.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/program/graph_builder.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_programs.h"

namespace cohort {

namespace {

using Item = GangPlan::Item;

constexpr uint64_t kGangSalt = 0x6a26;
constexpr uint64_t kClosuresSalt = 0x57e5;
constexpr uint64_t kSurveysSalt = 0x5e7e;
constexpr char kVariable[] = "v";
// A copy that travels in many chunks, and sums in frames of several parts.
constexpr int64_t kManyRows = 20'000;

void Bind(proto::Program& program, GraphBuilder& graph, const std::string& value) {
  graph.Output(value);
  proto::OutputBinding* const binding = program.add_outputs();
  binding->set_output(value);
  binding->set_fetch(true);
  binding->set_of_replicas(proto::SUM_OF_REPLICAS);
}

// One element of the variable: zero times all others.
std::string Element(GraphBuilder& graph, const std::string& variable, int64_t rows, int64_t row) {
  std::vector<float> one(static_cast<size_t>(rows));
  one[static_cast<size_t>(row)] = 1;
  const std::string mask = graph.Constant("mask", Tensor::FromVector<float>(one, {rows}));
  return graph.Op("ReduceSum", {graph.Op("Mul", {variable, mask})});
}

std::string ReadVariable(GraphBuilder& graph, proto::Program& program, int64_t rows) {
  const std::string value = graph.Input("value", DType::kFloat32, {rows});
  proto::InputBinding* const input = program.add_inputs();
  input->set_input(value);
  input->set_variable(kVariable);
  return value;
}

proto::Program Finish(GraphBuilder& graph, proto::Program program) {
  const absl::StatusOr<onnx::ModelProto> model = graph.Finish();
  COHORT_CHECK(model.ok(), "the simulator's program is valid");
  program.set_model(model->SerializeAsString());
  return program;
}

// A step, or a survey, which is one without its update.
proto::Program StepProgram(const GangPlan& plan, Item item) {
  const bool changes = item == Item::kStep;
  GraphBuilder graph(changes ? "step" : "survey");
  proto::Program program;
  program.set_name(changes ? "step" : "survey");
  const std::string ids = graph.Input("x", DType::kInt64, {-1});
  proto::InputBinding* const batch = program.add_inputs();
  batch->set_input(ids);
  batch->set_batch_component(0);
  const std::string value = ReadVariable(graph, program, plan.rows);
  const std::string replica = graph.Input("replica", DType::kInt64, {});
  proto::InputBinding* const context = program.add_inputs();
  context->set_input(replica);
  context->set_context(proto::REPLICA_ID);

  const std::string x =
      graph.Op("Cast", {ids}, {IntAttribute("to", static_cast<int>(DType::kFloat32))});
  const std::string sum = graph.Op("ReduceSum", {x});
  if (changes) {
    const std::vector<float> ones(static_cast<size_t>(plan.rows), 1.0f);
    const std::string update = graph.Op(
        "Mul", {graph.Constant("ones", Tensor::FromVector<float>(ones, {plan.rows})), sum});
    graph.Output(update);
    proto::OutputBinding* const push = program.add_outputs();
    push->set_output(update);
    push->set_push(kVariable);
  }

  std::vector<float> places(kReplicaPlaces * kReplicaPlaces);
  for (size_t i = 0; i < kReplicaPlaces; ++i) places[i * kReplicaPlaces + i] = 1;
  const std::string ran = graph.Op(
      "Gather", {graph.Constant(
                     "places", Tensor::FromVector<float>(places, {kReplicaPlaces, kReplicaPlaces})),
                 replica});
  Bind(program, graph, ran);
  Bind(program, graph, graph.Op("Mul", {ran, Element(graph, value, plan.rows, 0)}));
  Bind(program, graph, graph.Op("Mul", {ran, Element(graph, value, plan.rows, plan.rows - 1)}));
  Bind(program, graph, graph.Op("Identity", {sum}));
  Bind(program, graph, graph.Op("ReduceSum", {graph.Op("Mul", {x, x})}));
  std::string of_table;
  if (plan.table.has_value()) Bind(program, graph, of_table = ReadTable(graph, program));
  for (int i = 0; i < plan.replicas; ++i) {
    program.mutable_replicas()->add_devices(absl::StrCat("cpu:", i));
  }
  proto::Communication& communication = *program.mutable_replicas()->mutable_communication();
  communication.set_ring(plan.ring);
  communication.set_bytes_per_pack(plan.bytes_per_pack);
  communication.set_timeout_ms(absl::ToInt64Milliseconds(plan.exchange_timeout));
  program = Finish(graph, std::move(program));
  if (changes && plan.table.has_value()) {
    COHORT_CHECK(AddTableUpdate(of_table, program).ok(), "a sum of rows has gradients");
  }
  return program;
}

proto::Program LookProgram(const GangPlan& plan) {
  GraphBuilder graph("look");
  proto::Program program;
  program.set_name("look");
  const std::string value = ReadVariable(graph, program, plan.rows);
  Bind(program, graph, Element(graph, value, plan.rows, 0));
  Bind(program, graph, Element(graph, value, plan.rows, plan.rows - 1));
  return Finish(graph, std::move(program));
}

const float* Fetched(const Tensor* fetched, StepFetch which) {
  return fetched[static_cast<size_t>(which)].data<float>();
}

std::string CheckTableRead(const GangPlan& plan, uint64_t step, const Tensor* fetched) {
  if (!plan.table->IsKnown()) return "";
  float wanted = 0;
  const int64_t first = plan.FirstOf(step);
  for (int64_t i = 0; i < plan.BatchOf(step).count; ++i) {
    wanted += plan.table->ValueBehind(plan.StepsWith(first + i, step - 1));
  }
  const float read = Fetched(fetched, StepFetch::kTable)[0];
  if (read == wanted) return "";
  return absl::StrCat("the rows of the examples of step ", step, " are ", read,
                      " together, and behind the step before it they are ", wanted);
}

// `fetched` by place. Says what is wrong; empty: nothing.
std::string CheckStep(const GangPlan& plan, uint64_t step, const Tensor* fetched, int workers) {
  const GangPlan::Examples batch = plan.BatchOf(step);
  const float value = plan.ValueBehind(step - 1);
  const int64_t parts = std::min<int64_t>(batch.count, int64_t{plan.replicas} * workers);
  for (int64_t replica = 0; replica < kReplicaPlaces; ++replica) {
    const float ran = Fetched(fetched, StepFetch::kRan)[replica];
    if (ran != (replica < parts ? 1.0f : 0.0f)) {
      return absl::StrCat("step ", step, " counts replica ", replica, " ", ran, " times, of ",
                          parts);
    }
    for (const StepFetch which : {StepFetch::kFirst, StepFetch::kLast}) {
      const float read = Fetched(fetched, which)[replica];
      if (read == ran * value) continue;
      return absl::StrCat("replica ", replica, " reads ", read, " at step ", step,
                          ", and behind the one before it is ", value);
    }
  }
  if (Fetched(fetched, StepFetch::kSum)[0] != batch.sum ||
      Fetched(fetched, StepFetch::kSquares)[0] != batch.squares) {
    return absl::StrCat("step ", step,
                        " counts other examples than those of its batch: their sum "
                        "is ",
                        Fetched(fetched, StepFetch::kSum)[0], ", not ", batch.sum);
  }
  return plan.table.has_value() ? CheckTableRead(plan, step, fetched) : "";
}

}  // namespace

GangPlan GangPlan::Draw(uint64_t seed) {
  SequenceRng rng(Mix64(seed ^ kGangSalt));
  GangPlan plan;
  plan.workers = std::array{2, 3, 3, 4}[rng.Below(4)];
  plan.replicas = 1 + static_cast<int>(rng.Below(2));
  plan.gang_min = 1 + static_cast<int>(rng.Below(2));
  plan.closures_in_flight = 1 + static_cast<int>(rng.Below(3));
  plan.rows = rng.Below(12) == 0 ? kManyRows : 1 + static_cast<int64_t>(rng.Below(5));
  plan.batch_size = 2 + static_cast<int64_t>(rng.Below(7));
  plan.examples = plan.batch_size * 3 + 1 + static_cast<int64_t>(rng.Below(5));
  plan.bytes_per_pack = std::array{0, 0, 1, 40}[rng.Below(4)];
  plan.ring = rng.Below(3) == 0;
  if (rng.Below(4) == 0) plan.exchange_timeout = absl::Milliseconds(300 + rng.Below(1500));
  plan.recovery_interval =
      rng.Below(4) == 0 ? absl::Hours(1) : absl::Milliseconds(20 + rng.Below(300));
  plan.lease = rng.Below(3) == 0 ? absl::Seconds(3) : absl::Seconds(1);
  if (rng.Below(3) == 0) plan.worker_delay = absl::Milliseconds(1 + rng.Below(20));
  plan.private_disks = rng.Below(3) == 0;
  plan.chunk_bytes = size_t{16} << rng.Below(10);
  plan.table = GangTable::Draw(seed);
  // What a table has seen of keys is megabytes.
  if (plan.rows == kManyRows || plan.table.has_value()) plan.chunk_bytes = size_t{64} << 10;
  plan.pace = rng.Below(2) == 0 ? 0 : static_cast<uint32_t>(10 + rng.Below(60));
  plan.redo_max = rng.Below(3) == 0 ? 8 + rng.Below(24) : 65536;
  const bool mixed = seed % 2 == 0;
  plan.queue_bound = mixed ? 2 : std::array<size_t, 2>{4, 1024}[rng.Below(2)];
  const uint64_t steps = 20 + rng.Below(30);
  plan.values_.push_back(0);
  while (plan.values_.size() <= steps) {
    const bool single = mixed && rng.Below(2) == 0;
    if (!single) {
      const uint64_t step = plan.values_.size();
      plan.values_.push_back(plan.values_.back() + plan.BatchOf(step).sum);
    }
    plan.items.push_back(!single ? Item::kStep : rng.Below(3) == 0 ? Item::kEcho : Item::kLook);
    plan.step_of_.push_back(plan.values_.size() - 1);
  }
  plan.DrawSurveys(seed);
  plan.DrawClosures(seed);
  if (plan.rows < kManyRows) plan.DrawCalls(seed);
  return plan;
}

void GangPlan::DrawSurveys(uint64_t seed) {
  SequenceRng rng(Mix64(seed ^ kSurveysSalt));
  if (rng.Below(2) == 0) return;
  std::vector<Item> with_surveys;
  std::vector<uint64_t> step_of;
  const auto survey = [&](uint64_t steps_before) {
    with_surveys.push_back(Item::kSurvey);
    step_of.push_back(steps_before);
  };
  for (uint64_t id = 1; id <= items.size(); ++id) {
    while (Of(id) == Item::kStep && rng.Below(4) == 0) survey(StepOf(id) - 1);
    with_surveys.push_back(Of(id));
    step_of.push_back(StepOf(id));
  }
  survey(num_steps());
  items = std::move(with_surveys);
  step_of_ = std::move(step_of);
}

void GangPlan::DrawClosures(uint64_t seed) {
  SequenceRng rng(Mix64(seed ^ kClosuresSalt));
  if (rng.Below(3) == 0) steps_max_ = 2 + rng.Below(7);
  items_of_.assign(items.size(), 1);
  for (uint64_t first = 1; first <= items.size(); first += ItemsOf(first)) {
    uint64_t& count = items_of_[first - 1];
    while (count < steps_max_ && first + count <= items.size() && IsGang(first) &&
           Of(first + count) == Of(first)) {
      ++count;
    }
  }
}

int64_t GangPlan::FirstOf(uint64_t step) const {
  return static_cast<int64_t>(step - 1) % batches() * batch_size + 1;
}

uint64_t GangPlan::StepsWith(int64_t example, uint64_t steps) const {
  const auto passes = static_cast<uint64_t>(batches());
  const auto batch = static_cast<uint64_t>((example - 1) / batch_size);
  return steps / passes + (steps % passes > batch ? 1 : 0);
}

GangPlan::Examples GangPlan::BatchOf(uint64_t step) const {
  const int64_t begin = FirstOf(step) - 1;
  Examples batch;
  for (int64_t i = begin; i < std::min(begin + batch_size, examples); ++i) {
    const auto example = static_cast<float>(i + 1);
    ++batch.count;
    batch.sum += example;
    batch.squares += example * example;
  }
  return batch;
}

bool GangPlan::IsAValue(float value) const {
  return std::binary_search(values_.begin(), values_.end(), value);
}

std::string GangPlan::Describe() const {
  return absl::StrCat(
      "gangs workers=", workers, " replicas=", replicas, " min=", gang_min,
      " in_flight=", closures_in_flight, " queue_bound=", queue_bound, " redo_max=", redo_max,
      " rows=", rows, " batch=", batch_size, "/", examples, " pack=", bytes_per_pack,
      ring ? " ring" : "", " timeout=", absl::FormatDuration(exchange_timeout),
      " interval=", absl::FormatDuration(recovery_interval), " lease=", absl::FormatDuration(lease),
      " delay=", absl::FormatDuration(worker_delay), " items=", items.size(),
      " steps=", num_steps(),
      steps_max_ > 1 ? absl::StrCat(" up to ", steps_max_, " a closure") : "",
      table.has_value() ? table->Describe() : "",
      private_disks ? absl::StrCat(" private disks, chunks of ", chunk_bytes) : "",
      has_small_calls()
          ? absl::StrCat(" calls of ", call_bytes_max, " bytes, slices of ", slice_bytes_max)
          : "");
}

absl::StatusOr<GangPrograms> MakeGangPrograms(ClusterCoordinator& coordinator,
                                              const GangPlan& plan) {
  GangPrograms made;
  VariableSpec spec;
  spec.name = kVariable;
  spec.shape = Shape{plan.rows};
  spec.initializer.set_op("zeros");
  spec.aggregation = proto::AGGREGATION_SUM;
  ASSIGN_OR_RETURN(const Variable variable, coordinator.Scope(AssignAdd()).CreateVariable(spec));
  made.variable = variable.layout();
  if (plan.table.has_value()) {
    ASSIGN_OR_RETURN(const Variable table,
                     coordinator.Scope(AssignAdd()).CreateVariable(plan.table->Variable()));
    made.table = table.layout();
  }
  proto::DatasetSpec data;
  data.mutable_source()->mutable_range()->set_begin(1);
  data.mutable_source()->mutable_range()->set_end(plan.examples + 1);
  data.add_transforms()->mutable_batch()->set_size(plan.batch_size);
  made.data = coordinator.CreatePerWorkerDataset(data);
  for (const Item item : {Item::kStep, Item::kSurvey}) {
    ASSIGN_OR_RETURN(made.of[item], coordinator.Register(StepProgram(plan, item)));
  }
  ASSIGN_OR_RETURN(made.of[Item::kLook], coordinator.Register(LookProgram(plan)));
  ASSIGN_OR_RETURN(made.of[Item::kEcho], coordinator.Register(EchoProgram()));
  return made;
}

ScheduleOptions OptionsFor(const GangPlan& plan, const GangPrograms& programs, uint64_t closure) {
  ScheduleOptions options;
  const Item item = plan.Of(closure);
  if (item == Item::kEcho) {
    options.arguments = {Tensor::FromVector<float>({static_cast<float>(closure)}, {1})};
  }
  if (!plan.IsGang(closure)) return options;
  const auto position_of = [&](uint64_t one) {
    proto::IteratorPosition position;
    position.set_epoch(static_cast<int64_t>(one - 1) / plan.batches());
    position.set_element(static_cast<int64_t>(one - 1) % plan.batches());
    return position;
  };
  options.input = SplitInput{programs.data, position_of(plan.StepTakenBy(closure))};
  for (uint64_t i = 1; i < plan.ItemsOf(closure); ++i) {
    options.later_steps.push_back({position_of(plan.StepTakenBy(closure + i))});
  }
  options.step = plan.StepTakenBy(closure);
  options.round.number = plan.StepTakenBy(closure);
  options.gang = true;
  return options;
}

std::string CheckSteps(const GangPlan& plan, uint64_t first, uint64_t steps,
                       const FetchedTensors& fetched, int workers) {
  if (fetched.size() != steps * plan.step_fetches()) {
    return absl::StrCat(steps, " steps from closure ", first, " on fetched ", fetched.size());
  }
  for (uint64_t i = 0; i < steps; ++i) {
    const std::string wrong =
        CheckStep(plan, plan.StepTakenBy(first + i), &fetched[i * plan.step_fetches()], workers);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string CheckLook(const GangPlan& plan, const FetchedTensors& fetched) {
  const float first = fetched.at(0).data<float>()[0];
  const float last = fetched.at(1).data<float>()[0];
  // A look is of no round: what takes several calls may be of several steps.
  const bool whole = first == last || plan.has_small_calls();
  if (whole && plan.IsAValue(first) && plan.IsAValue(last)) return "";
  return absl::StrCat("a look reads ", first, " in the first element and ", last,
                      " in the last, which is behind no step");
}

}  // namespace cohort
