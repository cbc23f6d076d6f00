#pragma once

// Builds one component of an output element: the chosen rows of the source, converted on their way
// straight into the output tensor. The value transforms of a pipeline (rescale, one_hot, flatten)
// look at one element at a time, so they commute with those that pick elements and are fused here.

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

// Largest component of one output element, in bytes.
inline constexpr int64_t kComponentBytesMax = int64_t{2} << 30;

// Immutable; thread-safe.
class ComponentAssembler {
 public:
  // Takes the transforms of `spec` that name `component`. Errors: INVALID_ARGUMENT naming the
  // transform and the element type that it cannot take.
  static absl::StatusOr<ComponentAssembler> Build(const SourceComponent& source, uint32_t component,
                                                  const proto::DatasetSpec& spec);

  const std::string& name() const { return source_.name; }
  DType dtype() const { return dtype_; }
  const Shape& element_shape() const { return element_shape_; }

  // Rows `indices` of the source with axis 0 in front, or the one row without it.
  // Errors: INVALID_ARGUMENT for a label that is none of the classes, naming the example in its
  // file; RESOURCE_EXHAUSTED for a tensor beyond kComponentBytesMax.
  absl::StatusOr<Tensor> Batch(absl::Span<const int64_t> indices) const;
  absl::StatusOr<Tensor> Single(int64_t index) const;

 private:
  struct Affine {
    float scale = 1;
    float offset = 0;
  };

  absl::Status AddRescale(const proto::Rescale& rescale);
  absl::Status AddOneHot(const proto::OneHot& one_hot);
  absl::Status AddClassLabels(const proto::ClassLabels& labels);
  absl::StatusOr<Tensor> Assemble(absl::Span<const int64_t> indices, Shape shape) const;
  // Elements of 4 or 8 bytes as they are in the source.
  bool CopiesShortRows() const;
  absl::Status FillRow(int64_t index, std::byte* out) const;
  absl::Status FillOneHot(int64_t index, const std::byte* in, float* out) const;
  absl::Status FillLabel(int64_t index, const std::byte* in, std::byte* out) const;
  // Returns " of labels.idx", for messages; empty if the source has no file.
  std::string OfFile() const;

  SourceComponent source_;
  uint32_t component_ = 0;
  int64_t source_values_ = 1;  // elements of the source in one element
  DType dtype_ = DType::kUndefined;
  Shape element_shape_;
  int64_t output_values_ = 1;
  std::optional<Affine> rescale_;     // applied to the source's type
  int64_t one_hot_depth_ = 0;         // 0: none
  int64_t label_classes_ = 0;         // 0: these are no labels
  std::vector<Affine> rescale_more_;  // over the float output
};

}  // namespace cohort
