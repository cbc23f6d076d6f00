#pragma once

// Builds one component of an output element: copies the chosen rows of the source into the output
// tensor and converts them on the way. A pipeline's value transforms (rescale, one_hot, flatten)
// look at one element at a time. They therefore commute with the transforms that pick elements, and
// are fused into the copy.

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

// The largest component of one output element, in bytes.
inline constexpr int64_t kComponentBytesMax = int64_t{2} << 30;

// Immutable; thread-safe.
class ComponentAssembler {
 public:
  // Builds the assembler of one component from the transforms of `spec` that name `component`.
  // Errors: INVALID_ARGUMENT naming the transform and the element type that the transform cannot
  // take.
  static absl::StatusOr<ComponentAssembler> Build(const SourceComponent& source, uint32_t component,
                                                  const proto::DatasetSpec& spec);

  const std::string& name() const { return source_.name; }
  DType dtype() const { return dtype_; }
  const Shape& element_shape() const { return element_shape_; }

  // Batch() returns rows `indices` of the source with the batch as axis 0; Single() returns one row
  // without a batch axis. Errors: INVALID_ARGUMENT for a label that is not one of the classes,
  // naming the example and its file; RESOURCE_EXHAUSTED for a tensor beyond kComponentBytesMax.
  absl::StatusOr<Tensor> Batch(absl::Span<const int64_t> indices) const;
  absl::StatusOr<Tensor> Single(int64_t index) const;
  // Returns " of labels.idx" with the name of the source's file, for error messages, or an empty
  // string if the source has no file.
  std::string OfFile() const;

 private:
  struct Affine {
    float scale = 1;
    float offset = 0;
  };

  absl::Status AddRescale(const proto::Rescale& rescale);
  absl::Status AddOneHot(const proto::OneHot& one_hot);
  absl::Status AddClassLabels(const proto::ClassLabels& labels);
  absl::StatusOr<Tensor> Assemble(absl::Span<const int64_t> indices, Shape shape) const;
  // Returns true if each row has 4 or 8 bytes and is copied unchanged.
  bool CopiesShortRows() const;
  absl::Status FillRow(int64_t index, std::byte* out) const;
  absl::Status FillOneHot(int64_t index, const std::byte* in, float* out) const;
  absl::Status FillLabel(int64_t index, const std::byte* in, std::byte* out) const;

  SourceComponent source_;
  uint32_t component_ = 0;
  // Number of values of one element in the source. one_hot multiplies this number by its depth.
  int64_t source_values_ = 1;
  DType dtype_ = DType::kUndefined;
  Shape element_shape_;
  int64_t output_values_ = 1;
  std::optional<Affine> rescale_;  // the first rescale, from the source's type to float
  int64_t one_hot_depth_ = 0;      // depth of the one_hot transform; 0: the component has none
  // Number of classes of a label component; 0: the component is not a label.
  int64_t label_classes_ = 0;
  std::vector<Affine> rescale_more_;  // further rescales, applied to the float output
};

}  // namespace cohort
