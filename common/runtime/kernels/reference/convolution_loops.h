#pragma once

// The plain loops of a convolution and of its two gradients, for any number of axes. ConvTranspose
// computes with the same loops, because it is the gradient of a convolution with respect to its
// image. Sums are kept in double, those of one image at a time.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/runtime/kernels/window_shape.h"

namespace cohort {

namespace convolution_internal {

// A view of an array that holds `size` elements for each channel, or the window's taps for each
// pair of channels.
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

inline int64_t ChannelsIn(const ConvShape& shape) { return shape.groups * shape.inputs; }
inline int64_t ChannelsOut(const ConvShape& shape) { return shape.groups * shape.outputs; }

// Writes the bias of each channel to all elements of the channel, or 0 if there is no bias.
template <typename T>
void Begin(const T* bias, int64_t channels, const Channels<double>& sums) {
  for (int64_t c = 0; c < channels; ++c) {
    std::fill_n(sums[c], sums.size, bias == nullptr ? 0 : static_cast<double>(bias[c]));
  }
}

// Rounds the sums, which are double, to the type of the output, once for each element.
template <typename T>
void Narrow(const std::vector<double>& wide, T* out) {
  std::transform(wide.begin(), wide.end(), out, [](double value) { return static_cast<T>(value); });
}

}  // namespace convolution_internal

// The inputs of a loop. `bias` has an element for each channel of the result, or is null.
template <typename T>
struct ConvSources {
  const T* first;
  const T* second;
  const T* bias = nullptr;
};

// Writes the convolution y of x (first) with w (second).
template <typename T>
void ConvolutionLoop(const ConvShape& shape, const ConvSources<T>& sources, T* y) {
  using namespace convolution_internal;
  const Window& window = shape.window;
  const Channels<const T> taps = {sources.second, window.taps};
  std::vector<double> sums(static_cast<size_t>(ChannelsOut(shape) * window.outputs));
  const Channels<double> result = {sums.data(), window.outputs};
  for (int64_t n = 0; n < shape.batch; ++n) {
    Begin(sources.bias, ChannelsOut(shape), result);
    const Channels<const T> image = {sources.first + n * ChannelsIn(shape) * window.inputs,
                                     window.inputs};
    ForEachPair(shape, [&](int64_t output, int64_t input, int64_t pair) {
      ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
        result[output][o] += static_cast<double>(image[input][i]) * taps[pair][k];
      });
    });
    Narrow(sums, y + n * static_cast<int64_t>(sums.size()));
  }
}

// Writes the gradient of a convolution's image from dy (first) and w (second), plus the bias.
template <typename T>
void ConvolutionInputGradLoop(const ConvShape& shape, const ConvSources<T>& sources, T* dx) {
  using namespace convolution_internal;
  const Window& window = shape.window;
  const Channels<const T> taps = {sources.second, window.taps};
  std::vector<double> sums(static_cast<size_t>(ChannelsIn(shape) * window.inputs));
  const Channels<double> result = {sums.data(), window.inputs};
  for (int64_t n = 0; n < shape.batch; ++n) {
    Begin(sources.bias, ChannelsIn(shape), result);
    const Channels<const T> grad = {sources.first + n * ChannelsOut(shape) * window.outputs,
                                    window.outputs};
    ForEachPair(shape, [&](int64_t output, int64_t input, int64_t pair) {
      ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
        result[input][i] += static_cast<double>(grad[output][o]) * taps[pair][k];
      });
    });
    Narrow(sums, dx + n * static_cast<int64_t>(sums.size()));
  }
}

// Writes the gradient of a convolution's weights, which have `weights` elements, from dy (first)
// and x (second). It is a sum over all images of the batch.
template <typename T>
void ConvolutionWeightGradLoop(const ConvShape& shape, const ConvSources<T>& sources,
                               int64_t weights, T* dw) {
  using namespace convolution_internal;
  const Window& window = shape.window;
  std::vector<double> sums(static_cast<size_t>(weights), 0.0);
  const Channels<double> result = {sums.data(), window.taps};
  for (int64_t n = 0; n < shape.batch; ++n) {
    const Channels<const T> grad = {sources.first + n * ChannelsOut(shape) * window.outputs,
                                    window.outputs};
    const Channels<const T> image = {sources.second + n * ChannelsIn(shape) * window.inputs,
                                     window.inputs};
    ForEachPair(shape, [&](int64_t output, int64_t input, int64_t pair) {
      ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
        result[pair][k] += static_cast<double>(grad[output][o]) * image[input][i];
      });
    });
  }
  Narrow(sums, dw);
}

}  // namespace cohort
