// LayerNormalization, InstanceNormalization, GroupNormalization and their gradients.

#include <cmath>
#include <vector>

#include "common/runtime/kernels/reference/reference_kernels.h"
#include "common/runtime/kernels/row_norm_shape.h"

namespace cohort {

namespace {

// The mean of a row and its rate, the inverse of the deviation.
struct RowStatistics {
  double mean = 0;
  double rate = 0;
};

// Computes mean and variance in two passes, since a variance from squared differences loses fewer
// digits.
template <typename T>
RowStatistics StatisticsOf(const T* row, int64_t size, double epsilon) {
  RowStatistics statistics;
  for (int64_t i = 0; i < size; ++i) statistics.mean += static_cast<double>(row[i]);
  statistics.mean /= static_cast<double>(size);
  double variance = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double off = static_cast<double>(row[i]) - statistics.mean;
    variance += off * off;
  }
  statistics.rate = 1 / std::sqrt(variance / static_cast<double>(size) + epsilon);
  return statistics;
}

// Allocates a float32 output for the statistics, and returns nullptr if it is not wanted.
float* StatisticsOutput(KernelContext& context, int output, const RowNormShape& shape) {
  if (!context.output_wanted(output)) return nullptr;
  return context.Output(output, DType::kFloat32, shape.statistics).mutable_data<float>();
}

// Runs the normalization of the rows of input 0 with the scale and the bias.
absl::Status RunForward(KernelContext& context, const RowNormShape& shape, double epsilon) {
  const Tensor& x = context.input(0);
  const Tensor& scale = context.input(1);
  const Tensor& bias = InputOr(context, 2);
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* row = x.data<T>();
    const T* shifts = bias.has_value() ? bias.data<T>() : nullptr;
    T* y = context.output_wanted(0)
               ? context.Output(0, x.dtype(), x.shape()).template mutable_data<T>()
               : nullptr;
    float* means = StatisticsOutput(context, 1, shape);
    float* rates = StatisticsOutput(context, 2, shape);
    for (int64_t r = 0; r < shape.rows; ++r, row += shape.size) {
      const RowStatistics statistics = StatisticsOf(row, shape.size, epsilon);
      if (means != nullptr) means[r] = static_cast<float>(statistics.mean);
      if (rates != nullptr) rates[r] = static_cast<float>(statistics.rate);
      for (int64_t i = 0; i < shape.size && y != nullptr; ++i) {
        const int64_t at = shape.FirstScale(r) + i / shape.inner;
        const double z = (static_cast<double>(row[i]) - statistics.mean) * statistics.rate;
        const double shift = shifts == nullptr ? 0 : static_cast<double>(shifts[at]);
        *y++ = static_cast<T>(z * static_cast<double>(scale.data<T>()[at]) + shift);
      }
    }
    return absl::OkStatus();
  });
}

// Writes an output of the shape of the scale, if it is wanted.
template <typename T>
void PutSums(KernelContext& context, int output, const Tensor& like,
             const std::vector<double>& sums) {
  if (!context.output_wanted(output)) return;
  T* out = context.Output(output, like.dtype(), like.shape()).template mutable_data<T>();
  for (const double sum : sums) *out++ = static_cast<T>(sum);
}

// Computes the gradients of a normalization of rows. With z = (x - mean) * rate and g = dy * scale,
// dx = rate * (g - mean(g) - z * mean(g * z)), dscale = sum(dy * z) and dbias = sum(dy). The
// statistics come from `given`, or from x if `given` is null. Thread-compatible.
template <typename T>
class RowNormGradient {
 public:
  using Given = RowStatistics (*)(const KernelContext& context, int64_t row);

  RowNormGradient(KernelContext& context, const RowNormShape& shape, double epsilon, Given given)
      : context_(context),
        shape_(shape),
        epsilon_(epsilon),
        given_(given),
        dy_(context.input(0)),
        x_(context.input(1)),
        scale_(context.input(2)),
        dscale_(static_cast<size_t>(scale_.num_elements()), 0.0),
        dbias_(dscale_) {}

  void Run() {
    T* dx = context_.output_wanted(0)
                ? context_.Output(0, x_.dtype(), x_.shape()).template mutable_data<T>()
                : nullptr;
    for (int64_t r = 0; r < shape_.rows; ++r) {
      RunRow(r, dx == nullptr ? nullptr : dx + r * shape_.size);
    }
    PutSums<T>(context_, 1, scale_, dscale_);
    PutSums<T>(context_, 2, scale_, dbias_);
  }

 private:
  void RunRow(int64_t r, T* dx) {
    const T* x = x_.data<T>() + r * shape_.size;
    const T* dy = dy_.data<T>() + r * shape_.size;
    const RowStatistics statistics =
        given_ == nullptr ? StatisticsOf(x, shape_.size, epsilon_) : given_(context_, r);
    const auto z = [&](int64_t i) {
      return (static_cast<double>(x[i]) - statistics.mean) * statistics.rate;
    };
    const auto scale_at = [&](int64_t i) { return shape_.FirstScale(r) + i / shape_.inner; };
    const auto g = [&](int64_t i) {
      return static_cast<double>(dy[i]) * static_cast<double>(scale_.data<T>()[scale_at(i)]);
    };
    double sum = 0;
    double product = 0;
    for (int64_t i = 0; i < shape_.size; ++i) {
      sum += g(i);
      product += g(i) * z(i);
      dbias_[static_cast<size_t>(scale_at(i))] += static_cast<double>(dy[i]);
      dscale_[static_cast<size_t>(scale_at(i))] += static_cast<double>(dy[i]) * z(i);
    }
    const double share = 1 / static_cast<double>(shape_.size);
    for (int64_t i = 0; i < shape_.size && dx != nullptr; ++i) {
      dx[i] = static_cast<T>(statistics.rate * (g(i) - (sum + z(i) * product) * share));
    }
  }

  KernelContext& context_;
  const RowNormShape& shape_;
  const double epsilon_;
  const Given given_;
  const Tensor dy_;
  const Tensor x_;
  const Tensor scale_;
  std::vector<double> dscale_;
  std::vector<double> dbias_;
};

absl::Status RunLayerNorm(KernelContext& context, const LayerNormParameters& parameters) {
  ASSIGN_OR_RETURN(
      const RowNormShape shape,
      ResolveLayerNorm(context.input(0), {context.input(1), InputOr(context, 2)}, parameters));
  return RunForward(context, shape, static_cast<double>(parameters.epsilon));
}

absl::Status RunGroupNorm(KernelContext& context, const GroupNormParameters& parameters) {
  ASSIGN_OR_RETURN(
      const RowNormShape shape,
      ResolveGroupNorm(context.input(0), {context.input(1), context.input(2)}, parameters));
  return RunForward(context, shape, static_cast<double>(parameters.epsilon));
}

absl::Status CheckGradient(const KernelContext& context) {
  RETURN_IF_ERROR(RequireSameType(context.input(0), context.input(1)));
  return RequireSameShape(context.input(0), context.input(1));
}

absl::Status RunLayerNormGrad(KernelContext& context, const LayerNormParameters& parameters) {
  RETURN_IF_ERROR(CheckGradient(context));
  ASSIGN_OR_RETURN(const RowNormShape shape,
                   ResolveLayerNorm(context.input(1), {context.input(2)}, parameters));
  const Tensor& mean = InputOr(context, 3);
  RETURN_IF_ERROR(CheckStatistics(mean, InputOr(context, 4), shape));
  const auto given = [](const KernelContext& from, int64_t row) {
    return RowStatistics{static_cast<double>(from.input(3).data<float>()[row]),
                         static_cast<double>(from.input(4).data<float>()[row])};
  };
  return DispatchFloats(context.input(1), [&](auto tag) {
    using Gradient = RowNormGradient<typename decltype(tag)::Type>;
    const auto statistics = mean.has_value() ? typename Gradient::Given(given) : nullptr;
    Gradient(context, shape, static_cast<double>(parameters.epsilon), statistics).Run();
    return absl::OkStatus();
  });
}

absl::Status RunGroupNormGrad(KernelContext& context, const GroupNormParameters& parameters) {
  RETURN_IF_ERROR(CheckGradient(context));
  ASSIGN_OR_RETURN(const RowNormShape shape,
                   ResolveGroupNorm(context.input(1), {context.input(2)}, parameters));
  return DispatchFloats(context.input(1), [&](auto tag) {
    using Gradient = RowNormGradient<typename decltype(tag)::Type>;
    Gradient(context, shape, static_cast<double>(parameters.epsilon), nullptr).Run();
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceLayerNorm(KernelRegistry& registry) {
  registry.Add(
      "", "LayerNormalization",
      BoundKernel<LayerNormParameters>({2, 3, {kFloats}, 3}, ParseLayerNorm, RunLayerNorm));
  registry.Add(
      "cohort", "LayerNormalizationGrad",
      BoundKernel<LayerNormParameters>({3, 5, {kFloats, kFloats, kFloats, {DType::kFloat32}}, 3},
                                       ParseLayerNormGrad, RunLayerNormGrad));
  registry.Add(
      "", "InstanceNormalization",
      BoundKernel<GroupNormParameters>({3, 3, {kFloats}}, ParseInstanceNorm, RunGroupNorm));
  registry.Add("cohort", "GroupNormalization",
               BoundKernel<GroupNormParameters>({3, 3, {kFloats}}, ParseGroupNorm, RunGroupNorm));
  registry.Add(
      "cohort", "GroupNormalizationGrad",
      BoundKernel<GroupNormParameters>({3, 3, {kFloats}, 3}, ParseGroupNorm, RunGroupNormGrad));
}

}  // namespace cohort
