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

}  // namespace

absl::Status CheckTestComponents(size_t train, size_t test) {
  if (train == test) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("data.test has ", test,
                                                 " components, and data.train ", train,
                                                 ": the model reads both in the same way"));
}

absl::Status CheckTestBatch(const proto::ElementSpec& train, const proto::ElementSpec& test) {
  RETURN_IF_ERROR(CheckTestComponents(static_cast<size_t>(train.components_size()),
                                      static_cast<size_t>(test.components_size())));
  for (int i = 0; i < train.components_size(); ++i) {
    const std::string expected = TypeOf(train.components(i));
    const std::string found = TypeOf(test.components(i));
    if (found == expected) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("component ", i, " of data.test is ", found, ", and of data.train ", expected,
                     " (batched, behind the pipeline): the model reads both in the same way"));
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
