// The values of .npz and safetensors.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/formats/weights/weight_sources.h"

namespace cohort {

namespace {

// The tensors of one file. Thread-safe.
class TensorSource final : public WeightSource {
 public:
  explicit TensorSource(std::unique_ptr<TensorFile> file) : file_(std::move(file)) {}
  absl::StatusOr<Tensor> Read(size_t index) const override { return file_->Read(index); }

 private:
  const std::unique_ptr<TensorFile> file_;
};

}  // namespace

std::string WithoutOutput(absl::string_view name) {
  return std::string(absl::StripSuffix(name, ":0"));
}

WeightFile WeightsOfTensors(std::unique_ptr<TensorFile> file) {
  WeightFile weights;
  for (const FileTensor& tensor : file->tensors()) {
    WeightEntry entry;
    entry.name = tensor.name;
    entry.variable = WithoutOutput(tensor.name);
    entry.dtype = tensor.dtype;
    entry.shape = tensor.shape;
    if (tensor.dtype == DType::kUndefined) {
      weights.left_out.push_back(absl::StrCat(tensor.name, " (", tensor.stored_type, ")"));
    }
    weights.entries.push_back(std::move(entry));
  }
  weights.source = std::make_unique<TensorSource>(std::move(file));
  return weights;
}

}  // namespace cohort
