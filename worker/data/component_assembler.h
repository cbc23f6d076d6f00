#pragma once

// Builds one component of an element of a data set: copies the chosen rows of the source into a
// tensor, and converts them on the way. The transforms of values (rescale, one_hot, class_labels,
// flatten) look at one row at a time, so it does not matter whether rows are picked or converted
// first. Both are done in one copy.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"
#include "worker/data/source.h"

namespace cohort {

// The largest size of one component of an element, in bytes.
inline constexpr int64_t kComponentBytesMax = int64_t{2} << 30;

// The assembler of one component. Immutable; thread-safe.
class ComponentAssembler {
 public:
  // Makes the assembler of component number `component` from the transforms of `spec` that name
  // this component. Errors: INVALID_ARGUMENT naming the transform, and the type or value that it
  // cannot take.
  static absl::StatusOr<ComponentAssembler> Build(const SourceComponent& source, uint32_t component,
                                                  const proto::DatasetSpec& spec);

  // Returns the same assembler for another array of the source's type, in which row i is example
  // number numbers[i]. `numbers` outlives the result.
  ComponentAssembler Over(std::shared_ptr<const Tensor> array,
                          absl::Span<const int64_t> numbers) const;
  // Returns true if rows are given as they are in the source.
  bool KeepsRows() const;

  // Returns the rows of the source that stay in their file; null if they are in memory.
  const RowFile* rows() const { return source_.rows.get(); }

  const std::string& name() const { return source_.name; }
  DType dtype() const { return dtype_; }
  const Shape& element_shape() const { return element_shape_; }

  // Batch() returns the rows `indices` of the source, converted, with the batch as axis 0. Single()
  // returns one row without a batch axis. Errors: INVALID_ARGUMENT for a label or a one_hot value
  // that is not one of the classes, naming the example and its file; RESOURCE_EXHAUSTED for a
  // tensor of more than kComponentBytesMax bytes.
  absl::StatusOr<Tensor> Batch(absl::Span<const int64_t> indices) const;
  absl::StatusOr<Tensor> Single(int64_t index) const;
  // Returns " of " and the source's file, for error messages; empty if the source has no file.
  std::string FilePhrase() const;

 private:
  struct Affine {
    float scale = 1;
    float offset = 0;
  };

  absl::Status AddRescale(const proto::Rescale& rescale);
  absl::Status AddOneHot(const proto::OneHot& one_hot);
  absl::Status AddClassLabels(const proto::ClassLabels& labels);
  absl::StatusOr<Tensor> Assemble(absl::Span<const int64_t> indices, Shape shape) const;
  // Returns true if rows have 4 or 8 bytes and are copied unchanged.
  bool CopiesShortRows() const;
  absl::Status FillRow(int64_t index, std::byte* out) const;
  absl::Status FillOneHot(int64_t index, const std::byte* in, float* out) const;
  absl::Status FillLabel(int64_t index, const std::byte* in, std::byte* out) const;

  // Returns the number of the example in a row of the source, for messages.
  int64_t NumberOf(int64_t row) const {
    return numbers_.empty() ? row : numbers_[static_cast<size_t>(row)];
  }

  SourceComponent source_;
  absl::Span<const int64_t> numbers_;  // examples of the rows; empty: row i is example i
  uint32_t component_ = 0;
  // Number of values of one row in the source. A one_hot makes as many floats of each value as it
  // has classes.
  int64_t source_values_ = 1;
  DType dtype_ = DType::kUndefined;
  Shape element_shape_;
  int64_t output_values_ = 1;
  std::optional<Affine> rescale_;  // first rescale, which converts the source's type to float32
  int64_t one_hot_depth_ = 0;  // number of classes of the one_hot transform; 0: no such transform
  // Number of classes if the component is a label; 0: it is not.
  int64_t label_classes_ = 0;
  std::vector<Affine> rescale_more_;  // further rescales, applied to float32 values
};

}  // namespace cohort
