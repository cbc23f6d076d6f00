#pragma once

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/base/posix_file_system.h"
#include "common/formats/memory_file.h"
#include "common/formats/tensor_file.h"

namespace cohort {

inline std::string FormatsGolden(const std::string& name) {
  return JoinPath(COHORT_SOURCE_DIR "/tests/golden/formats", name);
}

inline std::string BytesOf(const std::string& path) {
  PosixFileSystem files;
  absl::StatusOr<std::string> bytes = ReadFile(files, path);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *std::move(bytes) : "";
}

inline std::unique_ptr<ReadableFile> InMemory(absl::string_view bytes) {
  return std::make_unique<MemoryFile>(bytes);
}

// Returns the number in the 16 bits of a float16 that is a whole number up to 2048.
inline double WholeHalf(uint16_t bits) {
  const int exponent = (bits >> 10 & 31) - 15;
  if ((bits & 0x7fff) == 0) return 0;
  double value = 1 + (bits & 1023) / 1024.0;
  for (int i = 0; i < exponent; ++i) value *= 2;
  return (bits & 0x8000) != 0 ? -value : value;
}

// Returns the elements of a tensor of any type as numbers.
inline std::vector<double> AsNumbers(const Tensor& tensor) {
  std::vector<double> out;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const std::byte* const at = tensor.raw() + static_cast<size_t>(i) * ElementSize(tensor.dtype());
    const auto as = [at](auto value) {
      std::memcpy(&value, at, sizeof(value));
      return static_cast<double>(value);
    };
    uint16_t bits = 0;
    float from_bits = 0;
    uint32_t wide = 0;
    switch (tensor.dtype()) {
      case DType::kFloat32:
        out.push_back(as(float{}));
        break;
      case DType::kFloat64:
        out.push_back(as(double{}));
        break;
      case DType::kInt8:
        out.push_back(as(int8_t{}));
        break;
      case DType::kInt32:
        out.push_back(as(int32_t{}));
        break;
      case DType::kInt64:
        out.push_back(as(int64_t{}));
        break;
      case DType::kUint8:
      case DType::kBool:
        out.push_back(as(uint8_t{}));
        break;
      case DType::kFloat16:
        std::memcpy(&bits, at, sizeof(bits));
        out.push_back(WholeHalf(bits));
        break;
      case DType::kBfloat16:
        std::memcpy(&bits, at, sizeof(bits));
        wide = static_cast<uint32_t>(bits) << 16;
        std::memcpy(&from_bits, &wide, sizeof(wide));
        out.push_back(from_bits);
        break;
      default:
        ADD_FAILURE() << tensor.TypeString();
    }
  }
  return out;
}

// Returns the elements that make.py gives to an array of this type, as NumPy names it.
inline std::vector<double> RampOf(const std::string& type, int64_t count) {
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    const double first = absl::StartsWith(type, "u") ? 0 : -7;
    out.push_back(type == "b1" ? static_cast<double>(i % 2) : static_cast<double>(i) * 3 + first);
  }
  return out;
}

// Returns the tensor of that name; a test that asks for another one fails.
inline absl::StatusOr<Tensor> ReadNamed(const TensorFile& file, const std::string& name) {
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    if (file.tensors()[i].name == name) return file.Read(i);
  }
  return absl::NotFoundError(name);
}

// Checks the type, shape and elements of a tensor that make.py has written.
inline void ExpectRamp(const TensorFile& file, const std::string& name, DType dtype,
                       const Shape& shape) {
  const absl::StatusOr<Tensor> tensor = ReadNamed(file, name);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype(), dtype) << name;
  EXPECT_EQ(tensor->shape(), shape) << name;
  EXPECT_EQ(AsNumbers(*tensor), RampOf(name.substr(0, 2), shape.num_elements())) << name;
}

}  // namespace cohort
