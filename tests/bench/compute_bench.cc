// Whole training steps of six models in one process without calls: forward, backward and the
// optimizer's update, beside the bound that the step's products, convolutions and recurrent layers
// set at SGEMM's rate. tests/bench/peers/compute.py puts PyTorch beside it.

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/posix_file_system.h"
#include "common/base/status.h"
#include "common/base/turns.h"
#include "common/formats/npz.h"
#include "common/runtime/kernels/cpu/register.h"
#include "tests/bench/bench.h"
#include "tests/bench/compute_models.h"
#include "tests/bench/kernel_times.h"
#include "tests/bench/local_training.h"
#include "tests/bench/program_flops.h"
#include "tests/bench/sgemm_rate.h"

namespace cohort::bench {

namespace {

// The first steps make primitives and the memory plan. The peer makes as many, from the same
// weights, and both print the first and the last loss.
constexpr int kWarmUpSteps = 3;

// A product on which SGEMM is about as fast as on any.
constexpr Product kSgemm = {512, 512, 512};

struct Request {
  std::vector<std::string> models;
  std::vector<int> threads;
  int repeats = 0;  // 0: as many as the model suggests
  int batch = 0;    // 0: the model's
  std::string save;
  bool profile = false;
};

struct Measured {
  std::vector<double> losses;  // of the first steps
  // Of each step after them: the time that passed, and the processor time of all threads, which
  // tells more while other programs compute on the machine.
  std::vector<double> seconds;
  std::vector<double> processor_seconds;
};

absl::StatusOr<std::vector<int>> ReadThreads(const std::string& text) {
  std::vector<int> threads;
  for (const absl::string_view one : absl::StrSplit(text, ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(one, &number) || number < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--threads has '", one, "'; it must be numbers above 0, such as 1,2"));
    }
    threads.push_back(number);
  }
  return threads;
}

absl::StatusOr<Request> ReadRequest(const Options& options) {
  Request request;
  request.models = ComputeModelNames();
  if (options.Text("model") != "all") request.models = absl::StrSplit(options.Text("model"), ',');
  ASSIGN_OR_RETURN(request.threads, ReadThreads(options.Text("threads")));
  ASSIGN_OR_RETURN(request.repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(request.batch, options.Number("batch"));
  request.save = options.Text("save");
  request.profile = options.Text("profile") == "true";
  if (!request.save.empty() && request.models.size() > 1) {
    return absl::InvalidArgumentError("--save keeps one model; name it with --model");
  }
  return request;
}

// Writes the weights and the batch with which the training begins.
absl::Status Save(const LocalTraining& training, const std::vector<NamedTensor>& batch,
                  const std::string& path) {
  std::vector<NamedTensor> tensors = training.Values();
  for (const NamedTensor& component : batch) {
    tensors.push_back({absl::StrCat("batch/", component.name), component.value});
  }
  PosixFileSystem files;
  return WriteNpz(files, path, tensors);
}

absl::StatusOr<Measured> Measure(LocalTraining& training, absl::Span<const Tensor> batch,
                                 int repeats, KernelTimes& times) {
  Measured measured;
  for (int i = -kWarmUpSteps; i < repeats; ++i) {
    if (i == 0) times.Clear();
    const double processor_start = ProcessorSeconds();
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(const double loss, training.Step(batch));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (i < 0) {
      measured.losses.push_back(loss);
    } else {
      measured.seconds.push_back(seconds.count());
      measured.processor_seconds.push_back(ProcessorSeconds() - processor_start);
    }
  }
  return measured;
}

std::string CaseName(const ComputeModel& model, int threads) {
  return absl::StrCat(model.name, "/batch=", model.job.fit.batch_size, "/threads=", threads);
}

void PrintSteps(const std::string& name, int threads, double flops, const LocalTraining& training,
                const Measured& measured) {
  const double sgemm = SgemmRate(kSgemm, threads);
  const double seconds = Median(measured.seconds);
  Figure figure;
  figure.bench = "compute";
  figure.name = name;
  figure.value = 1 / seconds;
  figure.unit = "steps/s";
  figure.reference =
      "arithmetic bound: flops of products, convolutions and recurrent layers over "
      "SGEMM's rate on as many threads";
  figure.reference_value = sgemm / flops;
  figure.more = {{"ms_per_step", seconds * 1e3},
                 {"processor_ms_per_step", Median(measured.processor_seconds) * 1e3},
                 {"mflop_per_step", flops * 1e-6},
                 {"sgemm_gflops", sgemm * 1e-9},
                 {"parameters", static_cast<double>(training.num_parameters())},
                 {"first_loss", measured.losses.front()},
                 {"last_loss", measured.losses.back()},
                 {"arena_bytes", static_cast<double>(training.arena_bytes())}};
  Print(figure);
}

// Prints a line for each operator; what is left of a step is the update, the lookup of rows and the
// runner itself.
void PrintProfile(const std::string& name, const KernelTimes& times, const Measured& measured) {
  const auto steps = static_cast<double>(measured.seconds.size());
  double all = 0;
  for (const double seconds : measured.processor_seconds) all += seconds;
  double rest = all;
  std::vector<KernelTimes::Entry> entries = times.Slowest();
  for (const KernelTimes::Entry& entry : entries) rest -= entry.seconds;
  entries.push_back({"rest", rest, static_cast<int64_t>(measured.seconds.size())});
  for (const KernelTimes::Entry& entry : entries) {
    Figure figure;
    figure.bench = "compute";
    figure.name = absl::StrCat(name, "/", entry.op);
    figure.value = entry.seconds / steps * 1e3;
    figure.unit = "ms/step";
    figure.more = {{"share", entry.seconds / all},
                   {"runs_per_step", static_cast<double>(entry.runs) / steps}};
    Print(figure);
  }
}

absl::Status RunModel(const Request& request, const std::string& name, int threads) {
  ASSIGN_OR_RETURN(const ComputeModel model, FindComputeModel(name, request.batch));
  KernelRegistry registry;
  RegisterCpuKernels(registry, threads);
  KernelTimes times;
  if (request.profile) registry = times.Wrap(registry);
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalTraining> training,
                   LocalTraining::Create(model.job, model.batch, registry));
  const std::vector<NamedTensor> named = MakeBatch(model);
  if (!request.save.empty()) RETURN_IF_ERROR(Save(*training, named, request.save));
  std::vector<Tensor> batch;
  for (const NamedTensor& component : named) batch.push_back(component.value);
  const int repeats = request.repeats > 0 ? request.repeats : model.repeats;
  ASSIGN_OR_RETURN(const Measured measured, Measure(*training, batch, repeats, times));
  const double flops = FlopsOf(training->graph(), static_cast<int>(model.job.fit.batch_size));
  PrintSteps(CaseName(model, threads), threads, flops, *training, measured);
  if (request.profile) PrintProfile(CaseName(model, threads), times, measured);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const Request request, ReadRequest(options));
  SetTurns(Turns::kUsual);  // as threads that compute have them, and PyTorch's
  for (const std::string& name : request.models) {
    for (const int threads : request.threads) {
      RETURN_IF_ERROR(RunModel(request, name, threads));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Command ComputeBench() {
  return {"compute",
          "Training steps per second of one process, updates included; runs where deploy/jobs is",
          {{"model", "all", "models, with commas; all: every one"},
           {"threads", "1,2", "numbers of threads, one run for each"},
           {"repeats", "0", "steps; the median is printed; 0: as many as the model needs"},
           {"batch", "0", "examples of a batch; 0: the model's number"},
           {"save", "", "an .npz file that gets the first weights and the batch, for peers"},
           {"profile", "false", "true: prints the processor time of each operator, too"}},
          Run};
}

}  // namespace cohort::bench
