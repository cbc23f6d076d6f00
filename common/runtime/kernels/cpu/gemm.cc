#include "common/runtime/kernels/cpu/gemm.h"

#include <cstring>
#include <memory>
#include <utility>

#include "common/runtime/kernel/simd.h"
#include "dnnl.hpp"

extern "C" void omp_set_num_threads(int threads);

namespace cohort {
namespace {

// The least number of multiplications for which rounding the factors pays: below, a product takes
// less time than oneDNN needs to find its primitive.
constexpr int64_t kMultiplicationsMin = int64_t{1} << 18;

// Rounds to the nearest bfloat16, a tie to the even one: adds what carries into the upper half. A
// NaN keeps its sign, and the highest bit of its fraction is set, so that it stays a NaN.
COHORT_SIMD void RoundRow(const float* in, int64_t count, uint16_t* out) {
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, in + i, sizeof(bits));
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[i] = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40u : rounded);
  }
}

// The rounded copy of a factor, without the space between its rows. Thread-compatible.
class RoundedFactor {
 public:
  // `rows` and `columns` are those of op(factor).
  RoundedFactor(const GemmFactor& factor, int64_t rows, int64_t columns) {
    const int64_t lines = factor.transposed ? columns : rows;
    const int64_t width = factor.transposed ? rows : columns;
    elements_ = std::make_unique_for_overwrite<uint16_t[]>(static_cast<size_t>(lines * width));
    for (int64_t i = 0; i < lines; ++i) {
      RoundRow(factor.data + i * factor.stride, width, elements_.get() + i * width);
    }
    using Tag = dnnl::memory::format_tag;
    description_ = {
        {rows, columns}, dnnl::memory::data_type::bf16, factor.transposed ? Tag::ba : Tag::ab};
  }

  const dnnl::memory::desc& description() const { return description_; }
  dnnl::memory In(const dnnl::engine& engine) const {
    return {description_, engine, elements_.get()};
  }

 private:
  std::unique_ptr<uint16_t[]> elements_;
  dnnl::memory::desc description_;
};

// Computes the product in bfloat16. Returns false if oneDNN cannot.
bool Bfloat16Gemm(const GemmExtents& extents, const GemmFactor& a, const GemmFactor& b,
                  const GemmResult& c, const GemmScale& scale) {
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const RoundedFactor first(a, extents.m, extents.k);
    const RoundedFactor second(b, extents.k, extents.n);
    const dnnl::memory::desc result({extents.m, extents.n}, dnnl::memory::data_type::f32,
                                    dnnl::memory::dims{c.stride, 1});
    dnnl::primitive_attr attributes;
    if (scale.alpha != 1) attributes.set_output_scales(0, {scale.alpha});
    if (scale.beta != 0) {
      dnnl::post_ops sum;
      sum.append_sum(scale.beta);
      attributes.set_post_ops(sum);
    }
    // oneDNN keeps the primitives that it has made, and finds them by their descriptions.
    const dnnl::matmul product(dnnl::matmul::primitive_desc(
        dnnl::matmul::desc(first.description(), second.description(), result), attributes, engine));
    dnnl::stream stream(engine);
    product.execute(stream, {{DNNL_ARG_SRC, first.In(engine)},
                             {DNNL_ARG_WEIGHTS, second.In(engine)},
                             {DNNL_ARG_DST, dnnl::memory(result, engine, c.data)}});
    stream.wait();
  } catch (const dnnl::error&) {
    return false;
  }
  return true;
}

}  // namespace

bool ProcessorHasBfloat16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

ProductPrecision PrecisionHere(const onnx::NodeProto& node) {
  return ProcessorHasBfloat16() ? ProductPrecisionOf(node) : ProductPrecision::kFloat32;
}

void Gemm(const GemmExtents& extents, const GemmFactor& a, const GemmFactor& b, const GemmResult& c,
          const GemmScale& scale, const GemmSettings& settings) {
  if (settings.precision == ProductPrecision::kBfloat16 &&
      extents.m * extents.n * extents.k >= kMultiplicationsMin) {
    omp_set_num_threads(settings.threads);
    if (Bfloat16Gemm(extents, a, b, c, scale)) return;
  }
  Sgemm(extents, a, b, c, scale, settings.threads);
}

}  // namespace cohort
