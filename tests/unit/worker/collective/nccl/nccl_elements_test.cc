#include "worker/collective/nccl/nccl_elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/conformance/reference.h"

namespace cohort {
namespace {

CollectiveCall Reduce(DType dtype, ReduceOp reduce) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.dtype = dtype;
  call.reduce = reduce;
  return call;
}

// The elements from an odd address on, as NCCL gets them.
Bytes ToNccl(const NcclElements& elements, const Bytes& from, int64_t count) {
  Bytes shifted(from.size() + 1);
  std::memcpy(shifted.data() + 1, from.data(), from.size());
  Bytes to(static_cast<size_t>(count) * elements.bytes());
  elements.ToNccl(shifted.data() + 1, count, to.data());
  return to;
}

template <typename T>
std::vector<T> As(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Values in their order, with NaN where the reduction looks for it.
TEST(NcclElements, FloatsInMinAndMaxAreIntegersInTheirOrder) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> ordered = {-inf, -1e30, -2, -1e-30, -0.0, 0.0, 1e-30, 2, 1e30, inf};
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBfloat16}) {
    for (const ReduceOp reduce : {ReduceOp::kMin, ReduceOp::kMax}) {
      std::vector<double> values;
      for (const double value : ordered) values.push_back(RoundTo(dtype, value));
      const double nan = std::nan("");
      values.insert(reduce == ReduceOp::kMin ? values.begin() : values.end(), nan);
      const auto count = static_cast<int64_t>(values.size());
      const NcclElements elements(Reduce(dtype, reduce), 3);
      const Bytes digits = ToNccl(elements, ToBytes(dtype, {values, {}}), count);
      std::vector<int64_t> order;
      if (elements.bytes() == 8) {
        order = As<int64_t>(digits);
      } else {
        for (const int32_t one : As<int32_t>(digits)) order.push_back(one);
      }
      EXPECT_EQ(elements.RunOf(1).type,
                dtype == DType::kFloat64 ? NcclType::kInt64 : NcclType::kInt32);
      for (size_t i = 1; i < order.size(); ++i) EXPECT_LT(order[i - 1], order[i]) << values[i];
      Bytes back(values.size() * ElementSize(dtype));
      Bytes from = digits;
      elements.FromNccl(from.data(), count, back.data());
      EXPECT_EQ(Difference(dtype, back, ToBytes(dtype, {values, {}})), "");
    }
  }
}

TEST(NcclElements, SixteenBitsAreSummedInFloat32AndRoundedOnce) {
  const NcclElements elements(Reduce(DType::kFloat16, ReduceOp::kMean), 3);
  EXPECT_EQ(elements.RunOf(5).type, NcclType::kFloat32);
  EXPECT_EQ(elements.RunOf(5).count, 5u);
  const Bytes wide = ToNccl(elements, ToBytes(DType::kFloat16, {{0.5, -65504}, {}}), 2);
  EXPECT_EQ(As<float>(wide), (std::vector<float>{0.5F, -65504.0F}));
  // A sum that float16 cannot hold has a mean that it can.
  std::vector<float> sums = {196512.0F, 1.0F};
  Bytes rounded(4);
  elements.FromNccl(reinterpret_cast<std::byte*>(sums.data()), 2, rounded.data());
  const Bytes wanted = ToBytes(DType::kFloat16, {{65504, RoundTo(DType::kFloat16, 1.0 / 3)}, {}});
  EXPECT_EQ(Difference(DType::kFloat16, rounded, wanted), "");
}

TEST(NcclElements, WhatIsOnlyMovedIsBytes) {
  CollectiveCall call;
  call.op = CollectiveOp::kBroadcast;
  call.dtype = DType::kFloat64;
  call.reduce = ReduceOp::kMin;
  const NcclElements elements(call, 2);
  EXPECT_EQ(elements.RunOf(5).type, NcclType::kBytes);
  EXPECT_EQ(elements.RunOf(5).count, 40u);
  const Bytes values = ToBytes(DType::kFloat64, {{std::nan(""), -1}, {}});
  EXPECT_EQ(ToNccl(elements, values, 2), values);
}

}  // namespace
}  // namespace cohort
