#pragma once

// Completes the functions of a data pipeline that need to know the data
// (coordinator/job/map_spec.h), by as few passes over the training data as they need: a function of
// a column that another incomplete function makes waits for the pass after that one's.

#include "absl/status/status.h"
#include "common/base/file_system.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/job/job_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// Completes the data pipeline of `job`: reads vocabularies from files, takes the state that belongs
// to the weights from which the job begins, and adapts all other functions to the training examples
// of `source`. Errors: those of ReadVocabulary, TakePreprocessing, DescribeDataset and
// GatherStatistics; INVALID_ARGUMENT naming a vocabulary that is longer than max_tokens, or a
// function that cannot adapt to the data; those of NoExamples and TrainingExamples.
absl::Status CompletePipeline(FileSystem& files, ClusterCoordinator& coordinator,
                              const proto::DatasetSource& source, JobSpec& job);

}  // namespace cohort
