// LayerNormalization, InstanceNormalization, GroupNormalization and their gradients in float32. The
// rows of the latter two have runs of equal scale, for which the loops over channels are made: such
// a row is an image of one example, whose channels have one mean.

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/image_loops.h"
#include "common/runtime/kernels/cpu/norm_loops.h"
#include "common/runtime/kernels/row_norm_shape.h"

namespace cohort {

namespace {

// The number of rows whose gradients of scale and bias are added up in float32 before they are
// added to sums in double.
constexpr int64_t kRowsPerSum = 64;

float RateOf(const RowMoments& moments, float epsilon) {
  return static_cast<float>(1 / std::sqrt(moments.variance + static_cast<double>(epsilon)));
}

bool RunLayerNorm(KernelContext& context, const LayerNormParameters& parameters) {
  const Tensor x = context.input(0);
  const Tensor scale = context.input(1);
  const Tensor bias = InputOr(context, 2);
  const absl::StatusOr<RowNormShape> shape = ResolveLayerNorm(x, {scale, bias}, parameters);
  if (!shape.ok() || !IsFloat32(x) || x.num_elements() == 0 || !context.output_wanted(0)) {
    return false;
  }
  float* const y = context.Output(0, DType::kFloat32, x.shape()).mutable_data<float>();
  float* statistics[2] = {nullptr, nullptr};
  for (const int output : {1, 2}) {
    if (!context.output_wanted(output)) continue;
    statistics[output - 1] =
        context.Output(output, DType::kFloat32, shape->statistics).mutable_data<float>();
  }
  const float* const shift = bias.has_value() ? bias.data<float>() : nullptr;
  for (int64_t r = 0; r < shape->rows; ++r) {
    const float* const row = x.data<float>() + r * shape->size;
    const RowMoments moments = MomentsOf(row, shape->size);
    const RowNorm norm = {static_cast<float>(moments.mean), RateOf(moments, parameters.epsilon),
                          scale.data<float>()};
    if (statistics[0] != nullptr) statistics[0][r] = norm.mean;
    if (statistics[1] != nullptr) statistics[1][r] = norm.rate;
    NormalizeRow(norm, shift, row, shape->size, y + r * shape->size);
  }
  return true;
}

// The gradients of scale and bias, added up in double. Thread-compatible.
class ScaleGradients {
 public:
  explicit ScaleGradients(int64_t size)
      : scale_(static_cast<size_t>(size), 0.0),
        bias_(scale_),
        part_scale_(scale_.size(), 0.0f),
        part_bias_(part_scale_) {}

  void Add(const RowNorm& norm, const RowPair& row) {
    AddScaleGradients(norm, row, static_cast<int64_t>(scale_.size()),
                      {part_scale_.data(), part_bias_.data()});
    if (++rows_ % kRowsPerSum == 0) Flush();
  }
  // Writes outputs 1 and 2, those that are wanted.
  void Put(KernelContext& context, const Shape& shape) {
    Flush();
    for (const int output : {1, 2}) {
      if (!context.output_wanted(output)) continue;
      float* out = context.Output(output, DType::kFloat32, shape).mutable_data<float>();
      for (const double sum : output == 1 ? scale_ : bias_) *out++ = static_cast<float>(sum);
    }
  }

 private:
  void Flush() {
    for (size_t i = 0; i < scale_.size(); ++i) {
      scale_[i] += static_cast<double>(part_scale_[i]);
      bias_[i] += static_cast<double>(part_bias_[i]);
    }
    std::fill(part_scale_.begin(), part_scale_.end(), 0.0f);
    std::fill(part_bias_.begin(), part_bias_.end(), 0.0f);
  }

  std::vector<double> scale_;
  std::vector<double> bias_;
  std::vector<float> part_scale_;
  std::vector<float> part_bias_;
  int64_t rows_ = 0;
};

bool RunLayerNormGrad(KernelContext& context, const LayerNormParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor x = context.input(1);
  const Tensor scale = context.input(2);
  const Tensor mean = InputOr(context, 3);
  const Tensor rate = InputOr(context, 4);
  const absl::StatusOr<RowNormShape> shape = ResolveLayerNorm(x, {scale}, parameters);
  if (!shape.ok() || !AreFloat32Twins(dy, x) || x.num_elements() == 0 ||
      !CheckStatistics(mean, rate, *shape).ok()) {
    return false;
  }
  const bool sums = context.output_wanted(1) || context.output_wanted(2);
  ScaleGradients gradients(sums ? shape->size : 0);
  float* const dx = context.output_wanted(0)
                        ? context.Output(0, DType::kFloat32, x.shape()).mutable_data<float>()
                        : nullptr;
  for (int64_t r = 0; r < shape->rows; ++r) {
    const int64_t first = r * shape->size;
    const RowPair row = {dy.data<float>() + first, x.data<float>() + first};
    RowNorm norm = {0, 0, scale.data<float>()};
    if (mean.has_value()) {
      norm.mean = mean.data<float>()[r];
      norm.rate = rate.data<float>()[r];
    } else {
      const RowMoments moments = MomentsOf(row.x, shape->size);
      norm.mean = static_cast<float>(moments.mean);
      norm.rate = RateOf(moments, parameters.epsilon);
    }
    if (sums) gradients.Add(norm, row);
    if (dx != nullptr) NormalizeRowGradient(norm, row, shape->size, dx + first);
  }
  if (sums) gradients.Put(context, scale.shape());
  return true;
}

// Returns one row of a normalization in groups, as an image of one example.
BatchNormShape ImageOf(const RowNormShape& shape) {
  return {1, shape.RowScales(), shape.inner, shape.inner};
}

bool RunGroupNorm(KernelContext& context, const GroupNormParameters& parameters) {
  const Tensor x = context.input(0);
  const Tensor scale = context.input(1);
  const Tensor bias = context.input(2);
  const absl::StatusOr<RowNormShape> shape = ResolveGroupNorm(x, {scale, bias}, parameters);
  if (!shape.ok() || !IsFloat32(x) || x.num_elements() == 0) return false;
  float* const y = context.Output(0, DType::kFloat32, x.shape()).mutable_data<float>();
  const BatchNormShape image = ImageOf(*shape);
  std::vector<float> centers(static_cast<size_t>(image.channels));
  std::vector<float> factors(centers.size());
  for (int64_t r = 0; r < shape->rows; ++r) {
    const float* const row = x.data<float>() + r * shape->size;
    const int64_t first = shape->FirstScale(r);
    const RowMoments moments = MomentsOf(row, shape->size);
    const float rate = RateOf(moments, parameters.epsilon);
    std::fill(centers.begin(), centers.end(), static_cast<float>(moments.mean));
    for (size_t c = 0; c < factors.size(); ++c) {
      factors[c] = rate * scale.data<float>()[first + static_cast<int64_t>(c)];
    }
    MapChannels(image, {centers.data(), factors.data(), bias.data<float>() + first}, row,
                y + r * shape->size);
  }
  return true;
}

// Computes the gradients of GroupNormalization by the formulas in reference/layer_norm.cc. The sums
// over a row are sums over its channels. Thread-compatible.
class GroupNormGradient {
 public:
  GroupNormGradient(const RowNormShape& shape, const Tensor& scale, float epsilon)
      : shape_(shape),
        image_(ImageOf(shape)),
        scale_(scale.data<float>()),
        epsilon_(epsilon),
        dscale_(static_cast<size_t>(scale.num_elements()), 0.0),
        dbias_(dscale_),
        sums_(static_cast<size_t>(image_.channels)),
        products_(sums_),
        centers_(sums_.size()),
        factors_(sums_.size()),
        shifts_(sums_.size()),
        rates_(sums_.size()) {}

  void RunRow(int64_t r, const RowPair& row, float* dx) {
    const auto first = static_cast<size_t>(shape_.FirstScale(r));
    const RowMoments moments = MomentsOf(row.x, shape_.size);
    const double rate = 1 / std::sqrt(moments.variance + static_cast<double>(epsilon_));
    std::fill(centers_.begin(), centers_.end(), static_cast<float>(moments.mean));
    SumChannelGradients(image_, row.dy, row.x, centers_.data(), {sums_.data(), products_.data()});
    double sum = 0;
    double product = 0;
    for (size_t c = 0; c < sums_.size(); ++c) {
      const double each = static_cast<double>(scale_[first + c]);
      dscale_[first + c] += products_[c] * rate;
      dbias_[first + c] += sums_[c];
      sum += each * sums_[c];
      product += each * products_[c] * rate;
      rates_[c] = static_cast<float>(rate * each);
    }
    const double share = rate / static_cast<double>(shape_.size);
    std::fill(factors_.begin(), factors_.end(), static_cast<float>(-share * rate * product));
    std::fill(shifts_.begin(), shifts_.end(), static_cast<float>(-share * sum));
    MapChannelGradients(image_, {centers_.data(), factors_.data(), shifts_.data()}, rates_.data(),
                        row.dy, row.x, dx);
  }

  // Writes outputs 1 and 2, those that are wanted.
  void PutScales(KernelContext& context, const Shape& shape) const {
    for (const int output : {1, 2}) {
      if (!context.output_wanted(output)) continue;
      float* out = context.Output(output, DType::kFloat32, shape).mutable_data<float>();
      for (const double each : output == 1 ? dscale_ : dbias_) *out++ = static_cast<float>(each);
    }
  }

 private:
  const RowNormShape& shape_;
  const BatchNormShape image_;
  const float* const scale_;
  const float epsilon_;
  std::vector<double> dscale_;
  std::vector<double> dbias_;
  // Numbers of the channels of one row.
  std::vector<double> sums_;
  std::vector<double> products_;
  std::vector<float> centers_;
  std::vector<float> factors_;
  std::vector<float> shifts_;
  std::vector<float> rates_;
};

bool RunGroupNormGrad(KernelContext& context, const GroupNormParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor x = context.input(1);
  const Tensor scale = context.input(2);
  const absl::StatusOr<RowNormShape> shape = ResolveGroupNorm(x, {scale}, parameters);
  if (!shape.ok() || !AreFloat32Twins(dy, x) || x.num_elements() == 0 ||
      !context.output_wanted(0)) {
    return false;
  }
  float* const dx = context.Output(0, DType::kFloat32, x.shape()).mutable_data<float>();
  GroupNormGradient gradient(*shape, scale, parameters.epsilon);
  for (int64_t r = 0; r < shape->rows; ++r) {
    const int64_t begin = r * shape->size;
    gradient.RunRow(r, {dy.data<float>() + begin, x.data<float>() + begin}, dx + begin);
  }
  gradient.PutScales(context, scale.shape());
  return true;
}

}  // namespace

void RegisterCpuLayerNorm(const CpuRegistration& registration) {
  registration.Add("", "LayerNormalization", ParseLayerNorm, RunLayerNorm);
  registration.Add("cohort", "LayerNormalizationGrad", ParseLayerNormGrad, RunLayerNormGrad);
  registration.Add("", "InstanceNormalization", ParseInstanceNorm, RunGroupNorm);
  registration.Add("cohort", "GroupNormalization", ParseGroupNorm, RunGroupNorm);
  registration.Add("cohort", "GroupNormalizationGrad", ParseGroupNorm, RunGroupNormGrad);
}

}  // namespace cohort
