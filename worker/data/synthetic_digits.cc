#include "worker/data/synthetic_digits.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"

namespace cohort {

namespace {

struct Point {
  float x = 0;
  float y = 0;
};

// The outline of a digit: points in a box of width 1 and height 2 (y grows downwards). Two
// neighbouring points are joined by a stroke, unless one of them is kUp, which ends a line. Unused
// points at the end are kUp.
constexpr int kPointsMax = 10;
constexpr Point kUp{-9, -9};
using Glyph = std::array<Point, kPointsMax>;
constexpr std::array<Glyph, 10> kGlyphs = {{
    {{{0.5, 0},
      {0.9, 0.3},
      {1, 1},
      {0.9, 1.7},
      {0.5, 2},
      {0.1, 1.7},
      {0, 1},
      {0.1, 0.3},
      {0.5, 0},
      kUp}},
    {{{0.2, 0.4}, {0.6, 0}, {0.6, 2}, kUp, kUp, kUp, kUp, kUp, kUp, kUp}},
    {{{0, 0.4}, {0.3, 0}, {0.8, 0}, {1, 0.5}, {0.8, 1}, {0, 2}, {1, 2}, kUp, kUp, kUp}},
    {{{0, 0.1},
      {0.7, 0},
      {1, 0.4},
      {0.8, 0.9},
      {0.3, 1},
      {0.8, 1.1},
      {1, 1.6},
      {0.7, 2},
      {0, 1.9},
      kUp}},
    {{{0.7, 2}, {0.7, 0}, {0, 1.3}, {1, 1.3}, kUp, kUp, kUp, kUp, kUp, kUp}},
    {{{0.9, 0}, {0.1, 0}, {0.1, 0.9}, {0.7, 0.8}, {1, 1.3}, {0.8, 1.9}, {0, 2}, kUp, kUp, kUp}},
    {{{0.8, 0},
      {0.2, 0.7},
      {0, 1.5},
      {0.4, 2},
      {0.9, 1.8},
      {0.9, 1.2},
      {0.4, 1},
      {0, 1.4},
      kUp,
      kUp}},
    {{{0, 0}, {1, 0}, {0.3, 2}, kUp, {0.2, 1}, {0.9, 1}, kUp, kUp, kUp, kUp}},
    {{{0.5, 1},
      {0.1, 0.6},
      {0.5, 0},
      {0.9, 0.6},
      {0.5, 1},
      {0, 1.5},
      {0.5, 2},
      {1, 1.5},
      {0.5, 1},
      kUp}},
    {{{0.9, 0.6},
      {0.5, 1},
      {0.1, 0.6},
      {0.4, 0},
      {0.8, 0.1},
      {0.9, 0.6},
      {0.9, 1.4},
      {0.6, 2},
      kUp,
      kUp}},
}};

// The pen with which one image is drawn: how it scales, slants and places the outline of the digit,
// and its radius and brightness.
struct Pen {
  float scale_x, scale_y, slant, center_x, center_y, radius, brightness;

  // Returns the pixel of a point of the outline. The centre of the outline's box goes to (center_x,
  // center_y).
  Point Place(Point p) const {
    const float y = p.y - 1;
    const float x = p.x - 0.5f - slant * y;
    return {center_x + x * scale_x, center_y + y * scale_y};
  }
};

// Draws the parameters of a pen at random, each with its own number in the random stream.
Pen DrawPen(const RandomStream& random) {
  const auto between = [&random](uint64_t i, float low, float high) {
    return low + (high - low) * random.Uniform(i);
  };
  return Pen{between(1, 8, 13),   between(2, 7.5f, 10),     between(3, -0.2f, 0.35f),
             between(4, 12, 16),  between(5, 12.5f, 15.5f), between(6, 0.8f, 1.7f),
             between(7, 170, 255)};
}

float DistanceToSegment(Point p, Point a, Point b) {
  const float dx = b.x - a.x;
  const float dy = b.y - a.y;
  // The squared length has a lower bound, so that a stroke of length 0 divides by no zero.
  const float length2 = std::max(dx * dx + dy * dy, 1e-6f);
  const float t = std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.0f, 1.0f);
  const float ex = p.x - a.x - t * dx;
  const float ey = p.y - a.y - t * dy;
  return std::sqrt(ex * ex + ey * ey);
}

// Draws one stroke with soft edges: its outermost pixels are darker.
void DrawStroke(const Pen& pen, Point a, Point b, float* image) {
  const float reach = pen.radius + 1;
  // Only pixels within reach of the pen change, so only the box around them is visited.
  const auto clip = [](float v) { return std::clamp(static_cast<int>(v), 0, kDigitSide - 1); };
  const int y_end = clip(std::max(a.y, b.y) + reach);
  const int x_end = clip(std::max(a.x, b.x) + reach);
  for (int y = clip(std::min(a.y, b.y) - reach); y <= y_end; ++y) {
    for (int x = clip(std::min(a.x, b.x) - reach); x <= x_end; ++x) {
      const Point pixel{static_cast<float>(x), static_cast<float>(y)};
      const float cover = pen.radius + 0.5f - DistanceToSegment(pixel, a, b);
      // Where strokes overlap, the brighter value counts, so that a crossing is not brighter.
      float& value = image[y * kDigitSide + x];
      value = std::max(value, pen.brightness * std::clamp(cover, 0.0f, 1.0f));
    }
  }
}

void DrawDigit(int digit, const RandomStream& random, uint8_t* out) {
  std::array<float, kDigitSide * kDigitSide> image{};
  const Pen pen = DrawPen(random);
  const Glyph& glyph = kGlyphs[static_cast<size_t>(digit)];
  for (size_t i = 1; i < glyph.size(); ++i) {
    if (glyph[i].x == kUp.x || glyph[i - 1].x == kUp.x) continue;
    DrawStroke(pen, pen.Place(glyph[i - 1]), pen.Place(glyph[i]), image.data());
  }
  // One random draw gives the noise of eight pixels: a quarter of all pixels becomes brighter, by
  // up to 15.
  const RandomStream noise = random.Child(1);
  for (size_t i = 0; i < image.size(); ++i) {
    const uint64_t bits = noise.Bits(i / 8) >> (8 * (i % 8));
    const float grain = (bits & 0xc0) == 0 ? static_cast<float>(bits & 0x0f) : 0.0f;
    out[i] = static_cast<uint8_t>(std::min(255.0f, image[i] + grain));
  }
}

}  // namespace

absl::StatusOr<DigitSet> MakeSyntheticDigits(const DigitSetOptions& options) {
  if (options.count < 0 || options.count > kSyntheticDigitsMax) {
    return absl::InvalidArgumentError(absl::StrCat("synthetic_digits.count is ", options.count,
                                                   ", not 0 to ", kSyntheticDigitsMax));
  }
  DigitSet set{Tensor(DType::kUint8, Shape{options.count, kDigitSide, kDigitSide}),
               Tensor(DType::kUint8, Shape{options.count})};
  const RandomStream stream(options.seed, "synthetic_digits");
  for (int64_t i = 0; i < options.count; ++i) {
    // Each image has its own random stream, so image i does not depend on the other images.
    const RandomStream random = stream.Child(static_cast<uint64_t>(i));
    const int digit = static_cast<int>(random.Below(0, 10));
    set.labels.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(digit);
    DrawDigit(digit, random, set.images.mutable_data<uint8_t>() + i * kDigitSide * kDigitSide);
  }
  return set;
}

}  // namespace cohort
