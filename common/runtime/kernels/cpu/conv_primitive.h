#pragma once

// A 2-D convolution, or a gradient of one, for fixed shapes on oneDNN. The caller's tensors are
// plain [N,C,H,W]. Inside the primitive, oneDNN uses the layouts in which it is fastest: moving
// operands between layouts costs a tenth of the time, and halves the time of the product itself
// (docs/PERFORMANCE.md).

#include <cstddef>
#include <memory>
#include <vector>

#include "common/runtime/kernels/window_shape.h"
#include "dnnl.hpp"

namespace cohort {

enum class ConvKind {
  kForward,     // from x, w and perhaps bias, computes y
  kInputGrad,   // from dy and w, computes dx
  kWeightGrad,  // from dy and x, computes dw
};

struct ConvOperands {
  const float* first = nullptr;
  const float* second = nullptr;
  const float* bias = nullptr;
  float* result = nullptr;
};

// A compiled convolution of oneDNN. Immutable; thread-safe: what a run changes is the caller's.
class ConvPrimitive {
 public:
  // Makes a primitive for the number of threads that OpenMP gives the calling thread; the primitive
  // must be run with the same number. Returns nullptr if oneDNN has no such convolution. `shape`
  // must have two spatial axes and no extent of 0.
  static std::unique_ptr<const ConvPrimitive> Make(ConvKind kind, const ConvShape& shape,
                                                   bool has_bias);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Runs the convolution. `workspace` has workspace_bytes() bytes and is aligned to 64 bytes.
  // Errors: INTERNAL with oneDNN's words.
  absl::Status Run(const ConvOperands& operands, std::byte* workspace) const;

 private:
  // A tensor in the caller's layout (outside) and in the primitive's layout (inside).
  struct Operand {
    int argument = 0;
    dnnl::memory::desc outside;
    dnnl::memory::desc inside;
    dnnl::reorder reorder;  // empty if both layouts are equal
    size_t offset = 0;      // place of the inside form in the workspace

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
