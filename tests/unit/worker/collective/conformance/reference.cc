#include "tests/unit/worker/collective/conformance/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/check.h"

namespace cohort {

namespace {

bool IsIntegerType(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

struct Digits {
  int significant = 0;   // bits of the mantissa with the leading one
  int exponent_min = 0;  // of the smallest normal number, as frexp counts
  double largest = 0;
};

Digits DigitsOf(DType dtype) {
  if (dtype == DType::kFloat16) return {11, -13, 65504.0};
  if (dtype == DType::kBfloat16) return {8, -125, 0x1.fep127};
  return {24, -125, std::numeric_limits<float>::max()};
}

uint16_t HalfBits(DType dtype, double value) {
  const int mantissa_bits = dtype == DType::kFloat16 ? 10 : 7;
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | 1 << (mantissa_bits - 1));
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  if (value == 0) return sign;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const int stored = exponent - 1 + bias;
  if (stored <= 0) {
    return static_cast<uint16_t>(
        sign | static_cast<int>(std::ldexp(std::fabs(value), bias - 1 + mantissa_bits)));
  }
  const int digits = static_cast<int>(std::ldexp(fraction, mantissa_bits + 1));
  return static_cast<uint16_t>(sign | stored << mantissa_bits |
                               (digits & ((1 << mantissa_bits) - 1)));
}

double HalfValue(DType dtype, uint16_t bits) {
  const int mantissa_bits = dtype == DType::kFloat16 ? 10 : 7;
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int stored = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (stored == (1 << exponent_bits) - 1) {
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (stored == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), stored - bias - mantissa_bits);
}

template <typename T>
void Put(std::vector<std::byte>& bytes, size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}
template <typename T>
T Get(const std::vector<std::byte>& bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

DType AccumulatorType(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

// A sum or a product of two floats is exact in double, or at least rounds to float as if it were
// (double has more than twice the digits and two more).
double Combine(ReduceOp op, double a, double b) {
  if (op == ReduceOp::kProd) return a * b;
  if (op == ReduceOp::kSum || op == ReduceOp::kMean) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return op == ReduceOp::kMin ? (a < b ? a : b) : (a > b ? a : b);
}

int64_t Combine(ReduceOp op, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a);
  const auto ub = static_cast<uint64_t>(b);
  if (op == ReduceOp::kProd) return static_cast<int64_t>(ua * ub);
  if (op == ReduceOp::kSum) return static_cast<int64_t>(ua + ub);
  return op == ReduceOp::kMin ? std::min(a, b) : std::max(a, b);
}

template <typename T, typename Round>
T Tree(ReduceOp op, const std::vector<T>& values, size_t begin, size_t size, Round round) {
  if (size == 1) return values[begin];
  size_t left = 1;
  while (2 * left < size) left *= 2;
  return round(Combine(op, Tree(op, values, begin, left, round),
                       Tree(op, values, begin + left, size - left, round)));
}

int64_t Sum(const std::vector<int64_t>& counts, size_t end) {
  int64_t sum = 0;
  for (size_t i = 0; i < end; ++i) sum += counts[i];
  return sum;
}

std::vector<std::byte> Part(const std::vector<std::byte>& bytes, size_t element_bytes,
                            int64_t first, int64_t count) {
  const auto begin = bytes.begin() + static_cast<int64_t>(element_bytes) * first;
  return {begin, begin + static_cast<int64_t>(element_bytes) * count};
}

std::vector<std::byte> Reduced(const CollectiveCall& call,
                               const std::vector<std::vector<std::byte>>& inputs) {
  const size_t element = ElementSize(call.dtype);
  std::vector<Values> values;
  for (const auto& input : inputs) {
    values.push_back(FromBytes(call.dtype, OnePeriod(input, element)));
  }
  Values result;
  const size_t count = inputs[0].size() / element;
  for (size_t i = 0; i < std::min(count, kInputPeriod); ++i) {
    std::vector<double> floats;
    std::vector<int64_t> integers;
    for (const Values& one : values) {
      if (IsIntegerType(call.dtype))
        integers.push_back(one.integers[i]);
      else
        floats.push_back(one.floats[i]);
    }
    if (IsIntegerType(call.dtype)) {
      result.integers.push_back(TreeOf(call.dtype, call.reduce, integers));
    } else {
      result.floats.push_back(TreeOf(call.dtype, call.reduce, floats));
    }
  }
  return Repeated(ToBytes(call.dtype, result), count, element);
}

void Append(std::vector<std::byte>& to, const std::vector<std::byte>& part) {
  to.insert(to.end(), part.begin(), part.end());
}

}  // namespace

std::vector<std::byte> Repeated(std::vector<std::byte> period, size_t elements,
                                size_t element_bytes) {
  const size_t bytes = elements * element_bytes;
  const size_t turn = std::min(bytes, kInputPeriod * element_bytes);
  COHORT_CHECK(period.size() == turn, "the elements of one period");
  period.resize(bytes);
  for (size_t at = turn; at < bytes; at += turn) {
    std::memcpy(period.data() + at, period.data(), std::min(turn, bytes - at));
  }
  return period;
}

std::vector<std::byte> OnePeriod(const std::vector<std::byte>& bytes, size_t element_bytes) {
  const size_t turn = std::min(bytes.size(), kInputPeriod * element_bytes);
  const std::vector<std::byte> period(bytes.begin(), bytes.begin() + static_cast<int64_t>(turn));
  for (size_t at = turn; at < bytes.size(); at += turn) {
    const size_t size = std::min(turn, bytes.size() - at);
    COHORT_CHECK(std::memcmp(&bytes[at], bytes.data(), size) == 0, "inputs that repeat");
  }
  return period;
}

double RoundTo(DType dtype, double value) {
  if (dtype == DType::kFloat64 || std::isnan(value) || std::isinf(value) || value == 0) {
    return value;
  }
  const Digits digits = DigitsOf(dtype);
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent, digits.exponent_min) - digits.significant;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  if (std::fabs(rounded) > digits.largest) {
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  }
  return rounded == 0 ? std::copysign(0.0, value) : rounded;
}

std::vector<std::byte> ToBytes(DType dtype, const Values& values) {
  const size_t count = IsIntegerType(dtype) ? values.integers.size() : values.floats.size();
  std::vector<std::byte> bytes(count * ElementSize(dtype));
  for (size_t i = 0; i < count; ++i) {
    switch (dtype) {
      case DType::kFloat32:
        Put(bytes, i, static_cast<float>(values.floats[i]));
        break;
      case DType::kFloat64:
        Put(bytes, i, values.floats[i]);
        break;
      case DType::kInt32:
        Put(bytes, i, static_cast<int32_t>(values.integers[i]));
        break;
      case DType::kInt64:
        Put(bytes, i, values.integers[i]);
        break;
      default:
        Put(bytes, i, HalfBits(dtype, values.floats[i]));
    }
  }
  return bytes;
}

Values FromBytes(DType dtype, const std::vector<std::byte>& bytes) {
  Values values;
  for (size_t i = 0; i < bytes.size() / ElementSize(dtype); ++i) {
    switch (dtype) {
      case DType::kFloat32:
        values.floats.push_back(Get<float>(bytes, i));
        break;
      case DType::kFloat64:
        values.floats.push_back(Get<double>(bytes, i));
        break;
      case DType::kInt32:
        values.integers.push_back(Get<int32_t>(bytes, i));
        break;
      case DType::kInt64:
        values.integers.push_back(Get<int64_t>(bytes, i));
        break;
      default:
        values.floats.push_back(HalfValue(dtype, Get<uint16_t>(bytes, i)));
    }
  }
  return values;
}

double TreeOf(DType dtype, ReduceOp op, const std::vector<double>& floats) {
  const DType accumulator = AccumulatorType(dtype);
  const auto round = [accumulator](double value) { return RoundTo(accumulator, value); };
  double result = Tree(op, floats, 0, floats.size(), round);
  if (op == ReduceOp::kMean) result = round(result / static_cast<double>(floats.size()));
  return RoundTo(dtype, result);
}

int64_t TreeOf(DType dtype, ReduceOp op, const std::vector<int64_t>& integers) {
  const auto wrap = [dtype](int64_t value) {
    return dtype == DType::kInt32 ? int64_t{static_cast<int32_t>(static_cast<uint32_t>(value))}
                                  : value;
  };
  return Tree(op, integers, 0, integers.size(), wrap);
}

std::vector<std::vector<std::byte>> ExpectedOutputs(
    const std::vector<CollectiveCall>& calls, const std::vector<std::vector<std::byte>>& inputs) {
  const CollectiveCall& call = calls[0];
  const size_t element = ElementSize(call.dtype);
  const auto root = static_cast<size_t>(call.root);
  std::vector<std::vector<std::byte>> outputs(calls.size());
  switch (call.op) {
    case CollectiveOp::kAllReduce:
      outputs.assign(calls.size(), Reduced(call, inputs));
      break;
    case CollectiveOp::kReduce:
      outputs[root] = Reduced(call, inputs);
      break;
    case CollectiveOp::kBroadcast:
      outputs.assign(calls.size(), inputs[root]);
      break;
    case CollectiveOp::kReduceScatter: {
      const std::vector<std::byte> all = Reduced(call, inputs);
      for (size_t r = 0; r < calls.size(); ++r) {
        outputs[r] = Part(all, element, Sum(call.counts, r), call.counts[r]);
      }
      break;
    }
    case CollectiveOp::kAllGather:
      for (auto& output : outputs) {
        for (const auto& input : inputs) Append(output, input);
      }
      break;
    case CollectiveOp::kAllToAll:
      for (size_t to = 0; to < calls.size(); ++to) {
        for (size_t from = 0; from < calls.size(); ++from) {
          Append(outputs[to],
                 Part(inputs[from], element, Sum(calls[from].counts, to), calls[from].counts[to]));
        }
      }
      break;
    case CollectiveOp::kBarrier:
      break;
  }
  return outputs;
}

}  // namespace cohort
