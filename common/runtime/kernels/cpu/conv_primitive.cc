#include "common/runtime/kernels/cpu/conv_primitive.h"

#include <array>
#include <unordered_map>
#include <utility>

namespace cohort {

namespace {

using dnnl::memory;

// The dimensions of a convolution. The primitives of its forward pass and of both gradients have
// the same dimensions.
struct Descriptions {
  memory::dims x;
  memory::dims w;
  memory::dims y;
  memory::dims bias;
  memory::dims strides;
  memory::dims dilations;
  memory::dims pads_begin;
  memory::dims pads_end;
  memory::format_tag image_tag = memory::format_tag::undef;
  memory::format_tag weights_tag = memory::format_tag::undef;
};

// The plain layouts of images, weights and weights in groups, for one to three axes.
using Tags = std::array<memory::format_tag, 3>;
constexpr Tags kImageTags = {memory::format_tag::ncw, memory::format_tag::nchw,
                             memory::format_tag::ncdhw};
constexpr Tags kWeightTags = {memory::format_tag::oiw, memory::format_tag::oihw,
                              memory::format_tag::oidhw};
constexpr Tags kGroupedTags = {memory::format_tag::goiw, memory::format_tag::goihw,
                               memory::format_tag::goidhw};

Descriptions Describe(const ConvShape& shape) {
  const size_t axes = shape.window.axes.size();
  const int64_t channels = shape.groups * shape.outputs;
  Descriptions all;
  all.image_tag = kImageTags.at(axes - 1);
  all.weights_tag = (shape.groups > 1 ? kGroupedTags : kWeightTags).at(axes - 1);
  all.x = {shape.batch, shape.groups * shape.inputs};
  all.y = {shape.batch, channels};
  all.w = {shape.outputs, shape.inputs};
  if (shape.groups > 1) all.w.insert(all.w.begin(), shape.groups);
  all.bias = {channels};
  for (const WindowAxis& axis : shape.window.axes) {
    all.x.push_back(axis.input);
    all.y.push_back(axis.output);
    all.w.push_back(axis.kernel);
    all.strides.push_back(axis.stride);
    // oneDNN's dilation counts the gaps between taps: 0 is a dense window.
    all.dilations.push_back(axis.dilation - 1);
    all.pads_begin.push_back(axis.pad_begin);
    all.pads_end.push_back(axis.pad_end);
  }
  return all;
}

constexpr auto kFloat = memory::data_type::f32;
// Convolutions are computed by oneDNN's direct algorithm, because Winograd's algorithm has larger
// rounding errors.
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// Returns a description of a tensor that leaves the choice of the layout to oneDNN.
memory::desc Any(const memory::dims& dims, memory::data_type type) {
  return {dims, type, memory::format_tag::any};
}

// The descriptions of a convolution's tensors as oneDNN computes with them: the result of the kind
// is float32, and the two factors are in the form's precision.
struct InsideTypes {
  explicit InsideTypes(const ConvForm& form) {
    const bool rounds = form.precision == ProductPrecision::kBfloat16;
    factor = rounds ? memory::data_type::bf16 : kFloat;
    x = form.kind == ConvKind::kInputGrad ? kFloat : factor;
    w = form.kind == ConvKind::kWeightGrad ? kFloat : factor;
    y = form.kind == ConvKind::kForward ? kFloat : factor;
  }

  // The type of the factors of the forward convolution.
  memory::data_type factor;
  memory::data_type x, w, y;
};

// Returns attributes by which every run passes a scratchpad of its own to the primitive, so that
// one primitive can run on several threads.
dnnl::primitive_attr OwnScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::convolution_forward::primitive_desc Forward(const Descriptions& all, const ConvForm& form,
                                                  const dnnl::engine& engine) {
  using dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_training;
  const InsideTypes types(form);
  const memory::desc x = Any(all.x, types.factor);
  const memory::desc w = Any(all.w, types.factor);
  const memory::desc y = Any(all.y, types.y);
  const auto desc =
      form.has_bias
          ? convolution_forward::desc(kind, kDirect, x, w, Any(all.bias, kFloat), y, all.strides,
                                      all.dilations, all.pads_begin, all.pads_end)
          : convolution_forward::desc(kind, kDirect, x, w, y, all.strides, all.dilations,
                                      all.pads_begin, all.pads_end);
  return {desc, OwnScratchpad(), engine};
}

// Returns the description of a gradient primitive: dnnl::convolution_backward_data or _weights.
template <typename Gradient>
typename Gradient::primitive_desc Backward(const Descriptions& all, const ConvForm& form,
                                           const dnnl::engine& engine,
                                           const dnnl::convolution_forward::primitive_desc& hint) {
  const InsideTypes types(form);
  return {typename Gradient::desc(kDirect, Any(all.x, types.x), Any(all.w, types.w),
                                  Any(all.y, types.y), all.strides, all.dilations, all.pads_begin,
                                  all.pads_end),
          OwnScratchpad(), engine, hint};
}

size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

std::unique_ptr<const ConvPrimitive> ConvPrimitive::Make(const ConvForm& form,
                                                         const ConvShape& shape) {
  std::unique_ptr<ConvPrimitive> made(new ConvPrimitive);
  // oneDNN throws an exception for a convolution that it does not support. The exception is caught
  // here, because none may leave this file.
  try {
    made->Plan(form, shape);
  } catch (const dnnl::error&) {
    return nullptr;
  }
  return made;
}

void ConvPrimitive::Plan(const ConvForm& form, const ConvShape& shape) {
  const Descriptions all = Describe(shape);
  const auto image = [&all](const memory::dims& dims) {
    return memory::desc(dims, kFloat, all.image_tag);
  };
  const memory::desc weights(all.w, kFloat, all.weights_tag);
  const auto forward = Forward(all, form, engine_);
  has_bias_ = form.has_bias;
  if (form.kind == ConvKind::kForward) {
    primitive_ = dnnl::convolution_forward(forward);
    first_ = {DNNL_ARG_SRC, image(all.x), forward.src_desc(), {}};
    second_ = {DNNL_ARG_WEIGHTS, weights, forward.weights_desc(), {}};
    result_ = {DNNL_ARG_DST, image(all.y), forward.dst_desc(), {}};
    if (has_bias_) bias_ = forward.bias_desc();
    scratchpad_ = forward.scratchpad_desc();
  } else if (form.kind == ConvKind::kInputGrad) {
    const auto backward = Backward<dnnl::convolution_backward_data>(all, form, engine_, forward);
    primitive_ = dnnl::convolution_backward_data(backward);
    first_ = {DNNL_ARG_DIFF_DST, image(all.y), backward.diff_dst_desc(), {}};
    second_ = {DNNL_ARG_WEIGHTS, weights, backward.weights_desc(), {}};
    result_ = {DNNL_ARG_DIFF_SRC, image(all.x), backward.diff_src_desc(), {}};
    scratchpad_ = backward.scratchpad_desc();
  } else {
    const auto backward = Backward<dnnl::convolution_backward_weights>(all, form, engine_, forward);
    primitive_ = dnnl::convolution_backward_weights(backward);
    first_ = {DNNL_ARG_DIFF_DST, image(all.y), backward.diff_dst_desc(), {}};
    second_ = {DNNL_ARG_SRC, image(all.x), backward.src_desc(), {}};
    result_ = {DNNL_ARG_DIFF_WEIGHTS, weights, backward.diff_weights_desc(), {}};
    scratchpad_ = backward.scratchpad_desc();
  }
  // The workspace holds the copies of tensors in oneDNN's layouts, then oneDNN's scratchpad.
  Place(first_, false);
  Place(second_, false);
  Place(result_, true);
  scratchpad_offset_ = workspace_bytes_;
  workspace_bytes_ += Aligned(scratchpad_.get_size());
}

// Reserves workspace for a tensor whose layout in oneDNN differs from the caller's layout.
void ConvPrimitive::Place(Operand& operand, bool is_result) {
  if (!operand.moves()) return;
  operand.offset = workspace_bytes_;
  workspace_bytes_ += Aligned(operand.inside.get_size());
  const memory::desc& from = is_result ? operand.inside : operand.outside;
  const memory::desc& to = is_result ? operand.outside : operand.inside;
  operand.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine_, from, engine_, to));
}

// Returns the tensor in oneDNN's layout: in the workspace, or in the caller's memory if both
// layouts are equal. The const_cast is safe, because oneDNN writes only to results.
memory ConvPrimitive::Inside(const Operand& operand, const void* data, std::byte* workspace) const {
  void* const place = operand.moves() ? workspace + operand.offset : const_cast<void*>(data);
  return memory(operand.inside, engine_, place);
}

absl::Status ConvPrimitive::Run(const ConvOperands& operands, std::byte* workspace) const {
  try {
    dnnl::stream stream(engine_);
    std::unordered_map<int, memory> arguments;
    const auto take = [&](const Operand& operand, const float* data) {
      memory inside = Inside(operand, data, workspace);
      if (operand.moves()) {
        memory outside(operand.outside, engine_, const_cast<float*>(data));
        operand.reorder.execute(stream, outside, inside);
      }
      arguments.emplace(operand.argument, inside);
    };
    // Inputs are reordered into oneDNN's layouts before the convolution, and the result is
    // reordered back afterwards.
    take(first_, operands.first);
    take(second_, operands.second);
    if (has_bias_) {
      arguments.emplace(DNNL_ARG_BIAS, memory(bias_, engine_, const_cast<float*>(operands.bias)));
    }
    memory inside = Inside(result_, operands.result, workspace);
    arguments.emplace(result_.argument, inside);
    if (scratchpad_.get_size() > 0) {
      arguments.emplace(DNNL_ARG_SCRATCHPAD,
                        memory(scratchpad_, engine_, workspace + scratchpad_offset_));
    }
    primitive_.execute(stream, arguments);
    if (result_.moves()) {
      memory outside(result_.outside, engine_, operands.result);
      result_.reorder.execute(stream, inside, outside);
    }
    stream.wait();
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN: ", error.message));
  }
  return absl::OkStatus();
}

}  // namespace cohort
