#include <algorithm>
#include <vector>

#include "common/runtime/kernels/reference/reference_kernels.h"
#include "common/runtime/kernels/window_shape.h"

namespace cohort {

namespace {

// A view of an array by channels. It holds `size` elements for each channel of an image, or a
// window's taps for each pair of channels of the weights.
template <typename T>
struct Channels {
  T* data;
  int64_t size;
  T* operator[](int64_t channel) const { return data + channel * size; }
};

// Calls visit(channel of y, channel of x, number of the pair) for each pair of an output and an
// input channel in the same group. The pair's number finds its taps in the weights.
template <typename Visit>
void ForEachPair(const ConvShape& shape, Visit&& visit) {
  for (int64_t output = 0; output < shape.groups * shape.outputs; ++output) {
    const int64_t first = output / shape.outputs * shape.inputs;
    for (int64_t input = 0; input < shape.inputs; ++input) {
      visit(output, first + input, output * shape.inputs + input);
    }
  }
}

int64_t ChannelsIn(const ConvShape& shape) { return shape.groups * shape.inputs; }
int64_t ChannelsOut(const ConvShape& shape) { return shape.groups * shape.outputs; }

// Rounds the elements of `wide` to the type of the output. Each result is thus rounded only once,
// after all additions.
template <typename T>
void Narrow(const std::vector<double>& wide, T* out) {
  std::transform(wide.begin(), wide.end(), out, [](double value) { return static_cast<T>(value); });
}

absl::Status RunConv(KernelContext& context, const ConvParameters& parameters) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const Tensor& bias = context.input(2);
  RETURN_IF_ERROR(RequireSameType(x, w));
  ASSIGN_OR_RETURN(const ConvShape shape, ResolveConv(x.shape(), w.shape(), parameters));
  RETURN_IF_ERROR(CheckConvBias(w, bias));
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, x.dtype(), shape.y).template mutable_data<T>();
    const Window& window = shape.window;
    const Channels<const T> taps = {w.data<T>(), window.taps};
    std::vector<double> sums(static_cast<size_t>(ChannelsOut(shape) * window.outputs));
    const Channels<double> y = {sums.data(), window.outputs};
    // `sums` holds the results of one image at a time, in double.
    for (int64_t n = 0; n < shape.batch; ++n) {
      for (int64_t c = 0; c < ChannelsOut(shape); ++c) {
        const double start = bias.has_value() ? static_cast<double>(bias.data<T>()[c]) : 0;
        std::fill_n(y[c], window.outputs, start);
      }
      const Channels<const T> image = {x.data<T>() + n * ChannelsIn(shape) * window.inputs,
                                       window.inputs};
      ForEachPair(shape, [&](int64_t output, int64_t input, int64_t pair) {
        ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
          y[output][o] += static_cast<double>(image[input][i]) * taps[pair][k];
        });
      });
      Narrow(sums, out + n * static_cast<int64_t>(sums.size()));
    }
    return absl::OkStatus();
  });
}

absl::Status RunConvInputGrad(KernelContext& context, const ConvParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& w = context.input(1);
  const Shape& x = context.input(2).shape();
  RETURN_IF_ERROR(RequireSameType(dy, w));
  ASSIGN_OR_RETURN(const ConvShape shape, ResolveConvGrad(dy, x, w.shape(), parameters));
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, dy.dtype(), x).template mutable_data<T>();
    const Window& window = shape.window;
    const Channels<const T> taps = {w.data<T>(), window.taps};
    std::vector<double> sums(static_cast<size_t>(ChannelsIn(shape) * window.inputs));
    const Channels<double> dx = {sums.data(), window.inputs};
    for (int64_t n = 0; n < shape.batch; ++n) {
      std::fill(sums.begin(), sums.end(), 0.0);
      const Channels<const T> grad = {dy.data<T>() + n * ChannelsOut(shape) * window.outputs,
                                      window.outputs};
      ForEachPair(shape, [&](int64_t output, int64_t input, int64_t pair) {
        ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
          dx[input][i] += static_cast<double>(grad[output][o]) * taps[pair][k];
        });
      });
      Narrow(sums, out + n * static_cast<int64_t>(sums.size()));
    }
    return absl::OkStatus();
  });
}

absl::Status RunConvWeightGrad(KernelContext& context, const ConvParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  const Shape& w = context.input(2).shape();
  RETURN_IF_ERROR(RequireSameType(dy, x));
  ASSIGN_OR_RETURN(const ConvShape shape, ResolveConvGrad(dy, x.shape(), w, parameters));
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, dy.dtype(), w).template mutable_data<T>();
    const Window& window = shape.window;
    // A weight's gradient is a sum over all images of the batch.
    std::vector<double> sums(static_cast<size_t>(w.num_elements()), 0.0);
    const Channels<double> dw = {sums.data(), window.taps};
    for (int64_t n = 0; n < shape.batch; ++n) {
      const Channels<const T> grad = {dy.data<T>() + n * ChannelsOut(shape) * window.outputs,
                                      window.outputs};
      const Channels<const T> image = {x.data<T>() + n * ChannelsIn(shape) * window.inputs,
                                       window.inputs};
      ForEachPair(shape, [&](int64_t output, int64_t input, int64_t pair) {
        ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
          dw[pair][k] += static_cast<double>(grad[output][o]) * image[input][i];
        });
      });
    }
    Narrow(sums, out);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceConvolution(KernelRegistry& registry) {
  registry.Add("", "Conv", BoundKernel<ConvParameters>({2, 3, {kFloats}}, ParseConv, RunConv));
  // The last input of a gradient kernel is read only for its shape.
  registry.Add("cohort", "ConvInputGrad",
               BoundKernel<ConvParameters>({3, 3, {kFloats, kFloats, kAnyType}}, ParseConv,
                                           RunConvInputGrad));
  registry.Add("cohort", "ConvWeightGrad",
               BoundKernel<ConvParameters>({3, 3, {kFloats, kFloats, kAnyType}}, ParseConv,
                                           RunConvWeightGrad));
}

}  // namespace cohort
