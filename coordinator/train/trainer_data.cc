// The data sets of a trainer and the programs for their batches.

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "coordinator/model/onnx_export.h"
#include "coordinator/train/data_checks.h"
#include "coordinator/train/trainer.h"

namespace cohort {

namespace {

absl::Status NoExamples(absl::string_view key, const proto::DatasetSource& source) {
  const auto& paths = source.has_click_log() ? source.click_log().paths() : source.idx().paths();
  return absl::InvalidArgumentError(absl::StrCat(key,
                                                 " has no examples: ", absl::StrJoin(paths, ", "),
                                                 paths.empty()       ? "its source is"
                                                 : paths.size() == 1 ? " is"
                                                                     : " are",
                                                 " empty; name files that have some"));
}

}  // namespace

absl::StatusOr<proto::ElementSpec> Trainer::BatchOf(const proto::ElementSpec& example) const {
  proto::ElementSpec batch;
  for (const proto::ComponentSpec& component : example.components()) {
    // The batch becomes axis 0, whose size varies.
    proto::ComponentSpec& of_batch = *batch.add_components();
    of_batch = component;
    of_batch.clear_dims();
    of_batch.add_dims(-1);
    of_batch.mutable_dims()->MergeFrom(component.dims());
  }
  return TransformElement(batch, PipelineTransforms(job_.data));
}

absl::Status Trainer::PrepareData() {
  proto::DatasetSpec raw;
  *raw.mutable_source() = sources_.train;
  ASSIGN_OR_RETURN(const proto::CreateDatasetResponse all,
                   coordinator_.DescribeDataset(coordinator_.CreatePerWorkerDataset(raw)));
  // Load() compares these data with the data of the recovery checkpoint.
  progress_->SetData({all.cardinality(), all.content()});
  if (all.cardinality() == 0) return NoExamples("data.train", sources_.train);
  ASSIGN_OR_RETURN(const proto::ElementSpec batch, BatchOf(all.element_spec()));
  ASSIGN_OR_RETURN(model_, BuildPrograms(job_, batch));
  // An export that is impossible ends the job before the training, not after it.
  if (!job_.export_to.onnx.empty()) {
    RETURN_IF_ERROR(Annotate(PlanOnnxExport(model_.predict).status(), "export.onnx"));
  }
  ASSIGN_OR_RETURN(const int64_t train_count,
                   TrainingExamples(all.cardinality(), job_.fit.validation_split));
  const int64_t evaluation_batch = job_.fit.validation_batch_size.value_or(job_.fit.batch_size);
  ASSIGN_OR_RETURN(train_,
                   MakeData(sources_.train, 0, train_count, job_.fit.batch_size, job_.fit.shuffle));
  // The examples that validation_split leaves out of the training are the validation data.
  if (train_count < all.cardinality()) {
    ASSIGN_OR_RETURN(validation_, MakeData(sources_.train, train_count, -1, evaluation_batch,
                                           /*shuffle=*/false));
  }
  if (sources_.test.has_value()) {
    ASSIGN_OR_RETURN(test_, MakeData(*sources_.test, 0, -1, evaluation_batch, /*shuffle=*/false));
    if (test_->pass.batches == 0) return NoExamples("data.test", *sources_.test);
    // The same programs read training and test batches.
    RETURN_IF_ERROR(CheckTestBatch(train_.element, test_->element));
  }
  return absl::OkStatus();
}

absl::StatusOr<Trainer::Data> Trainer::MakeData(const proto::DatasetSource& source, int64_t skip,
                                                int64_t take, int64_t batch_size, bool shuffle) {
  proto::DatasetSpec spec;
  *spec.mutable_source() = source;
  if (skip > 0) spec.add_transforms()->set_skip(skip);
  if (take >= 0) spec.add_transforms()->set_take(take);
  if (shuffle) {
    proto::Shuffle* const shuffling = spec.add_transforms()->mutable_shuffle();
    // The shuffle buffer holds any number of examples, so the whole data set is shuffled, as in
    // Keras's fit.
    shuffling->set_buffer_size(std::numeric_limits<int64_t>::max());
    shuffling->set_seed(job_.seed);
    shuffling->set_reshuffle_each_iteration(true);
  }
  // The pipeline's transforms work on whole batches, so they follow the batch transform.
  spec.add_transforms()->mutable_batch()->set_size(batch_size);
  for (const proto::DatasetTransform& transform : PipelineTransforms(job_.data)) {
    *spec.add_transforms() = transform;
  }
  if (model_.labels.has_value()) *spec.add_transforms() = *model_.labels;
  Data data;
  data.pass.batch_size = batch_size;
  data.handle = coordinator_.CreatePerWorkerDataset(spec);
  ASSIGN_OR_RETURN(const proto::CreateDatasetResponse described,
                   coordinator_.DescribeDataset(data.handle));
  data.pass.batches = described.cardinality();
  data.element = described.element_spec();
  data.content = described.content();
  return data;
}

}  // namespace cohort
