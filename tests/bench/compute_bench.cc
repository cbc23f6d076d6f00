// A train step's graph alone: one thread, no parameter servers, beside the bound that its products
// and convolutions set at SGEMM's rate.

#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/posix_file_system.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/program/program.h"
#include "common/program/value_types.h"
#include "common/runtime/kernels/cpu/register.h"
#include "common/runtime/run/program_runner.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/train/offline_plan.h"
#include "tests/bench/bench.h"
#include "tests/bench/sgemm_rate.h"
#include "tests/support/sequence_rng.h"

namespace cohort::bench {

namespace {

using Dims = std::vector<double>;

// Dimensions of a value, those that are no numbers as the batch.
Dims DimsOf(const ValueTypes& types, const std::string& value, int batch) {
  Dims dims;
  const auto* shape = types.shape(value);
  if (shape == nullptr) return dims;
  for (const auto& dim : shape->dim()) {
    dims.push_back(dim.has_dim_value() ? static_cast<double>(dim.dim_value()) : batch);
  }
  return dims;
}

double Product(const Dims& dims, size_t first) {
  return std::accumulate(dims.begin() + static_cast<int64_t>(first), dims.end(), 1.0,
                         std::multiplies<double>());
}

// Multiplications and additions of a node; 0 for what is no product.
double Flops(const onnx::NodeProto& node, const ValueTypes& types, int batch) {
  const auto dims = [&](const std::string& value) { return DimsOf(types, value, batch); };
  const std::string& op = node.op_type();
  if (op == "Conv") return 2 * Product(dims(node.output(0)), 0) * Product(dims(node.input(1)), 1);
  if (op == "ConvInputGrad") {
    return 2 * Product(dims(node.input(0)), 0) * Product(dims(node.input(1)), 1);
  }
  if (op == "ConvWeightGrad") {
    return 2 * Product(dims(node.input(0)), 0) * Product(dims(node.input(2)), 1);
  }
  if (op != "MatMul" && op != "Gemm") return 0;
  bool transposed = false;
  for (const auto& attribute : node.attribute()) {
    transposed = transposed || (attribute.name() == "transA" && attribute.i() != 0);
  }
  const Dims a = dims(node.input(0));
  return 2 * Product(dims(node.output(0)), 0) * (transposed ? a.front() : a.back());
}

// Values that a trained model might have: small numbers, and labels that are classes.
Tensor MakeInput(const onnx::ValueInfoProto& input, int batch, SequenceRng& rng) {
  const auto& type = input.type().tensor_type();
  std::vector<int64_t> dims;
  for (const auto& dim : type.shape().dim()) {
    dims.push_back(dim.has_dim_value() ? dim.dim_value() : batch);
  }
  Tensor tensor = Tensor::Zeros(static_cast<DType>(type.elem_type()), Shape(dims));
  const RandomStream stream(rng.Next(), input.name());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const auto at = static_cast<uint64_t>(i);
    if (tensor.dtype() == DType::kFloat32) {
      tensor.mutable_data<float>()[i] = 0.1f * stream.Uniform(at);
    } else if (tensor.dtype() == DType::kUint8) {
      tensor.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(stream.Below(at, 10));
    }
  }
  return tensor;
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  PosixFileSystem files;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, options.Text("job")));
  ASSIGN_OR_RETURN(const JobSpec job, ParseJob(text, options.Text("job"), {}));
  ASSIGN_OR_RETURN(const Plan plan, MakeOfflinePlan(job, {.ps = {0}, .workers = {0}}));
  ASSIGN_OR_RETURN(const onnx::ModelProto model, LoadProgram(plan.train_step));
  KernelRegistry registry;
  RegisterCpuKernels(registry, 1);
  ASSIGN_OR_RETURN(auto program, CompileProgram(model, registry));
  const int batch = static_cast<int>(job.fit.batch_size);
  SequenceRng rng(1);
  std::vector<Tensor> inputs;
  for (const auto& input : model.graph().input()) inputs.push_back(MakeInput(input, batch, rng));
  const ValueTypes types(model.graph());
  double flops = 0;
  for (const auto& node : model.graph().node()) flops += Flops(node, types, batch);
  ProgramRunner runner(std::move(program));
  std::vector<double> seconds;
  for (int i = -3; i < repeats; ++i) {  // the first runs make primitives and the memory plan
    const absl::Time start = absl::Now();
    RETURN_IF_ERROR(runner.Run(inputs, RunContext{}).status());
    if (i >= 0) seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
  }
  const double sgemm = SgemmRate({128, 256, 784});
  Figure figure;
  figure.bench = "compute";
  figure.name = absl::StrCat(job.name, "/batch=", batch, "/threads=1");
  figure.value = 1 / Median(seconds);
  figure.unit = "steps/s";
  figure.reference = "arithmetic bound: flops of products and convolutions over SGEMM's rate";
  figure.reference_value = sgemm / flops;
  figure.more = {{"sgemm_gflops", sgemm * 1e-9},
                 {"mflop_per_step", flops * 1e-6},
                 {"ms_per_step", Median(seconds) * 1e3},
                 {"arena_bytes", static_cast<double>(runner.memory().arena_bytes)}};
  Print(figure);
  return absl::OkStatus();
}

}  // namespace

Command ComputeBench() {
  return {"compute",
          "Train steps per second of a job's graph alone, on one thread",
          {{"job", "deploy/jobs/mnist_cnn.json", "job file, of digits"},
           {"repeats", "50", "steps; the median is printed"}},
          Run};
}

}  // namespace cohort::bench
