// Bundles that TensorFlow wrote (tests/golden/make_checkpoints.py) against the reader, and the
// writer against TensorFlow's bytes for the same tensors.

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/posix_file_system.h"
#include "common/checkpoint/checkpoint_files.h"
#include "tests/unit/common/checkpoint/bundle_support.h"
#include "tests/unit/common/checkpoint/crash_disk.h"

namespace cohort {
namespace {

const char kDirectory[] = COHORT_SOURCE_DIR "/tests/golden/checkpoint";

std::string GoldenPath(const std::string& name) { return JoinPath(kDirectory, name); }

struct Expected {
  std::string bundle, name, dtype, dims;
  std::vector<double> values;
};

std::vector<Expected> ReadExpected() {
  std::ifstream in(GoldenPath("expected.txt"));
  std::vector<Expected> all;
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    Expected one{fields.at(0), fields.at(1), fields.at(2), fields.at(3), {}};
    for (absl::string_view text : absl::StrSplit(fields.at(4), ' ', absl::SkipEmpty())) {
      double value = 0;
      EXPECT_TRUE(absl::SimpleAtod(text, &value)) << line;
      one.values.push_back(value);
    }
    all.push_back(std::move(one));
  }
  return all;
}

// 16-bit floats, for finite values that are not subnormal.
double FromHalf(uint16_t bits) {
  if ((bits & 0x7fff) == 0) return 0;
  const double mantissa = 1 + (bits & 0x3ff) / 1024.0;
  return (bits >> 15 ? -1 : 1) * std::ldexp(mantissa, ((bits >> 10) & 31) - 15);
}
double FromBfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

double Element(const Tensor& tensor, size_t i) {
  uint16_t half = 0;
  if (ElementSize(tensor.dtype()) == 2) std::memcpy(&half, tensor.raw() + 2 * i, 2);
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return tensor.span<float>()[i];
    case DType::kFloat64:
      return tensor.span<double>()[i];
    case DType::kInt32:
      return tensor.span<int32_t>()[i];
    case DType::kInt64:
      return static_cast<double>(tensor.span<int64_t>()[i]);
    case DType::kUint8:
      return tensor.span<uint8_t>()[i];
    case DType::kInt8:
      return tensor.span<int8_t>()[i];
    case DType::kBool:
      return tensor.span<bool>()[i];
    case DType::kFloat16:
      return FromHalf(half);
    case DType::kBfloat16:
      return FromBfloat16(half);
    default:
      ADD_FAILURE() << "no type";
      return 0;
  }
}

std::vector<double> Elements(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    values.push_back(Element(tensor, static_cast<size_t>(i)));
  }
  return values;
}

class GoldenBundle : public testing::TestWithParam<const char*> {
 protected:
  PosixFileSystem files_;
};

TEST_P(GoldenBundle, HoldsWhatTensorFlowPutThere) {
  auto reader = BundleReader::Open(files_, GoldenPath(GetParam()));
  ASSERT_TRUE(reader.ok()) << reader.status();
  size_t count = 0;
  for (const Expected& expected : ReadExpected()) {
    if (expected.bundle != GetParam()) continue;
    SCOPED_TRACE(expected.name);
    ++count;
    auto tensor = (*reader)->Read(expected.name);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(DTypeName(tensor->dtype()), expected.dtype);
    EXPECT_EQ(tensor->shape().ToString(), "[" + expected.dims + "]");
    EXPECT_EQ(Elements(*tensor), expected.values);
  }
  EXPECT_GT(count, 2u);
  // Every variable is in expected.txt, and nothing else is listed.
  size_t listed = 0;
  for (const auto& [name, tensor] : (*reader)->tensors()) listed += name != "save_counter";
  EXPECT_EQ(listed, count);
}

TEST_P(GoldenBundle, GivesEveryRangeOfRows) {
  auto reader = BundleReader::Open(files_, GoldenPath(GetParam()));
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const auto& [name, info] : (*reader)->tensors()) {
    if (info.shape.rank() == 0) continue;
    const Tensor full = *(*reader)->Read(name);
    const int64_t rows = info.shape.dim(0);
    const int64_t step = rows > 20 ? 7 : 1;
    for (int64_t begin = 0; begin <= rows; begin += step) {
      for (int64_t count = 0; begin + count <= rows; count += step) {
        auto part = (*reader)->ReadRows(name, {begin, count});
        ASSERT_TRUE(part.ok()) << name << " " << part.status();
        EXPECT_TRUE(SameTensor(*part, full.Rows(begin, count))) << name << begin << "+" << count;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TensorFlow, GoldenBundle,
                         testing::Values("variables", "partitioned", "merged", "keras"),
                         [](const auto& info) { return std::string(info.param); });

TEST(GoldenBundle, ObjectGraphIsAStringAndIsRefusedByName) {
  PosixFileSystem files;
  auto reader = BundleReader::Open(files, GoldenPath("keras"));
  ASSERT_TRUE(reader.ok());
  const absl::Status status = (*reader)->Read("_CHECKPOINTABLE_OBJECT_GRAPH").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("_CHECKPOINTABLE_OBJECT_GRAPH"));
}

TEST(GoldenBundle, WriterGivesTensorFlowsBytes) {
  CrashDisk disk(CrashDisk::kNever);
  std::vector<Piece> pieces = Partitioned("embedding", Ramp({130, 3}), 3, 3);
  pieces.push_back(Whole("kernel", 2, Ramp({2, 4})));
  pieces.push_back(Whole("step", 0, Tensor::Scalar<int64_t>(300)));
  const absl::Status status = Save(disk, "d/merged", 3, pieces);
  ASSERT_TRUE(status.ok()) << status;
  PosixFileSystem files;
  for (const char* name : {"merged.index", "merged.data-00000-of-00003",
                           "merged.data-00001-of-00003", "merged.data-00002-of-00003"}) {
    auto golden = ReadFile(files, GoldenPath(name));
    ASSERT_TRUE(golden.ok()) << golden.status();
    EXPECT_EQ(disk.bytes(JoinPath("d", name)), *golden) << name;
  }
}

TEST(GoldenState, ReadsWhatCheckpointManagerWrote) {
  PosixFileSystem files;
  auto state = ReadCheckpointState(files, GoldenPath("manager"));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->latest, "ckpt-3");
  EXPECT_THAT(state->all, testing::ElementsAre("ckpt-2", "ckpt-3"));
}

}  // namespace
}  // namespace cohort
