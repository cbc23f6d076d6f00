#include "worker/data/component_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr int64_t kOneHotDepthMax = 1 << 24;

// Converts `count` values of type T to float32 values, each times `scale` plus `offset`.
template <typename T>
void RescaleRow(const std::byte* in, int64_t count, float scale, float offset, float* out) {
  const T* values = reinterpret_cast<const T*>(in);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(values[i]) * scale + offset;
}

using RescaleFunction = void (*)(const std::byte*, int64_t, float, float, float*);

// Returns the function that rescales rows of type `dtype`, or null if this type cannot be rescaled.
RescaleFunction RescaleOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return &RescaleRow<float>;
    case DType::kFloat64:
      return &RescaleRow<double>;
    case DType::kUint8:
      return &RescaleRow<uint8_t>;
    case DType::kInt8:
      return &RescaleRow<int8_t>;
    case DType::kInt32:
      return &RescaleRow<int32_t>;
    case DType::kInt64:
      return &RescaleRow<int64_t>;
    default:
      return nullptr;
  }
}

bool IsInteger(DType dtype) {
  return dtype == DType::kUint8 || dtype == DType::kInt8 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

int64_t IntegerAt(DType dtype, const std::byte* values, int64_t i) {
  switch (dtype) {
    case DType::kUint8:
      return reinterpret_cast<const uint8_t*>(values)[i];
    case DType::kInt8:
      return reinterpret_cast<const int8_t*>(values)[i];
    case DType::kInt32:
      return reinterpret_cast<const int32_t*>(values)[i];
    default:
      return reinterpret_cast<const int64_t*>(values)[i];
  }
}

bool IsFloat(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

double FloatAt(DType dtype, const std::byte* values) {
  return dtype == DType::kFloat32 ? static_cast<double>(*reinterpret_cast<const float*>(values))
                                  : *reinterpret_cast<const double*>(values);
}

// The number of rows that CopyRows prefetches ahead. Rows are read at random positions of a source
// that no processor cache holds, so memory latency would dominate the copy of such short rows.
constexpr size_t kRowsAhead = 32;

// Copies rows of kBytes bytes to `out`. The size is a constant, so that each copy is one move
// instruction.
template <size_t kBytes>
void CopyRows(const std::byte* in, absl::Span<const int64_t> rows, std::byte* out) {
  const auto row = [in](int64_t index) { return in + static_cast<size_t>(index) * kBytes; };
  for (size_t i = 0; i < rows.size(); ++i, out += kBytes) {
    if (i + kRowsAhead < rows.size()) __builtin_prefetch(row(rows[i + kRowsAhead]));
    std::memcpy(out, row(rows[i]), kBytes);
  }
}

Shape Prepend(int64_t rows, const Shape& shape) {
  std::vector<int64_t> dims{rows};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(absl::MakeConstSpan(dims));
}

}  // namespace

absl::Status ComponentAssembler::AddClassLabels(const proto::ClassLabels& labels) {
  // Labels are checked as they are in the source, because a label that was rescaled or made one-hot
  // is not a class number any more.
  if (rescale_.has_value() || one_hot_depth_ > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels (component ", component_,
                     ") are rescaled or one-hot before they are read as "
                     "classes: leave Rescaling and CategoryEncoding of them out of the pipeline"));
  }
  const bool one_each = element_shape_ == Shape() || element_shape_ == Shape({1});
  if (!one_each || !(IsInteger(dtype_) || IsFloat(dtype_))) {
    return absl::InvalidArgumentError(absl::StrCat("labels (component ", component_, ") are ",
                                                   DTypeName(dtype_), element_shape_.ToString(),
                                                   " per example, and have to be one number"));
  }
  if (labels.classes() < 1 || labels.classes() > kOneHotDepthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("class_labels.classes is ", labels.classes(), ", not 1 to ", kOneHotDepthMax));
  }
  // Each label becomes a scalar, because sparse losses take one number per example.
  label_classes_ = labels.classes();
  element_shape_ = Shape();
  dtype_ = DType::kInt64;
  return absl::OkStatus();
}

absl::Status ComponentAssembler::AddRescale(const proto::Rescale& rescale) {
  if (label_classes_ > 0 && one_hot_depth_ == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rescale of component ", component_, " cannot take labels"));
  }
  const Affine affine{static_cast<float>(rescale.scale()), static_cast<float>(rescale.offset())};
  // After a rescale or a one_hot the values are floats, which further rescales convert in place.
  if (rescale_.has_value() || one_hot_depth_ > 0) {
    rescale_more_.push_back(affine);
    return absl::OkStatus();
  }
  if (RescaleOf(dtype_) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("rescale of component ", component_, " cannot take ", DTypeName(dtype_)));
  }
  rescale_ = affine;
  dtype_ = DType::kFloat32;
  return absl::OkStatus();
}

absl::Status ComponentAssembler::AddOneHot(const proto::OneHot& one_hot) {
  // The one_hot of labels checks class numbers as class_labels does, so that errors name the
  // example.
  if (one_hot.of_labels()) {
    proto::ClassLabels labels;
    labels.set_classes(one_hot.depth());
    RETURN_IF_ERROR(AddClassLabels(labels));
  }
  if (!IsInteger(dtype_)) {
    return absl::InvalidArgumentError(absl::StrCat("one_hot of component ", component_,
                                                   " needs integers, not ", DTypeName(dtype_),
                                                   ": put it before rescale"));
  }
  if (one_hot.depth() < 1 || one_hot.depth() > kOneHotDepthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("one_hot.depth is ", one_hot.depth(), ", not 1 to ", kOneHotDepthMax));
  }
  // A class number at or above the depth of one_hot would be written outside its row.
  if (label_classes_ > one_hot.depth()) {
    return absl::InvalidArgumentError(
        absl::StrCat("one_hot.depth is ", one_hot.depth(), ", below ", label_classes_, " classes"));
  }
  one_hot_depth_ = one_hot.depth();
  dtype_ = DType::kFloat32;
  std::vector<int64_t> dims(element_shape_.dims().begin(), element_shape_.dims().end());
  dims.push_back(one_hot_depth_);
  element_shape_ = Shape(absl::MakeConstSpan(dims));
  return absl::OkStatus();
}

absl::StatusOr<ComponentAssembler> ComponentAssembler::Build(const SourceComponent& source,
                                                             uint32_t component,
                                                             const proto::DatasetSpec& spec) {
  ComponentAssembler result;
  result.source_ = source;
  result.component_ = component;
  result.dtype_ = source.dtype();
  result.element_shape_ = source.element_shape();
  result.source_values_ = result.element_shape_.num_elements();
  // Transforms of values apply in the order of the pipeline. IndexPlan handles all other
  // transforms.
  for (const proto::DatasetTransform& transform : spec.transforms()) {
    if (transform.has_rescale() && transform.rescale().component() == component) {
      RETURN_IF_ERROR(result.AddRescale(transform.rescale()));
    } else if (transform.has_one_hot() && transform.one_hot().component() == component) {
      RETURN_IF_ERROR(result.AddOneHot(transform.one_hot()));
    } else if (transform.has_class_labels() && transform.class_labels().component() == component) {
      RETURN_IF_ERROR(result.AddClassLabels(transform.class_labels()));
    } else if (transform.kind_case() == proto::DatasetTransform::kFlatten &&
               transform.flatten() == component) {
      result.element_shape_ = Shape{result.element_shape_.num_elements()};
    }
  }
  // One element is limited in size, so that Assemble() can multiply by the batch size without
  // overflow.
  int64_t bytes = static_cast<int64_t>(ElementSize(result.dtype_));
  for (const int64_t dim : result.element_shape_.dims()) {
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kComponentBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "component ", component, " of one element, ", result.element_shape_.ToString(),
          ", is larger than ", kComponentBytesMax, " bytes"));
    }
  }
  result.output_values_ = result.element_shape_.num_elements();
  return result;
}

ComponentAssembler ComponentAssembler::Over(std::shared_ptr<const Tensor> array,
                                            absl::Span<const int64_t> numbers) const {
  ComponentAssembler over = *this;
  over.source_.array = std::move(array);
  over.numbers_ = numbers;
  return over;
}

bool ComponentAssembler::KeepsRows() const {
  return one_hot_depth_ == 0 && label_classes_ == 0 && !rescale_.has_value() &&
         rescale_more_.empty() && element_shape_ == source_.element_shape();
}

absl::StatusOr<Tensor> ComponentAssembler::Batch(absl::Span<const int64_t> indices) const {
  return Assemble(indices, Prepend(static_cast<int64_t>(indices.size()), element_shape_));
}

absl::StatusOr<Tensor> ComponentAssembler::Single(int64_t index) const {
  return Assemble(absl::MakeConstSpan(&index, 1), element_shape_);
}

absl::StatusOr<Tensor> ComponentAssembler::Assemble(absl::Span<const int64_t> indices,
                                                    Shape shape) const {
  const int64_t row_bytes = output_values_ * static_cast<int64_t>(ElementSize(dtype_));
  const auto rows = static_cast<int64_t>(indices.size());
  // kComponentBytesMax is divided by the row size, because the number of rows times the row size
  // could overflow.
  if (row_bytes > 0 && rows > kComponentBytesMax / row_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("component ", component_, " of a batch of ",
                                                     rows, " is larger than ", kComponentBytesMax,
                                                     " bytes: use smaller batches"));
  }
  Tensor tensor(dtype_, std::move(shape));
  std::byte* out = tensor.mutable_raw();
  if (CopiesShortRows()) {
    const std::byte* const in = source_.array->raw();
    row_bytes == 4 ? CopyRows<4>(in, indices, out) : CopyRows<8>(in, indices, out);
    return tensor;
  }
  for (const int64_t index : indices) {
    RETURN_IF_ERROR(FillRow(index, out));
    out += row_bytes;
  }
  return tensor;
}

bool ComponentAssembler::CopiesShortRows() const {
  const size_t bytes = static_cast<size_t>(source_values_) * ElementSize(source_.dtype());
  const bool converts =
      one_hot_depth_ > 0 || label_classes_ > 0 || rescale_.has_value() || !rescale_more_.empty();
  return source_.array != nullptr && !converts && (bytes == 4 || bytes == 8);
}

absl::Status ComponentAssembler::FillRow(int64_t index, std::byte* out) const {
  const int64_t range_value = source_.range_begin + index;
  const auto source_bytes = static_cast<size_t>(source_values_) * ElementSize(source_.dtype());
  // A source is an array or a range. A value of a range is computed here and converted like a row
  // of an array.
  const std::byte* const in = source_.array != nullptr
                                  ? source_.array->raw() + static_cast<size_t>(index) * source_bytes
                                  : reinterpret_cast<const std::byte*>(&range_value);
  auto* const floats = reinterpret_cast<float*>(out);
  if (one_hot_depth_ > 0) {
    RETURN_IF_ERROR(FillOneHot(index, in, floats));
  } else if (label_classes_ > 0) {
    RETURN_IF_ERROR(FillLabel(index, in, out));
  } else if (rescale_.has_value()) {
    RescaleOf(source_.dtype())(in, source_values_, rescale_->scale, rescale_->offset, floats);
  } else {
    std::memcpy(out, in, source_bytes);
  }
  // Further rescales work in place: `out` holds floats after the first rescale or one_hot.
  for (const Affine& affine : rescale_more_) {
    RescaleRow<float>(out, output_values_, affine.scale, affine.offset, floats);
  }
  return absl::OkStatus();
}

std::string ComponentAssembler::FilePhrase() const {
  return source_.from.empty() ? "" : absl::StrCat(" of ", source_.from);
}

// Checks one label and writes it to `out` as an int64.
absl::Status ComponentAssembler::FillLabel(int64_t index, const std::byte* in,
                                           std::byte* out) const {
  const auto refuse = [&](auto label) {
    return absl::InvalidArgumentError(
        absl::StrCat("the label of example ", NumberOf(index), FilePhrase(), " is ", label,
                     ", and has to be a whole number from 0 "
                     "to ",
                     label_classes_ - 1, ", as the model has ", label_classes_,
                     " classes: fix the data, "
                     "or give the last layer more units"));
  };
  int64_t label = 0;
  if (IsFloat(source_.dtype())) {
    const double value = FloatAt(source_.dtype(), in);
    // The negated comparison also refuses a label that is NaN, with which every comparison is
    // false.
    if (!(value >= 0 && value < static_cast<double>(label_classes_))) return refuse(value);
    label = static_cast<int64_t>(value);
    // A label such as 1.5 changes when it is converted to an integer, and is refused.
    if (static_cast<double>(label) != value) return refuse(value);
  } else {
    label = IntegerAt(source_.dtype(), in, 0);
    if (label < 0 || label >= label_classes_) return refuse(label);
  }
  std::memcpy(out, &label, sizeof(label));
  return absl::OkStatus();
}

absl::Status ComponentAssembler::FillOneHot(int64_t index, const std::byte* in, float* out) const {
  // The whole one-hot row is set to 0 first, because only one position per value is set to 1.
  std::fill_n(out, output_values_, 0.0f);
  if (label_classes_ > 0) {
    int64_t label = 0;
    RETURN_IF_ERROR(FillLabel(index, in, reinterpret_cast<std::byte*>(&label)));
    out[label] = 1.0f;
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < source_values_; ++i) {
    const int64_t value = IntegerAt(source_.dtype(), in, i);
    if (value < 0 || value >= one_hot_depth_) {
      return absl::InvalidArgumentError(
          absl::StrCat("one_hot of component ", component_, ": element ", NumberOf(index),
                       FilePhrase(), " has the class ", value, ", not 0 to ", one_hot_depth_ - 1,
                       ": raise depth or fix the data"));
    }
    out[i * one_hot_depth_ + value] = 1.0f;
  }
  return absl::OkStatus();
}

}  // namespace cohort
