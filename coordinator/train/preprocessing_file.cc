#include "coordinator/train/preprocessing_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/checkpoint_files.h"
#include "coordinator/job/pipeline_file.h"

namespace cohort {

namespace {

bool IsIncomplete(const TransformSpec& transform) {
  return transform.kind == TransformSpec::Kind::kMap && NeedsAdapting(transform.map);
}

// Returns the transform without what it has adapted to.
TransformSpec WithoutState(TransformSpec transform) {
  transform.map.vocabulary.reset();
  transform.map.mean.reset();
  transform.map.variance.clear();
  transform.map.boundaries.reset();
  return transform;
}

// Returns whether `state` can be that of the job's function.
bool IsStateOf(const TransformSpec& state, const TransformSpec& incomplete) {
  return !IsIncomplete(state) && WithoutState(state) == incomplete;
}

// Returns the weights from which the job begins; "" if there are none.
absl::StatusOr<std::string> WeightsOf(FileSystem& files, const CheckpointSpec& checkpoint) {
  if (!checkpoint.restore.empty()) {
    ASSIGN_OR_RETURN(std::string prefix,
                     FindCheckpoint(files, checkpoint.directory, checkpoint.restore));
    if (!prefix.empty()) return prefix;
  }
  return std::string(absl::StripSuffix(checkpoint.init_from.path, ".index"));
}

}  // namespace

absl::Status WritePreprocessing(FileSystem& files, const std::string& exported,
                                const JobSpec& job) {
  return WriteFileAtomically(files, PreprocessingPath(exported), PipelineToJson(job.data));
}

absl::Status TakePreprocessing(FileSystem& files, JobSpec& job) {
  std::vector<TransformSpec>& pipeline = job.data.pipeline;
  if (std::none_of(pipeline.begin(), pipeline.end(), IsIncomplete)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string weights, WeightsOf(files, job.checkpoint));
  if (weights.empty()) return absl::OkStatus();
  const std::string path = PreprocessingPath(weights);
  const absl::StatusOr<std::string> text = ReadFile(files, path);
  if (absl::IsNotFound(text.status())) {
    Log(LogLevel::kWarning, "preprocessing_missing",
        {{"file", path},
         {"effect",
          "data.pipeline adapts to the data anew, and its vocabularies may not be those "
          "with which the weights were trained"},
         {"remedy", "give vocabularies and numbers in the job file"}});
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(const std::vector<TransformSpec> state, ParsePipeline(*text, path, job.data));
  bool fits = state.size() == pipeline.size();
  for (size_t i = 0; fits && i < state.size(); ++i) {
    fits = !IsIncomplete(pipeline[i]) || IsStateOf(state[i], pipeline[i]);
  }
  if (!fits) {
    Log(LogLevel::kWarning, "preprocessing_differs",
        {{"file", path},
         {"effect",
          "data.pipeline is not the one with which the weights were trained, and adapts "
          "to the data anew"},
         {"remedy", "give the same data.pipeline to go on with what the weights know"}});
    return absl::OkStatus();
  }
  for (size_t i = 0; i < state.size(); ++i) {
    if (IsIncomplete(pipeline[i])) pipeline[i] = state[i];
  }
  Log(LogLevel::kInfo, "preprocessing_restored", {{"file", path}});
  return absl::OkStatus();
}

}  // namespace cohort
