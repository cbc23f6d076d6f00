#pragma once

// A convolution over one to three axes, or a gradient of one, for fixed shapes on oneDNN. The
// caller's tensors are plain [N,C,...]. Internally oneDNN uses the layouts in which it is fastest:
// reordering tensors between layouts costs a tenth of the time, but halves the time of the
// convolution itself.

#include <cstddef>
#include <memory>
#include <vector>

#include "common/program/product_precision.h"
#include "common/runtime/kernels/window_shape.h"
#include "dnnl.hpp"

namespace cohort {

enum class ConvKind {
  kForward,     // the convolution: computes y from x, w and perhaps a bias
  kInputGrad,   // the gradient of x: computes dx from dy and w
  kWeightGrad,  // the gradient of w: computes dw from dy and x
};

// The pass that a primitive computes, and in which precision.
struct ConvForm {
  ConvKind kind = ConvKind::kForward;
  ProductPrecision precision = ProductPrecision::kFloat32;
  bool has_bias = false;
};

struct ConvOperands {
  const float* first = nullptr;
  const float* second = nullptr;
  const float* bias = nullptr;
  float* result = nullptr;
};

// A compiled convolution of oneDNN. Immutable; thread-safe, because a run writes only to memory of
// its caller.
class ConvPrimitive {
 public:
  // Makes a primitive for the calling thread's number of OpenMP threads; every run of the primitive
  // must use the same number. Returns nullptr if oneDNN does not support the convolution. `shape`
  // must have one to three axes after the channels and no extent of 0. With kBfloat16, reorders
  // round the two factors, and the result stays float32.
  static std::unique_ptr<const ConvPrimitive> Make(const ConvForm& form, const ConvShape& shape);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Runs the convolution. `workspace` has workspace_bytes() bytes and is aligned to 64 bytes.
  // Errors: INTERNAL with oneDNN's words.
  absl::Status Run(const ConvOperands& operands, std::byte* workspace) const;

 private:
  // A tensor of the convolution: `outside` describes the caller's layout, `inside` oneDNN's layout.
  struct Operand {
    int argument = 0;
    dnnl::memory::desc outside;
    dnnl::memory::desc inside;
    dnnl::reorder reorder;  // converts between the layouts; empty if both are equal
    size_t offset = 0;      // offset in the workspace of the tensor in oneDNN's layout

    bool moves() const { return inside != outside; }
  };

  ConvPrimitive() : engine_(dnnl::engine::kind::cpu, 0) {}
  void Plan(const ConvForm& form, const ConvShape& shape);
  void Place(Operand& operand, bool is_result);
  dnnl::memory Inside(const Operand& operand, const void* data, std::byte* workspace) const;

  const dnnl::engine engine_;
  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
  size_t scratchpad_offset_ = 0;
  Operand first_;
  Operand second_;
  Operand result_;
  dnnl::memory::desc bias_;
  bool has_bias_ = false;
  size_t workspace_bytes_ = 0;
};

}  // namespace cohort
