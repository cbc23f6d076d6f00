// Compiled without fused multiplications (CMakeLists.txt), whose last bits would differ.

#include "common/images/resize_image.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// The source of one row or column of the result: the neighbours and, for bilinear, the weight of
// the upper one.
struct Taps {
  int64_t lower = 0;
  int64_t upper = 0;
  float weight = 0;
};

// The four neighbours of a place and their weights.
struct CubicTaps {
  std::array<int64_t, 4> at = {};
  std::array<float, 4> weights = {};
};

constexpr int64_t kCubicSteps = 1024;

// Returns where pixel `i` of the result lies in the source: centers map to centers.
float PlaceOf(int64_t i, float scale) { return (static_cast<float>(i) + 0.5f) * scale - 0.5f; }

float ScaleOf(int64_t in, int64_t out) { return static_cast<float>(in) / static_cast<float>(out); }

std::vector<Taps> LinearTaps(int64_t in, int64_t out) {
  std::vector<Taps> taps(static_cast<size_t>(out));
  const float scale = ScaleOf(in, out);
  for (int64_t i = 0; i < out; ++i) {
    const float place = PlaceOf(i, scale);
    const float floor = std::floor(place);
    taps[static_cast<size_t>(i)] = {
        std::max<int64_t>(static_cast<int64_t>(floor), 0),
        std::min<int64_t>(static_cast<int64_t>(std::ceil(place)), in - 1), place - floor};
  }
  return taps;
}

std::vector<int64_t> NearestTaps(int64_t in, int64_t out) {
  std::vector<int64_t> taps;
  const float scale = ScaleOf(in, out);
  for (int64_t i = 0; i < out; ++i) {
    const auto place = static_cast<int64_t>(std::floor((static_cast<float>(i) + 0.5f) * scale));
    taps.push_back(std::clamp<int64_t>(place, 0, in - 1));
  }
  return taps;
}

// The weights of Keys's cubic for distances 0 to 1 and 1 to 2, in kCubicSteps steps, as TensorFlow
// computes them: in double, then rounded.
const std::vector<std::array<float, 2>>& CubicTable() {
  static const auto* const table = [] {
    constexpr double kA = -0.5;
    auto* const made = new std::vector<std::array<float, 2>>;
    for (int64_t i = 0; i <= kCubicSteps; ++i) {
      const double near = static_cast<double>(i) / static_cast<double>(kCubicSteps);
      const double far = near + 1;
      made->push_back({static_cast<float>(((kA + 2) * near - (kA + 3)) * near * near + 1),
                       static_cast<float>(((kA * far - 5 * kA) * far + 8 * kA) * far - 4 * kA)});
    }
    return made;
  }();
  return *table;
}

std::vector<CubicTaps> CubicTapsOf(int64_t in, int64_t out) {
  const auto& table = CubicTable();
  const float scale = ScaleOf(in, out);
  std::vector<CubicTaps> all(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const float place = PlaceOf(i, scale);
    const auto first = static_cast<int64_t>(std::floor(place));
    const float delta = place - static_cast<float>(first);
    const auto step = static_cast<size_t>(std::lrint(delta * static_cast<float>(kCubicSteps)));
    const size_t back = static_cast<size_t>(kCubicSteps) - step;
    CubicTaps& taps = all[static_cast<size_t>(i)];
    taps.weights = {table[step][1], table[step][0], table[back][0], table[back][1]};
    float sum = 0;
    for (size_t tap = 0; tap < 4; ++tap) {
      const int64_t at = first - 1 + static_cast<int64_t>(tap);
      taps.at[tap] = std::clamp<int64_t>(at, 0, in - 1);
      // Places outside the image do not count, and the other weights are made to sum to 1.
      if (taps.at[tap] != at) taps.weights[tap] = 0;
      sum += taps.weights[tap];
    }
    if (std::abs(sum) >= 1000.0f * std::numeric_limits<float>::min()) {
      const float factor = 1.0f / sum;
      for (float& weight : taps.weights) weight *= factor;
    }
  }
  return all;
}

template <typename T>
void Bilinear(const T* in, const Shape& shape, int64_t rows, int64_t columns, float* out) {
  const std::vector<Taps> down = LinearTaps(shape.dim(0), rows);
  const std::vector<Taps> across = LinearTaps(shape.dim(1), columns);
  const int64_t channels = shape.dim(2);
  const int64_t row_size = shape.dim(1) * channels;
  for (const Taps& y : down) {
    const T* const top = in + y.lower * row_size;
    const T* const bottom = in + y.upper * row_size;
    for (const Taps& x : across) {
      const int64_t left = x.lower * channels;
      const int64_t right = x.upper * channels;
      for (int64_t c = 0; c < channels; ++c) {
        const auto top_left = static_cast<float>(top[left + c]);
        const auto top_right = static_cast<float>(top[right + c]);
        const auto bottom_left = static_cast<float>(bottom[left + c]);
        const auto bottom_right = static_cast<float>(bottom[right + c]);
        const float upper = top_left + (top_right - top_left) * x.weight;
        const float lower = bottom_left + (bottom_right - bottom_left) * x.weight;
        *out++ = upper + (lower - upper) * y.weight;
      }
    }
  }
}

template <typename T>
void Bicubic(const T* in, const Shape& shape, int64_t rows, int64_t columns, float* out) {
  const std::vector<CubicTaps> down = CubicTapsOf(shape.dim(0), rows);
  const std::vector<CubicTaps> across = CubicTapsOf(shape.dim(1), columns);
  const int64_t channels = shape.dim(2);
  const int64_t row_size = shape.dim(1) * channels;
  const auto joined = [](const std::array<float, 4>& values, const std::array<float, 4>& weights) {
    return values[0] * weights[0] + values[1] * weights[1] + values[2] * weights[2] +
           values[3] * weights[3];
  };
  for (const CubicTaps& y : down) {
    for (const CubicTaps& x : across) {
      for (int64_t c = 0; c < channels; ++c) {
        std::array<float, 4> columns_at{};
        for (size_t i = 0; i < 4; ++i) {
          std::array<float, 4> values{};
          for (size_t j = 0; j < 4; ++j) {
            values[j] = static_cast<float>(in[y.at[j] * row_size + x.at[i] * channels + c]);
          }
          columns_at[i] = joined(values, y.weights);
        }
        *out++ = joined(columns_at, x.weights);
      }
    }
  }
}

Tensor Nearest(const Tensor& image, int64_t rows, int64_t columns) {
  const Shape& shape = image.shape();
  const std::vector<int64_t> down = NearestTaps(shape.dim(0), rows);
  const std::vector<int64_t> across = NearestTaps(shape.dim(1), columns);
  const size_t pixel = ElementSize(image.dtype()) * static_cast<size_t>(shape.dim(2));
  Tensor resized(image.dtype(), {rows, columns, shape.dim(2)});
  std::byte* out = resized.mutable_raw();
  for (const int64_t y : down) {
    for (const int64_t x : across) {
      std::memcpy(out, image.raw() + static_cast<size_t>(y * shape.dim(1) + x) * pixel, pixel);
      out += pixel;
    }
  }
  return resized;
}

}  // namespace

absl::StatusOr<Tensor> ResizeImage(const Tensor& image, int64_t rows, int64_t columns,
                                   ResizeMethod method) {
  const Shape& shape = image.shape();
  const bool is_pixels = image.dtype() == DType::kUint8 || image.dtype() == DType::kFloat32;
  if (!is_pixels || shape.rank() != 3 || image.num_elements() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        image.TypeString(), " is no image, uint8 or float32 [rows, columns, channels]"));
  }
  constexpr int64_t kSizeMax = 1 << 20;
  if (rows < 1 || columns < 1 || rows > kSizeMax || columns > kSizeMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("an image cannot be resized to ", rows, " x ", columns));
  }
  if (method == ResizeMethod::kNearest) return Nearest(image, rows, columns);
  Tensor resized(DType::kFloat32, {rows, columns, shape.dim(2)});
  auto* const out = reinterpret_cast<float*>(resized.mutable_raw());
  const auto resize = [&](const auto* in) {
    if (method == ResizeMethod::kBilinear) return Bilinear(in, shape, rows, columns, out);
    Bicubic(in, shape, rows, columns, out);
  };
  if (image.dtype() == DType::kUint8) {
    resize(image.span<uint8_t>().data());
  } else {
    resize(image.span<float>().data());
  }
  return resized;
}

Tensor RoundToPixels(const Tensor& image) {
  Tensor pixels(DType::kUint8, image.shape());
  auto* out = reinterpret_cast<uint8_t*>(pixels.mutable_raw());
  for (const float value : image.span<float>()) {
    // Comparisons with a NaN are false, so it becomes 0.
    const float rounded = std::nearbyint(value);
    *out++ = !(rounded > 0) ? 0 : rounded > 255 ? 255 : static_cast<uint8_t>(rounded);
  }
  return pixels;
}

Tensor CropImage(const Tensor& image, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  const Shape& shape = image.shape();
  const size_t pixel = ElementSize(image.dtype()) * static_cast<size_t>(shape.dim(2));
  Tensor part(image.dtype(), {rows, columns, shape.dim(2)});
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(part.mutable_raw() + static_cast<size_t>(i * columns) * pixel,
                image.raw() + static_cast<size_t>((row + i) * shape.dim(1) + column) * pixel,
                static_cast<size_t>(columns) * pixel);
  }
  return part;
}

}  // namespace cohort
