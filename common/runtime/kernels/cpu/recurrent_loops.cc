#include "common/runtime/kernels/cpu/recurrent_loops.h"

#include "common/base/check.h"
#include "common/runtime/kernel/simd.h"
#include "common/runtime/kernels/cpu/fast_math.h"

namespace cohort {

namespace {

// The functions and their slopes in float32. They are structs, since a compiled version of a loop
// must contain what it calls, and lambdas need not become part of their callers.
struct SigmoidValue {
  COHORT_INLINE float operator()(float z) const { return FastSigmoid(z); }
};
struct TanhValue {
  COHORT_INLINE float operator()(float z) const { return FastTanh(z); }
};
struct ReluValue {
  COHORT_INLINE float operator()(float z) const { return z < 0 ? 0.0f : z; }
};
struct AffineValue {
  float alpha;
  float beta;
  COHORT_INLINE float operator()(float z) const { return alpha * z + beta; }
};
struct HardSigmoidValue {
  float alpha;
  float beta;
  COHORT_INLINE float operator()(float z) const {
    const float line = alpha * z + beta;
    const float above = line < 0 ? 0.0f : line;
    return above > 1 ? 1.0f : above;
  }
};

struct SigmoidSlope {
  COHORT_INLINE float operator()(float y) const { return y * (1 - y); }
};
struct TanhSlope {
  COHORT_INLINE float operator()(float y) const { return 1 - y * y; }
};
struct ReluSlope {
  COHORT_INLINE float operator()(float y) const { return y > 0 ? 1.0f : 0.0f; }
};
struct AffineSlope {
  float alpha;
  COHORT_INLINE float operator()(float) const { return alpha; }
};
struct HardSigmoidSlope {
  float alpha;
  COHORT_INLINE float operator()(float y) const {
    const float above = y > 0 ? alpha : 0.0f;
    return y < 1 ? above : 0.0f;
  }
};

// Calls body(value), where value(z) is the gate's function. The choice is outside of loops, which
// are compiled for each function.
template <typename Body>
COHORT_INLINE void WithValue(const Gate& gate, const Body& body) {
  const auto alpha = static_cast<float>(gate.alpha);
  const auto beta = static_cast<float>(gate.beta);
  switch (gate.function) {
    case GateFunction::kSigmoid:
      return body(SigmoidValue{});
    case GateFunction::kTanh:
      return body(TanhValue{});
    case GateFunction::kRelu:
      return body(ReluValue{});
    case GateFunction::kAffine:
      return body(AffineValue{alpha, beta});
    case GateFunction::kHardSigmoid:
      return body(HardSigmoidValue{alpha, beta});
    default:
      COHORT_CHECK(false, "every activation of a gate has a loop");
  }
}

// Calls body(slope), where slope(y) is the slope where the gate has the value y.
template <typename Body>
COHORT_INLINE void WithSlope(const Gate& gate, const Body& body) {
  const auto alpha = static_cast<float>(gate.alpha);
  switch (gate.function) {
    case GateFunction::kSigmoid:
      return body(SigmoidSlope{});
    case GateFunction::kTanh:
      return body(TanhSlope{});
    case GateFunction::kRelu:
      return body(ReluSlope{});
    case GateFunction::kAffine:
      return body(AffineSlope{alpha});
    case GateFunction::kHardSigmoid:
      return body(HardSigmoidSlope{alpha});
    default:
      COHORT_CHECK(false, "every activation of a gate has a loop");
  }
}

// The body of ApplyGate.
struct ApplyBody {
  const float* bias;
  float* data;
  int64_t count;

  template <typename Value>
  COHORT_INLINE void operator()(Value value) const {
    if (bias == nullptr) {
      COHORT_IVDEP
      for (int64_t i = 0; i < count; ++i) data[i] = value(data[i]);
      return;
    }
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) data[i] = value(data[i] + bias[i]);
  }
};

// The body of MultiplyBySlope.
struct SlopeBody {
  const float* y;
  float* data;
  int64_t count;

  template <typename Slope>
  COHORT_INLINE void operator()(Slope slope) const {
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) data[i] *= slope(y[i]);
  }
};

// Writes out[i] = function(in[i]).
struct MapBody {
  const float* in;
  float* out;
  int64_t count;

  template <typename Function>
  COHORT_INLINE void operator()(Function function) const {
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) out[i] = function(in[i]);
  }
};

// The body of LstmStep.
struct LstmBody {
  LstmRow row;
  int64_t size;

  template <typename Value>
  COHORT_INLINE void operator()(Value value) const {
    const float* const in = row.gates;
    const float* const out = in + size;
    const float* const forget = out + size;
    const float* const cell = forget + size;
    const float* const before = row.before;
    float* const c = row.c;
    float* const h = row.h;
    COHORT_IVDEP
    for (int64_t i = 0; i < size; ++i) {
      c[i] = forget[i] * before[i] + in[i] * cell[i];
      h[i] = out[i] * value(c[i]);
    }
  }
};

}  // namespace

bool HasGateLoop(GateFunction function) {
  return function == GateFunction::kSigmoid || function == GateFunction::kTanh ||
         function == GateFunction::kRelu || function == GateFunction::kAffine ||
         function == GateFunction::kHardSigmoid;
}

COHORT_SIMD void ApplyGate(const Gate& gate, const float* bias, const GateRun& run) {
  WithValue(gate, ApplyBody{bias, run.data, run.count});
}

COHORT_SIMD void MultiplyBySlope(const Gate& gate, const float* y, const GateRun& run) {
  WithSlope(gate, SlopeBody{y, run.data, run.count});
}

COHORT_SIMD void LstmStep(const Gate& hidden, const LstmRow& row, int64_t size) {
  WithValue(hidden, LstmBody{row, size});
}

COHORT_SIMD void LstmStepGradient(const Gate& hidden, const LstmRow& row,
                                  const LstmGradients& gradients, int64_t size) {
  const float* const in = row.gates;
  const float* const out = in + size;
  const float* const forget = out + size;
  const float* const cell = forget + size;
  const float* const before = row.before;
  const float* const c = row.c;
  float* const value_of_c = gradients.scratch;
  float* const slope_of_c = gradients.scratch + size;
  float* const dh = gradients.dh;
  float* const dc = gradients.dc;
  float* const din = gradients.dz;
  float* const dout = din + size;
  float* const dforget = dout + size;
  float* const dcell = dforget + size;
  WithValue(hidden, MapBody{c, value_of_c, size});
  WithSlope(hidden, MapBody{value_of_c, slope_of_c, size});
  COHORT_IVDEP
  for (int64_t i = 0; i < size; ++i) {
    const float of_c = dc[i] + dh[i] * out[i] * slope_of_c[i];
    dout[i] = dh[i] * value_of_c[i];
    din[i] = of_c * cell[i];
    dforget[i] = of_c * before[i];
    dcell[i] = of_c * in[i];
    dc[i] = of_c * forget[i];
    dh[i] = 0;
  }
}

COHORT_SIMD void GruStep(const GruRow& row, int64_t size) {
  const float* const z = row.gates;
  const float* const g = z + 2 * size;
  const float* const before = row.before;
  float* const h = row.h;
  COHORT_IVDEP
  for (int64_t i = 0; i < size; ++i) h[i] = (1 - z[i]) * g[i] + z[i] * before[i];
}

COHORT_SIMD void GruStepGradient(const GruRow& row, float* dh, float* dz, int64_t size) {
  const float* const z = row.gates;
  const float* const g = z + 2 * size;
  const float* const before = row.before;
  float* const dg = dz + 2 * size;
  COHORT_IVDEP
  for (int64_t i = 0; i < size; ++i) {
    dz[i] = dh[i] * (before[i] - g[i]);
    dg[i] = dh[i] * (1 - z[i]);
    dh[i] *= z[i];
  }
}

COHORT_SIMD void MultiplyRow(const float* a, const float* b, const GateRun& out) {
  float* const data = out.data;
  COHORT_IVDEP
  for (int64_t i = 0; i < out.count; ++i) data[i] = a[i] * b[i];
}

COHORT_SIMD void AddRow(const float* b, const GateRun& out) {
  float* const data = out.data;
  COHORT_IVDEP
  for (int64_t i = 0; i < out.count; ++i) data[i] += b[i];
}

COHORT_SIMD void AddProductRow(const float* a, const float* b, const GateRun& out) {
  float* const data = out.data;
  COHORT_IVDEP
  for (int64_t i = 0; i < out.count; ++i) data[i] += a[i] * b[i];
}

}  // namespace cohort
