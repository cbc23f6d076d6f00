// A synchronous step of several workers whose gradients travel while they are computed, beside the
// same step that sends them behind it, and what computing and sending take alone. The workers are
// threads of this process with a core each, as far as there are so many, and between them is a link
// of a given rate (paced_transport.h), as between hosts, or shared memory.

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "common/base/posix_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/kernels/cpu/register.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/world.h"
#include "tests/bench/bench.h"
#include "tests/bench/paced_transport.h"
#include "worker/collective/shm/shm_communicator.h"
#include "worker/gang/form_group.h"
#include "worker/program/replicated_run.h"

namespace cohort::bench {

namespace {

struct Model {
  int layers = 0;
  int width = 0;
  int batch = 0;  // of each worker
};

constexpr absl::Duration kStepMax = absl::Minutes(1);

proto::VariableLayout LayoutOf(const std::string& name, int width, uint32_t slice) {
  proto::VariableLayout layout;
  layout.set_name(name);
  layout.set_dtype(static_cast<int32_t>(DType::kFloat32));
  layout.add_dims(width);
  layout.add_dims(width);
  layout.add_slices()->set_slice_id(slice);
  layout.mutable_slices(0)->set_row_count(width);
  layout.mutable_initializer()->set_op("zeros");
  layout.mutable_rule()->set_op("sgd");
  return layout;
}

// Layers of one size each: Relu(x w), and a softmax over the last.
absl::StatusOr<proto::RegisterProgramRequest> StepOf(const Model& model) {
  GraphBuilder builder("step");
  const std::string x = builder.Input("x", DType::kFloat32, {-1, model.width});
  const std::string y = builder.Input("y", DType::kInt64, {-1});
  std::vector<std::string> weights;
  std::string value = x;
  for (int layer = 0; layer < model.layers; ++layer) {
    weights.push_back(
        builder.Input(absl::StrCat("w", layer), DType::kFloat32, {model.width, model.width}));
    value = builder.Op("MatMul", {value, weights.back()});
    if (layer + 1 < model.layers) value = builder.Op("Relu", {value});
  }
  const std::string loss =
      builder.Op("SoftmaxCrossEntropyLoss", {value, y}, {StringAttribute("reduction", "mean")});
  builder.Output(loss);
  ASSIGN_OR_RETURN(const onnx::ModelProto forward, builder.Finish());
  ASSIGN_OR_RETURN(const GradientGraph gradients, AddGradients(forward, loss, weights));
  proto::RegisterProgramRequest request;
  proto::Program& program = *request.mutable_program();
  program.set_name("step");
  program.set_model(gradients.model.SerializeAsString());
  const auto bind = [&program](const std::string& input) -> proto::InputBinding& {
    proto::InputBinding& binding = *program.add_inputs();
    binding.set_input(input);
    return binding;
  };
  bind(x).set_batch_component(0);
  bind(y).set_batch_component(1);
  proto::OutputBinding& fetch = *program.add_outputs();
  fetch.set_output(loss);
  fetch.set_fetch(true);
  fetch.set_of_replicas(proto::SUM_OF_REPLICAS);
  for (size_t i = 0; i < weights.size(); ++i) {
    bind(weights[i]).set_variable(weights[i]);
    proto::OutputBinding& push = *program.add_outputs();
    push.set_output(gradients.gradients[i]);
    push.set_push(weights[i]);
    *request.add_variables() = LayoutOf(weights[i], model.width, static_cast<uint32_t>(i));
  }
  program.mutable_replicas()->mutable_communication();
  request.set_program_id(ProgramId(program));
  return request;
}

enum class Mode { kOverlap, kBehind, kCompute, kSend };

// One worker, with a thread that computes. Thread-compatible.
class Rank {
 public:
  struct Place {
    int rank = 0;
    std::vector<std::string> addresses;   // of all
    PacedTransport* transport = nullptr;  // outlives what its sums leave behind
    std::string shm_socket;               // empty: over the link
  };

  static absl::StatusOr<std::unique_ptr<Rank>> Make(const World& world, const Model& model,
                                                    const Place& place) {
    auto rank = std::unique_ptr<Rank>(new Rank(world, model, place));
    ASSIGN_OR_RETURN(const proto::RegisterProgramRequest request, StepOf(model));
    KernelRegistry kernels;
    RegisterCpuKernels(kernels, 1);
    for (auto* program : {&rank->overlap_, &rank->behind_}) {
      const ReplicaParts parts{kernels, Buffer::Allocate, nullptr, nullptr};
      ASSIGN_OR_RETURN(auto made, MakeWorkerProgram(request, "", parts));
      *program = std::const_pointer_cast<WorkerProgram>(made);
    }
    rank->behind_->communication->overlap = false;
    ASSIGN_OR_RETURN(rank->server_,
                     world.transport.Listen(place.addresses[static_cast<size_t>(place.rank)],
                                            {rank->router_->MakeService()}));
    return rank;
  }

  // When all listen.
  void JoinGroup(Event& formed) {
    FormGroupOptions options;
    options.group.name = {"bench", 1};
    options.group.rank = place_.rank;
    options.group.size = static_cast<int>(place_.addresses.size());
    options.addresses = place_.addresses;
    options.shm_socket = place_.shm_socket;
    FormGroup({world_.clock, world_.executor, *place_.transport, router_}, std::move(options),
              [this, &formed](FormedGroup group) {
                group_ =
                    std::make_shared<GangGroup>(std::move(group.communicator), world_.executor);
                formed.Notify();
              });
  }

  // `done` runs once, on any thread.
  void Step(Mode mode, absl::AnyInvocable<void(absl::Status)> done) {
    if (mode == Mode::kSend) return Send(std::move(done));
    auto run = std::make_shared<ReplicatedRun>(
        mode == Mode::kOverlap ? overlap_ : behind_, strands_,
        mode == Mode::kCompute ? nullptr : group_,
        ReplicatedRun::Values{inputs_[mode == Mode::kCompute ? 1 : 0], {}}, RunContext{},
        [done = std::move(done)](auto outputs) mutable { done(outputs.status()); });
    strands_->Of(0).Post([run] { run->Start(); });
  }

 private:
  Rank(const World& world, const Model& model, Place place)
      : world_(world), place_(std::move(place)) {
    const auto ranks = static_cast<int64_t>(place_.addresses.size());
    for (const int64_t rows : {model.batch * ranks, int64_t{model.batch}}) {
      inputs_.push_back({Tensor::Zeros(DType::kFloat32, {rows, model.width}),
                         Tensor::Zeros(DType::kInt64, {rows})});
      std::fill_n(inputs_.back()[0].mutable_data<float>(), rows * model.width, 0.1f);
      for (int layer = 0; layer < model.layers; ++layer) {
        inputs_.back().push_back(Tensor::Zeros(DType::kFloat32, {model.width, model.width}));
        std::fill_n(inputs_.back().back().mutable_data<float>(), int64_t{model.width} * model.width,
                    0.01f);
      }
    }
  }

  // The sums alone.
  void Send(absl::AnyInvocable<void(absl::Status)> done) {
    std::vector<SummandType> summands;
    for (const OutputSink& sink : overlap_->outputs) {
      summands.push_back({sink.output, sink.dtype, sink.shape});
    }
    const size_t count = summands.size();
    auto sum = GroupSum::Make(group_, *overlap_->communication, std::move(summands));
    if (!sum.ok()) return done(sum.status());
    for (size_t i = 0; i < count; ++i) (*sum)->Ready(i).IgnoreError();
    (*sum)->Finish([done = std::move(done)](auto sums) mutable { done(sums.status()); });
  }

  const World world_;
  const Place place_;
  ThreadPool compute_{{"compute", 1}};
  const std::shared_ptr<ReplicaStrands> strands_ =
      std::make_shared<ReplicaStrands>([this](size_t) -> Executor& { return compute_; });
  const std::shared_ptr<FrameRouter> router_ = std::make_shared<FrameRouter>();
  std::unique_ptr<Server> server_;
  std::shared_ptr<WorkerProgram> overlap_, behind_;
  std::shared_ptr<GangGroup> group_;
  std::vector<std::vector<Tensor>> inputs_;  // of a step of all ranks, and of one alone
};

absl::StatusOr<double> SecondsOfStep(std::vector<std::unique_ptr<Rank>>& ranks, Mode mode) {
  Mutex mutex;
  absl::Status error;
  std::atomic<size_t> left{ranks.size()};
  Event ended;
  const absl::Time start = absl::Now();
  for (auto& rank : ranks) {
    rank->Step(mode, [&](const absl::Status& status) {
      {
        MutexLock lock(mutex);
        error.Update(status);
      }
      if (left.fetch_sub(1) == 1) ended.Notify();
    });
  }
  if (!ended.WaitFor(kStepMax)) return absl::DeadlineExceededError("a step hangs");
  MutexLock lock(mutex);
  RETURN_IF_ERROR(error);
  return absl::ToDoubleSeconds(absl::Now() - start);
}

absl::Status Measure(std::vector<std::unique_ptr<Rank>>& ranks, int repeats,
                     const std::string& name) {
  std::map<Mode, std::vector<double>> seconds;
  for (int i = -3; i < repeats; ++i) {  // the first make primitives and memory plans
    for (const Mode mode : {Mode::kOverlap, Mode::kBehind, Mode::kCompute, Mode::kSend}) {
      ASSIGN_OR_RETURN(const double took, SecondsOfStep(ranks, mode));
      if (i >= 0) seconds[mode].push_back(took);
    }
  }
  Figure figure;
  figure.bench = "overlap";
  figure.name = name;
  figure.value = Median(seconds[Mode::kOverlap]) * 1e3;
  figure.unit = "ms/step";
  figure.reference = "sums behind the computation";
  figure.reference_value = Median(seconds[Mode::kBehind]) * 1e3;
  const double compute = Median(seconds[Mode::kCompute]) * 1e3;
  const double send = Median(seconds[Mode::kSend]) * 1e3;
  figure.more = {{"compute_ms", compute},
                 {"sums_ms", send},
                 {"hidden", (figure.reference_value - figure.value) / std::min(compute, send)}};
  Print(figure);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  Model model;
  ASSIGN_OR_RETURN(const int workers, options.Number("workers"));
  ASSIGN_OR_RETURN(const int megabits, options.Number("megabits"));
  ASSIGN_OR_RETURN(const int latency, options.Number("latency_us"));
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(model.layers, options.Number("layers"));
  ASSIGN_OR_RETURN(model.width, options.Number("width"));
  ASSIGN_OR_RETURN(model.batch, options.Number("batch"));
  PosixFileSystem files;
  RealClock clock;
  std::vector<std::unique_ptr<PacedTransport>> links;
  ThreadPool pool({"pool", 2});
  InProcessTransport transport(clock, pool);
  const World world{clock, pool, files, transport};
  Rank::Place place;
  if (megabits == 0) place.shm_socket = NewShmSocket();
  const PacedTransport::Link link{std::max(megabits, 1) * 1e6 / 8, absl::Microseconds(latency)};
  for (int rank = 0; rank < workers; ++rank) {
    place.addresses.push_back(absl::StrCat("rank", rank));
  }
  std::vector<std::unique_ptr<Rank>> ranks;
  for (place.rank = 0; place.rank < workers; ++place.rank) {
    links.push_back(std::make_unique<PacedTransport>(clock, transport, link));
    place.transport = links.back().get();
    ASSIGN_OR_RETURN(ranks.emplace_back(), Rank::Make(world, model, place));
  }
  std::vector<Event> formed(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank]->JoinGroup(formed[rank]);
  for (const Event& one : formed) {
    if (!one.WaitFor(kStepMax)) return absl::DeadlineExceededError("no group");
  }
  const std::string name = absl::StrCat(
      "workers=", workers, "/layers=", model.layers, "x", model.width, "/batch=", model.batch, "/",
      megabits == 0 ? "shared memory" : absl::StrCat(megabits, "Mbit/s"));
  const absl::Status measured = Measure(ranks, repeats, name);
  ranks.clear();
  clock.Stop();
  return measured;
}

}  // namespace

Command OverlapBench() {
  return {
      "overlap",
      "A synchronous step of several workers with and without sums that travel meanwhile",
      {{"workers", "2", "threads that stand for a host each"},
       {"megabits", "10000", "of the link of each worker, a second, each way; 0: shared memory"},
       {"latency_us", "30", "of the link"},
       {"layers", "8", "of the model"},
       {"width", "1024", "of each layer: width x width float32"},
       {"batch", "64", "examples of each worker"},
       {"repeats", "20", "steps; the median is printed"}},
      Run};
}

}  // namespace cohort::bench
