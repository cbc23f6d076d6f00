#pragma once

// A 2-D convolution, or a gradient of one, for fixed shapes on oneDNN. Tensors are plain [N,C,H,W]
// outside. Inside, oneDNN takes the layouts in which it is fastest, which costs a tenth of the time
// for moving operands and halves that of the product itself (docs/PERFORMANCE.md).

#include <cstddef>
#include <memory>
#include <vector>

#include "common/runtime/kernels/window_shape.h"
#include "dnnl.hpp"

namespace cohort {

enum class ConvKind {
  kForward,     // x, w, bias? -> y
  kInputGrad,   // dy, w -> dx
  kWeightGrad,  // dy, x -> dw
};

struct ConvOperands {
  const float* first = nullptr;
  const float* second = nullptr;
  const float* bias = nullptr;
  float* result = nullptr;
};

// Immutable; thread-safe: what a run changes is the caller's.
class ConvPrimitive {
 public:
  // Makes a primitive for as many threads as OpenMP gives the calling thread; it must be run with
  // as many. Returns nullptr if oneDNN has no such convolution. `shape` has two spatial axes and no
  // extent of 0.
  static std::unique_ptr<const ConvPrimitive> Make(ConvKind kind, const ConvShape& shape,
                                                   bool has_bias);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Runs the convolution; `workspace` is aligned to 64 bytes. Errors: INTERNAL with oneDNN's words.
  absl::Status Run(const ConvOperands& operands, std::byte* workspace) const;

 private:
  // A tensor as the caller has it and as the primitive takes it.
  struct Operand {
    int argument = 0;
    dnnl::memory::desc outside;
    dnnl::memory::desc inside;
    dnnl::reorder reorder;  // none if both forms are equal
    size_t offset = 0;      // where the inside form lies in the workspace

    bool moves() const { return inside != outside; }
  };

  ConvPrimitive() : engine_(dnnl::engine::kind::cpu, 0) {}
  void Plan(ConvKind kind, const ConvShape& shape, bool has_bias);
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
