// Files that the safetensors library wrote (tests/golden/formats/make.py), files that are wrong in
// one thing, and every damage of a byte.

#include "common/formats/safetensors.h"

#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/formats/formats_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::unique_ptr<TensorFile>> OpenBytes(absl::string_view bytes) {
  return OpenSafetensors(InMemory(bytes), "some/file", nullptr);
}

// Returns a file with this header and so many bytes behind it.
std::string FileOf(const std::string& header, size_t data_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(header.size() >> (8 * i)));
  return out + header + std::string(data_bytes, '\0');
}

std::string ErrorOf(const std::string& header, size_t data_bytes) {
  const auto file = OpenBytes(FileOf(header, data_bytes));
  EXPECT_FALSE(file.ok()) << header;
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("some/file"));
  return std::string(file.status().message());
}

TEST(Safetensors, EveryTypeIsRead) {
  SafetensorsMetadata metadata;
  PosixFileSystem files;
  auto opened = files.Open(FormatsGolden("types.safetensors"));
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(LooksLikeSafetensors(**opened));
  const auto file = OpenSafetensors(*std::move(opened), "types", &metadata);
  ASSERT_TRUE(file.ok()) << file.status();
  const Shape shape{2, 3};
  ExpectRamp(**file, "f2", DType::kFloat16, shape);
  ExpectRamp(**file, "bf16", DType::kBfloat16, shape);
  ExpectRamp(**file, "f4", DType::kFloat32, shape);
  ExpectRamp(**file, "f8", DType::kFloat64, shape);
  ExpectRamp(**file, "i1", DType::kInt8, shape);
  ExpectRamp(**file, "i2", DType::kInt32, shape);
  ExpectRamp(**file, "i4", DType::kInt32, shape);
  ExpectRamp(**file, "i8", DType::kInt64, shape);
  ExpectRamp(**file, "u1", DType::kUint8, shape);
  ExpectRamp(**file, "u2", DType::kInt32, shape);
  ExpectRamp(**file, "u4", DType::kInt64, shape);
  ExpectRamp(**file, "u8", DType::kInt64, shape);
  ExpectRamp(**file, "b1", DType::kBool, shape);
  ExpectRamp(**file, "scalar", DType::kFloat32, Shape{});
  ExpectRamp(**file, "empty", DType::kFloat32, Shape{0, 3});
  ExpectRamp(**file, "a name / with \"quotes\" and é", DType::kFloat32, Shape{1});
  EXPECT_EQ((*file)->tensors().size(), 16u);
  EXPECT_EQ(metadata, (SafetensorsMetadata{{"format", "pt"}, {"é", "\n"}}));
}

TEST(Safetensors, ATypeThatTensorsDoNotHaveIsListedAndRefusedByName) {
  const auto file = OpenBytes(BytesOf(FormatsGolden("float8.safetensors")));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors()[0].dtype, DType::kUndefined);
  const auto tensor = (*file)->Read(0);
  EXPECT_TRUE(absl::IsUnimplemented(tensor.status()));
  EXPECT_THAT(std::string(tensor.status().message()), HasSubstr("tensor 'f8' has type F8_E4M3"));
}

TEST(Safetensors, WhatIsWrittenIsReadAgainAndIsAligned) {
  MemoryFileSystem files;
  const std::vector<NamedTensor> tensors = {{"b", Tensor::FromVector<int8_t>({1, -2, 3}, {3})},
                                            {"a\"é", Tensor::FromVector<float>({1.5f, 2}, {2, 1})},
                                            {"c", Tensor::Scalar<int64_t>(-5)},
                                            {"d", Tensor::Zeros(DType::kBfloat16, {2})},
                                            {"e", Tensor::Zeros(DType::kFloat16, {0, 4})},
                                            {"f", Tensor::Scalar<bool>(true)}};
  ASSERT_TRUE(WriteSafetensors(files, "out", tensors, {{"format", "pt"}}).ok());
  const std::string bytes = *ReadFile(files, "out");
  SafetensorsMetadata metadata;
  const auto file = OpenSafetensors(InMemory(bytes), "out", &metadata);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(metadata.at("format"), "pt");
  for (const NamedTensor& tensor : tensors) {
    const auto read = ReadNamed(**file, tensor.name);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->dtype(), tensor.value.dtype());
    EXPECT_EQ(read->shape(), tensor.value.shape());
    EXPECT_EQ(AsNumbers(*read), AsNumbers(tensor.value));
  }
  EXPECT_EQ((*file)->tensors()[0].name, "c");  // the widest elements come first
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
}

TEST(Safetensors, NamesThatCannotBeWrittenAreRefused) {
  MemoryFileSystem files;
  const Tensor one = Tensor::Scalar<float>(1);
  for (const std::vector<NamedTensor>& tensors : {std::vector<NamedTensor>{{"a", one}, {"a", one}},
                                                  {{"__metadata__", one}},
                                                  {{"\xff", one}},
                                                  {{"a", Tensor()}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(WriteSafetensors(files, "out", tensors, {})));
  }
  EXPECT_FALSE(files.Open("out").ok());
}

TEST(Safetensors, WhatIsNotOfTheFormatIsRefusedWithItsPlace) {
  const std::string f32 = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  EXPECT_THAT(ErrorOf("{\"a\":{" + f32 + "}}", 9), HasSubstr("9 bytes of tensors"));
  EXPECT_THAT(ErrorOf("{\"a\":{" + f32 + "}}", 7), HasSubstr("7 bytes of tensors"));
  EXPECT_THAT(ErrorOf("{\"a\":{" + f32 + "},\"a\":{" + f32 + "}}", 8), HasSubstr("named twice"));
  EXPECT_THAT(ErrorOf("{\"a\":{" + f32 + "},\"b\":{" + f32 + "}}", 8),
              HasSubstr("begins at 0 where 8"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
              HasSubstr("begins at 4 where 0"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
              HasSubstr("its shape needs 12"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
              HasSubstr("bytes 8 to 0"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F7","shape":[2],"data_offsets":[0,8]}})", 8),
              HasSubstr("unknown type 'F7'"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
              HasSubstr("negative number in shape"));
  EXPECT_THAT(
      ErrorOf(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0),
      HasSubstr("more than 2^62 bytes"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[2]}})", 8), HasSubstr("needs dtype"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","dtype":"F32"}})", 8), HasSubstr("'dtype' twice"));
  EXPECT_THAT(ErrorOf(R"({"a":{"what":1}})", 8), HasSubstr("unknown key 'what'"));
  EXPECT_THAT(ErrorOf(R"({"a":7})", 8), HasSubstr("tensor 'a' has a number"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"a":[1]}})", 0), HasSubstr("list"));
  EXPECT_THAT(ErrorOf("{\"a\":", 8), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[1]", 8), HasSubstr("begin with '{'"));
}

TEST(Safetensors, AHeaderLongerThanTheFileTakesNoMemory) {
  std::string bytes = FileOf("{}", 0);
  bytes[6] = '\x7f';
  EXPECT_TRUE(absl::IsDataLoss(OpenBytes(bytes).status()));
  EXPECT_TRUE(absl::IsDataLoss(OpenBytes("").status()));
  EXPECT_TRUE(absl::IsDataLoss(OpenBytes("1234567").status()));
}

TEST(Safetensors, NoDamageOfAByteAndNoCutEndsTheProcess) {
  const std::string whole = BytesOf(FormatsGolden("types.safetensors"));
  const auto read_all = [](absl::string_view bytes) {
    const auto file = OpenBytes(bytes);
    if (!file.ok()) return;
    for (size_t i = 0; i < (*file)->tensors().size(); ++i) (void)(*file)->Read(i);
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int mask : {1, 0x80, 0xff, 0x10}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      read_all(bytes);
    }
    EXPECT_FALSE(OpenBytes(whole.substr(0, i)).ok());
  }
}

}  // namespace
}  // namespace cohort
