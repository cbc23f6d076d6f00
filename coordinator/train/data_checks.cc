#include "coordinator/train/data_checks.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"

namespace cohort {
namespace {

// Returns a component's type as text, such as "uint8[N,28,28]"; N stands for an axis whose size
// varies.
std::string TypeOf(const proto::ComponentSpec& component) {
  return absl::StrCat(DTypeName(static_cast<DType>(component.dtype())), "[",
                      absl::StrJoin(component.dims(), ",",
                                    [](std::string* out, int64_t dim) {
                                      absl::StrAppend(out, dim < 0 ? "N" : absl::StrCat(dim));
                                    }),
                      "]");
}

// Returns the file of a component in parentheses, or "" for data without such files.
std::string FileOf(const BatchOfFiles& data, size_t component) {
  return component < data.files.size() ? absl::StrCat(" (", data.files[component], ")") : "";
}

std::vector<std::string> PathsOf(const proto::DatasetSource& source) {
  const auto list = [](const auto& paths) {
    return std::vector<std::string>(paths.begin(), paths.end());
  };
  if (source.has_click_log()) return list(source.click_log().paths());
  if (source.has_record_files()) return list(source.record_files().paths());
  if (source.has_numpy()) return list(source.numpy().paths());
  if (source.has_image_folder()) return {source.image_folder().directory()};
  return list(source.idx().paths());
}

}  // namespace

absl::Status NoExamples(absl::string_view key, const proto::DatasetSource& source) {
  const std::vector<std::string> paths = PathsOf(source);
  const char* const verb = paths.empty() ? "its source is" : paths.size() == 1 ? " is" : " are";
  return absl::InvalidArgumentError(absl::StrCat(key,
                                                 " has no examples: ", absl::StrJoin(paths, ", "),
                                                 verb, " empty; name files that have some"));
}

std::vector<std::string> IdxFilesOf(const proto::DatasetSource& source) {
  return {source.idx().paths().begin(), source.idx().paths().end()};
}

absl::Status CheckTestComponents(size_t train, size_t test) {
  if (train == test) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("data.test has ", test,
                                                 " components, and data.train ", train,
                                                 ": the model reads both in the same way"));
}

absl::Status CheckTestBatch(const BatchOfFiles& train, const BatchOfFiles& test) {
  RETURN_IF_ERROR(CheckTestComponents(static_cast<size_t>(train.batch.components_size()),
                                      static_cast<size_t>(test.batch.components_size())));
  for (int i = 0; i < train.batch.components_size(); ++i) {
    const std::string expected = TypeOf(train.batch.components(i));
    const std::string found = TypeOf(test.batch.components(i));
    if (found == expected) continue;
    const auto component = static_cast<size_t>(i);
    return absl::InvalidArgumentError(absl::StrCat(
        "component ", i, " of data.test", FileOf(test, component), " is ", found,
        ", and of data.train", FileOf(train, component), " ", expected,
        " (batched, behind the pipeline): the model reads both in the same way; give both the same "
        "shape and type, or name other files"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TrainingExamples(int64_t all, double validation_split) {
  // As in Keras, the last `validation_split` of the examples becomes the validation data, before
  // any shuffling.
  const auto count =
      static_cast<int64_t>(std::floor(static_cast<double>(all) * (1.0 - validation_split)));
  if (count > 0) return count;
  return absl::InvalidArgumentError(absl::StrCat("no training examples are left of ", all,
                                                 " after fit.validation_split = ", validation_split,
                                                 ": make it smaller"));
}

}  // namespace cohort
