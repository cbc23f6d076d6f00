#include "coordinator/train/adapt_pipeline.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/preprocessing/vocabulary.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/train/data_checks.h"
#include "coordinator/train/preprocessing_file.h"

namespace cohort {

namespace {

// One pass over the data: the functions that are applied, and the functions that it completes.
struct Pass {
  proto::DatasetSpec spec;
  std::vector<size_t> adapted;  // positions in the pipeline
};

const std::string& OutputOf(const MapSpec& map) {
  return map.output.empty() ? map.inputs[0] : map.output;
}

bool HasInputIn(const MapSpec& map, const std::set<std::string>& columns) {
  return std::any_of(map.inputs.begin(), map.inputs.end(),
                     [&](const std::string& input) { return columns.count(input) > 0; });
}

// Returns whether the function changes or removes a column of which a statistic is gathered.
bool Overwrites(const MapSpec& map, const std::set<std::string>& gathered) {
  return map.function == "Drop" ? HasInputIn(map, gathered) : gathered.count(OutputOf(map)) > 0;
}

Pass NextPass(const proto::DatasetSource& source, const DataSpec& data) {
  Pass pass;
  *pass.spec.mutable_source() = source;
  for (const proto::DatasetTransform& transform : SourceTransforms(data.train)) {
    *pass.spec.add_transforms() = transform;
  }
  proto::Adapt adapt;
  std::set<std::string> unknown;   // columns that incomplete functions make
  std::set<std::string> gathered;  // columns of which statistics are gathered
  for (size_t i = 0; i < data.pipeline.size(); ++i) {
    const MapSpec& map = data.pipeline[i].map;
    const std::string& output = OutputOf(map);
    if (HasInputIn(map, unknown)) {
      if (map.function != "Drop") unknown.insert(output);
    } else if (NeedsAdapting(map)) {
      *adapt.add_statistics() = StatisticFor(map);
      pass.adapted.push_back(i);
      gathered.insert(map.inputs[0]);
      unknown.insert(output);
    } else if (Overwrites(map, gathered)) {
      // Statistics are of the columns as all functions of the pass leave them.
      break;
    } else {
      *pass.spec.add_transforms()->mutable_map() = ToProto(map);
      unknown.erase(output);
    }
  }
  *pass.spec.add_transforms()->mutable_adapt() = std::move(adapt);
  return pass;
}

std::string KeyOf(size_t position) { return absl::StrCat("data.pipeline.", position); }

absl::Status ReadVocabularies(FileSystem& files, DataSpec& data) {
  for (size_t i = 0; i < data.pipeline.size(); ++i) {
    MapSpec& map = data.pipeline[i].map;
    const std::string key = absl::StrCat(KeyOf(i), ".vocabulary");
    if (!map.vocabulary_file.empty()) {
      absl::StatusOr<std::vector<std::string>> read = ReadVocabulary(files, map.vocabulary_file);
      if (!read.ok()) return Annotate(read.status(), key);
      for (const std::string& token : *read) {
        int64_t number = 0;
        if (map.function != "IntegerLookup" || absl::SimpleAtoi(token, &number)) continue;
        return absl::InvalidArgumentError(absl::StrCat(key, ": ", map.vocabulary_file, " has '",
                                                       Excerpt(token),
                                                       "'; its tokens must be integers"));
      }
      map.vocabulary = *std::move(read);
      map.vocabulary_file.clear();
    }
    if (map.vocabulary && map.vocabulary->empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": is empty; give tokens, or leave it out to adapt it to the data"));
    }
    if (!map.vocabulary || !map.max_tokens) continue;
    const int64_t tokens = static_cast<int64_t>(map.vocabulary->size()) + FirstIndex(map);
    if (tokens <= *map.max_tokens) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": has ", tokens, " tokens with those of the mask and of unknown ones, above ",
        KeyOf(i), ".max_tokens, ", *map.max_tokens));
  }
  return absl::OkStatus();
}

absl::Status AdaptToData(ClusterCoordinator& coordinator, const proto::DatasetSource& source,
                         JobSpec& job) {
  std::vector<TransformSpec>& pipeline = job.data.pipeline;
  const auto is_incomplete = [](const TransformSpec& transform) {
    return transform.kind == TransformSpec::Kind::kMap && NeedsAdapting(transform.map);
  };
  while (std::any_of(pipeline.begin(), pipeline.end(), is_incomplete)) {
    const Pass pass = NextPass(source, job.data);
    const DatasetHandle dataset = coordinator.CreatePerWorkerDataset(pass.spec);
    ASSIGN_OR_RETURN(const proto::ExpectedData all, coordinator.DescribeDataset(dataset));
    if (all.cardinality() == 0) return NoExamples("data.train", source);
    ASSIGN_OR_RETURN(const int64_t examples,
                     TrainingExamples(all.cardinality(), job.fit.validation_split));
    std::vector<std::string> names;
    for (const size_t i : pass.adapted) {
      names.push_back(absl::StrCat(pipeline[i].map.function, " of ", pipeline[i].map.inputs[0]));
    }
    Log(LogLevel::kInfo, "adapting",
        {{"functions", absl::StrJoin(names, ", ")}, {"examples", examples}});
    ASSIGN_OR_RETURN(const std::vector<ColumnStatistics> statistics,
                     coordinator.GatherStatistics(dataset, examples));
    for (size_t i = 0; i < pass.adapted.size(); ++i) {
      MapSpec& map = pipeline[pass.adapted[i]].map;
      RETURN_IF_ERROR(Annotate(Adapt(map, statistics[i]), KeyOf(pass.adapted[i])));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CompletePipeline(FileSystem& files, ClusterCoordinator& coordinator,
                              const proto::DatasetSource& source, JobSpec& job) {
  RETURN_IF_ERROR(ReadVocabularies(files, job.data));
  RETURN_IF_ERROR(TakePreprocessing(files, job));
  return AdaptToData(coordinator, source, job);
}

}  // namespace cohort
