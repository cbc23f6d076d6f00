#pragma once

// Runs a golden case through the path of a job: the job file's section is read, and what it
// describes is built and run with the inputs of the case.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "nlohmann/json.hpp"
#include "onnx/onnx_pb.h"
#include "tests/models/golden_case.h"

namespace cohort {

struct Verdict {
  enum Kind {
    kPassed,
    kRefused,  // the job's reader, or the model's shape rules, did not accept the case
    kFailed,
  };
  Kind kind = kFailed;
  std::string text;  // why the case was refused or failed

  static Verdict Passed() { return {kPassed, ""}; }
  static Verdict Refused(const absl::Status& status) {
    return {kRefused, std::string(status.message())};
  }
  static Verdict Failed(std::string text) { return {kFailed, std::move(text)}; }
};

// The kernels that run a case's graph.
enum class CaseKernels { kReference, kCpu };

// Runs one case and compares what it gives with the numbers of the case.
Verdict RunModelCase(const ModelCase& one, CaseKernels kernels);

// The runners by kind; RunModelCase chooses among them.
Verdict RunLayerCase(const ModelCase& one, CaseKernels kernels);
Verdict RunOptimizerCase(const ModelCase& one, CaseKernels kernels);
Verdict RunInitializerCase(const ModelCase& one);
Verdict RunLossCase(const ModelCase& one, CaseKernels kernels);
Verdict RunMetricCase(const ModelCase& one, CaseKernels kernels);
Verdict RunRegularizerCase(const ModelCase& one, CaseKernels kernels);
Verdict RunConstraintCase(const ModelCase& one);

// Returns a value after an update that changes nothing but has these parameters of a constraint.
absl::StatusOr<Tensor> AfterConstraint(const std::map<std::string, double>& parameters,
                                       Tensor value);

// Parses a job with this model and these arguments of compile(); `compile` needs no loss.
absl::StatusOr<JobSpec> ParseCaseJob(const nlohmann::json& model, nlohmann::json compile);

// Parses a job with these arguments of compile() and a model that the case's Keras wrote.
absl::StatusOr<JobSpec> ParseCompileCase(const ModelCase& one, const nlohmann::json& compile);

// Returns the serialised form of the case's object.
nlohmann::json ClassFormOf(const ModelCase& one);

// Returns the batch of a data set that has these arrays and a class number for each example.
proto::ElementSpec BatchOf(const std::vector<GoldenTensor>& inputs);

// Compiles the graph and runs it twice, so that the second run uses the memory plan of the first.
absl::StatusOr<std::vector<Tensor>> RunCaseGraph(const onnx::ModelProto& model,
                                                 const std::vector<Tensor>& inputs,
                                                 CaseKernels kernels);

}  // namespace cohort
