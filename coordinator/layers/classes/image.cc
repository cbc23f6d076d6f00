#include "coordinator/layers/classes/image.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/layers/layer.h"

namespace cohort {
namespace {

// Names of the axes, for messages.
const char* AxisName(size_t axis, size_t axes) {
  if (axes == 1) return " steps";
  const size_t from_end = axes - axis;
  return from_end == 1 ? " columns" : (from_end == 2 ? " rows" : " layers of depth");
}

const char* NeedOf(const ImageLayout& layout) {
  switch (layout.axes) {
    case 1:
      return layout.channels_first ? "it needs [channels, steps]" : "it needs [steps, channels]";
    case 2:
      return layout.channels_first
                 ? "it needs [channels, rows, columns]"
                 : "it needs [rows, columns, channels]; a Reshape layer gives images without "
                   "channels one, with target_shape [rows, columns, 1]";
    default:
      return layout.channels_first ? "it needs [channels, depth, rows, columns]"
                                   : "it needs [depth, rows, columns, channels]";
  }
}

}  // namespace

absl::Status ImageLayout::Check(const std::string& layer, const Shape& shape) const {
  if (shape.rank() == static_cast<int>(axes) + 1) return absl::OkStatus();
  return WrongInput(layer, shape, NeedOf(*this));
}

int64_t ImageLayout::Channels(const Shape& shape) const {
  return shape.dim(channels_first ? 0 : shape.rank() - 1);
}

std::vector<int64_t> ImageLayout::Sizes(const Shape& shape) const {
  const auto dims = shape.dims().subspan(channels_first ? 1 : 0, axes);
  return {dims.begin(), dims.end()};
}

absl::StatusOr<Shape> ImageLayout::Example(const std::string& layer, const Shape& input,
                                           const std::vector<int64_t>& sizes,
                                           int64_t channels) const {
  int64_t elements = channels;
  for (const int64_t size : sizes) {
    // The check divides the limit, because the product of the dimensions might overflow.
    if (size < 1 || elements > kElementsMax / size) {
      return WrongInput(
          layer, input,
          size < 1 ? "nothing would be left of them" : "it would give more than 2^31 elements");
    }
    elements *= size;
  }
  std::vector<int64_t> dims = sizes;
  dims.insert(channels_first ? dims.begin() : dims.end(), channels);
  return Shape(dims);
}

std::string ImageLayout::ToOnnx(const LayerValue& value, const Nodes& nodes) const {
  return channels_first ? ChannelsLast(value, nodes) : ChannelsFirst(value, nodes);
}

LayerValue ImageLayout::FromOnnx(const std::string& value) const {
  return {value, "", !channels_first};
}

SamePadding PadSame(int64_t size, int64_t extent, int64_t stride) {
  const int64_t positions = (size + stride - 1) / stride;
  // The last window may end after the last element; its overhang is the padding.
  const int64_t pads = std::max<int64_t>((positions - 1) * stride + extent - size, 0);
  return {pads / 2, pads - pads / 2};
}

absl::StatusOr<std::vector<int64_t>> SlidingWindow::Positions(
    const std::string& layer, const Shape& input, const std::vector<int64_t>& sizes) const {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (same_padding) {
      positions.push_back((sizes[i] + strides[i] - 1) / strides[i]);
      continue;
    }
    if (extents[i] > sizes[i]) {
      return WrongInput(layer, input,
                        absl::StrCat("its window of ", extents[i], " does not fit into ", sizes[i],
                                     AxisName(i, sizes.size()), "; padding 'same' makes room"));
    }
    positions.push_back((sizes[i] - extents[i]) / strides[i] + 1);
  }
  return positions;
}

std::vector<int64_t> SlidingWindow::Pads(const std::vector<int64_t>& sizes) const {
  std::vector<int64_t> pads(2 * sizes.size(), 0);
  // Padding "valid" adds nothing.
  for (size_t i = 0; same_padding && i < sizes.size(); ++i) {
    const SamePadding padding = PadSame(sizes[i], extents[i], strides[i]);
    pads[i] = padding.before;
    pads[sizes.size() + i] = padding.behind;
  }
  return pads;
}

}  // namespace cohort
