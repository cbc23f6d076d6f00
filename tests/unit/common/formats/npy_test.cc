// Archives of arrays that NumPy wrote (tests/golden/formats/make.py), and headers that are wrong.

#include "common/formats/npy.h"

#include "common/formats/npz.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/formats/formats_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

std::unique_ptr<TensorFile> OpenGolden(const std::string& name) {
  auto archive = ZipArchive::Open(InMemory(BytesOf(FormatsGolden(name))), name);
  EXPECT_TRUE(archive.ok()) << archive.status();
  auto file = OpenNpz(*std::move(archive), name);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

// Returns an array with this header, of version 1, and so many bytes of elements.
std::string ArrayOf(const std::string& header, size_t data_bytes) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out.push_back(static_cast<char>(header.size()));
  out.push_back(static_cast<char>(header.size() >> 8));
  return out + header + std::string(data_bytes, '\1');
}

absl::Status ReadBytes(const std::string& bytes) {
  const auto file = InMemory(bytes);
  absl::StatusOr<NpyHeader> header = ReadNpyHeader(*file, "some/file");
  RETURN_IF_ERROR(header.status());
  return ReadNpy(*file, *header, "some/file").status();
}

TEST(Npy, EveryTypeAndOrderIsRead) {
  for (const std::string& archive : {std::string("stored.npz"), std::string("deflated.npz")}) {
    const auto file = OpenGolden(archive);
    const Shape shape{2, 3};
    ExpectRamp(*file, "f2", DType::kFloat16, shape);
    ExpectRamp(*file, "f4", DType::kFloat32, shape);
    ExpectRamp(*file, "f8", DType::kFloat64, shape);
    ExpectRamp(*file, "i1", DType::kInt8, shape);
    ExpectRamp(*file, "i2", DType::kInt32, shape);
    ExpectRamp(*file, "i4", DType::kInt32, shape);
    ExpectRamp(*file, "i8", DType::kInt64, shape);
    ExpectRamp(*file, "u1", DType::kUint8, shape);
    ExpectRamp(*file, "u2", DType::kInt32, shape);
    ExpectRamp(*file, "u4", DType::kInt64, shape);
    ExpectRamp(*file, "u8", DType::kInt64, shape);
    ExpectRamp(*file, "b1", DType::kBool, shape);
    ExpectRamp(*file, "f4_fortran", DType::kFloat32, Shape{2, 3, 4});
    ExpectRamp(*file, "f8_big", DType::kFloat64, Shape{5});
    ExpectRamp(*file, "i2_big_fortran", DType::kInt32, Shape{3, 2});
    ExpectRamp(*file, "scalar", DType::kFloat32, Shape{});
    ExpectRamp(*file, "empty", DType::kFloat32, Shape{0, 3});
    ExpectRamp(*file, "with/slash", DType::kFloat32, Shape{1});
    EXPECT_EQ(file->tensors().size(), 18u);
  }
}

TEST(Npy, EveryVersionOfTheFormatIsRead) {
  const auto file = OpenGolden("versions.npz");
  for (const char* name : {"v1", "v2", "v3"}) ExpectRamp(*file, name, DType::kFloat32, Shape{2, 2});
}

TEST(Npy, TypesThatTensorsDoNotHaveAreListedAndRefusedByName) {
  const auto file = OpenGolden("refused.npz");
  EXPECT_EQ(file->tensors().size(), 6u);
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    EXPECT_EQ(file->tensors()[i].dtype, DType::kUndefined);
    const auto tensor = file->Read(i);
    EXPECT_TRUE(absl::IsUnimplemented(tensor.status())) << tensor.status();
    EXPECT_THAT(std::string(tensor.status().message()), HasSubstr(file->tensors()[i].name));
    EXPECT_THAT(std::string(tensor.status().message()), HasSubstr(file->tensors()[i].stored_type));
  }
}

TEST(Npy, WhatIsWrittenIsReadAgain) {
  MemoryFileSystem files;
  const std::vector<NamedTensor> tensors = {
      {"a/b", Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3})},
      {"c", Tensor::Scalar<int64_t>(-5)},
      {"d", Tensor::FromVector<uint8_t>({7, 8}, {2})},
      {"e", Tensor::Scalar<bool>(true)},
      {"f", Tensor::Zeros(DType::kFloat16, {0, 4})}};
  ASSERT_TRUE(WriteNpz(files, "out", tensors).ok());
  auto archive = ZipArchive::Open(*files.Open("out"), "out");
  ASSERT_TRUE(archive.ok()) << archive.status();
  const auto file = OpenNpz(*std::move(archive), "out");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), tensors.size());
  for (const NamedTensor& tensor : tensors) {
    const auto read = ReadNamed(**file, tensor.name);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->dtype(), tensor.value.dtype());
    EXPECT_EQ(read->shape(), tensor.value.shape());
    EXPECT_EQ(AsNumbers(*read), AsNumbers(tensor.value));
  }
}

TEST(Npy, BfloatCannotBeWritten) {
  MemoryFileSystem files;
  const absl::Status status = WriteNpz(files, "out", {{"a", Tensor::Zeros(DType::kBfloat16, {2})}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'a'"));
  EXPECT_FALSE(files.Open("out").ok());
}

TEST(Npy, HeadersThatAreWrongAreRefused) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_TRUE(ReadBytes(ArrayOf(good, 8)).ok());
  for (const auto& [header, bytes] : std::vector<std::pair<std::string, size_t>>{
           {good, 7},
           {good, 9},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8},
           {"{'descr': '<f8', 'fortran_order': False, 'shape': (2147483648, 4294967296, 0), }", 0},
           {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", 8},
           {"{'descr': '<f4', 'shape': (2,), }", 8},
           {"{'descr': '<f4', 'descr': '<f4', 'shape': (2,), }", 8},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", 8},
           {"{'descr': [('a', '<f4'", 8},
           {good + "x", 8},
           {"{'descr': '<f4", 8},
           {"", 8}}) {
    EXPECT_TRUE(absl::IsDataLoss(ReadBytes(ArrayOf(header, bytes)))) << header;
  }
  std::string many = "{'descr': '<f4', 'fortran_order': True, 'shape': (";
  for (int i = 0; i < 65; ++i) many += "1, ";
  EXPECT_TRUE(absl::IsDataLoss(ReadBytes(ArrayOf(many + "), }", 4))));
}

TEST(Npy, UnsignedNumbersAboveTheLargestInt64AreRefused) {
  const std::string header = "{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }";
  std::string bytes = ArrayOf(header, 8);
  bytes.back() = '\xff';
  EXPECT_TRUE(absl::IsInvalidArgument(ReadBytes(bytes)));
}

TEST(Npy, BoolsAreZeroOrOne) {
  const std::string header = "{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }";
  std::string bytes = ArrayOf(header, 1);
  EXPECT_TRUE(ReadBytes(bytes).ok());
  bytes.back() = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(ReadBytes(bytes)));
}

TEST(Npy, ANewerVersionIsNamed) {
  std::string bytes = ArrayOf("", 0);
  bytes[6] = 4;
  EXPECT_TRUE(absl::IsUnimplemented(ReadBytes(bytes)));
}

}  // namespace
}  // namespace cohort
