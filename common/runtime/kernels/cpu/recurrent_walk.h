#pragma once

// One direction of a recurrent layer in float32, forward and backward. What can be computed for all
// steps at once is one product of matrices: the input's part of the gates before the first step,
// and the gradients of x and the weights behind the last. Inside the walk there is one product a
// step, with the state. All rows are in time-major order, [steps,batch].

#include <cstdint>
#include <memory>

#include "common/runtime/kernel/output_pool.h"
#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/gemm.h"
#include "common/runtime/kernels/recurrent_shape.h"

namespace cohort {

// Rows of floats that begin `stride` elements apart. Null data count as zeros.
struct RowsOf {
  const float* data;
  int64_t stride;

  const float* Row(int64_t i) const { return data + i * stride; }
};
struct MutableRows {
  float* data;
  int64_t stride;

  float* Row(int64_t i) const { return data + i * stride; }
};

// Floats of a pool's buffer, whose values are those of an earlier use. Thread-compatible.
class ScratchFloats {
 public:
  ScratchFloats(OutputPool& pool, int64_t count)
      : buffer_(pool.Take(PooledBytes(static_cast<size_t>(count) * sizeof(float)))),
        data_(reinterpret_cast<float*>(buffer_->data())) {}

  float* data() const { return data_; }

 private:
  const std::shared_ptr<Buffer> buffer_;
  float* const data_;
};

// The inputs of one direction.
struct DirectionLayer {
  RecurrentCell cell;
  bool linear_before_reset;
  const RecurrentShape& shape;
  const RecurrentMask& mask;
  const Gate* gates;
  int64_t direction;
  bool reverses;
  bool go_backwards;
  RowsOf x;  // [steps * batch], time-major
  const float* w;
  const float* r;
  const float* b;    // null: zeros
  RowsOf initial_h;  // [batch]
  RowsOf initial_c;
  GemmSettings products;
  OutputPool& scratch;

  int64_t rows() const { return shape.steps * shape.batch; }
  int64_t pitch() const { return shape.parts * shape.hidden; }
  int64_t Step(int64_t number) const { return reverses ? shape.steps - 1 - number : number; }
  int64_t OutputStep(int64_t t) const { return go_backwards ? shape.steps - 1 - t : t; }
};

// The outputs of one direction. `saved` has its rows; null y, h and c are not wanted.
struct DirectionOutputs {
  float* saved;
  float* y;
  float* h;
  float* c;
};
void WalkForward(const DirectionLayer& layer, const DirectionOutputs& out);

// The gradients of the outputs; null ones count as zeros.
struct OutputGradients {
  const float* y;
  const float* h;
  const float* c;
};
// The gradients of the inputs. dx is time-major and is added to unless `first`; null pointers are
// not wanted.
struct InputGradients {
  float* x;
  bool first;
  float* w;
  float* r;
  float* b;
  float* h;
  float* c;
};
void WalkBackward(const DirectionLayer& layer, const float* saved, const OutputGradients& dy,
                  const InputGradients& out);

}  // namespace cohort
