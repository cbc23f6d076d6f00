// Golden files: make_idx_golden.py (NumPy and Python's gzip are the oracle). MNIST's own facts are
// checked where COHORT_DATA_DIR has it.

#include "worker/data/idx.h"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/packed.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string GoldenPath(const std::string& name) {
  return absl::StrCat(COHORT_SOURCE_DIR, "/tests/unit/worker/data/golden/", name);
}

class IdxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/idx_test_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    unlink(path().c_str());
    rmdir(directory_.c_str());
  }
  std::string path() const { return directory_ + "/file"; }
  std::string Golden(const std::string& name) { return *ReadFile(files_, GoldenPath(name)); }
  absl::StatusOr<Tensor> ReadBytes(const std::string& bytes) {
    EXPECT_TRUE(WriteFileAtomically(files_, path(), bytes).ok());
    return ReadIdx(files_, path());
  }

  PosixFileSystem files_;
  std::string directory_;
};

// The IDX format has them, no tensor has.
TEST_F(IdxTest, ReadsShortsAsInt32) {
  const char kShorts[] = "\0\0\x0b\2\0\0\0\2\0\0\0\2\0\1\x7f\xff\x80\0\xff\xfe";
  const auto array = ReadBytes(std::string(kShorts, sizeof(kShorts) - 1));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->TypeString(), "int32[2,2]");
  EXPECT_THAT(array->span<int32_t>(), ElementsAre(1, 32767, -32768, -2));
  EXPECT_FALSE(ReadBytes(std::string(kShorts, sizeof(kShorts) - 2)).ok()) << "a byte short";
}

TEST_F(IdxTest, ReadsGzipAndPlainAlike) {
  for (const char* name : {"images.idx.gz", "images.idx"}) {
    const absl::StatusOr<Tensor> images = ReadIdx(files_, GoldenPath(name));
    ASSERT_TRUE(images.ok()) << images.status();
    EXPECT_EQ(images->TypeString(), "uint8[40,6,5]");
    for (int64_t i = 0; i < images->num_elements(); ++i) {
      ASSERT_EQ(images->data<uint8_t>()[i], (i * i * 31 + i / 3 * 17) % 256) << name << " " << i;
    }
  }
}

// As cat of gzip files makes it, and pigz and bgzip do for every block.
TEST_F(IdxTest, ReadsEveryMemberOfAGzipFile) {
  const std::string plain = Golden("images.idx");
  const std::string members =
      Packed(plain.substr(0, 9), kGzipBits) + Packed(plain.substr(9), kGzipBits);
  const absl::StatusOr<Tensor> images = ReadBytes(members);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ(images->TypeString(), "uint8[40,6,5]");
  const absl::string_view values(reinterpret_cast<const char*>(images->raw()), images->num_bytes());
  EXPECT_TRUE(absl::EndsWith(plain, values)) << "not the bytes after the header";
  const absl::StatusOr<Tensor> twice = ReadBytes(members + members);
  EXPECT_EQ(twice.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(twice.status().message()), HasSubstr("more data unpacks"));
}

TEST_F(IdxTest, ReadsEveryType) {
  const Tensor int8 = *ReadIdx(files_, GoldenPath("int8.idx"));
  const Tensor int32 = *ReadIdx(files_, GoldenPath("int32.idx"));
  const Tensor float32 = *ReadIdx(files_, GoldenPath("float32.idx"));
  const Tensor float64 = *ReadIdx(files_, GoldenPath("float64.idx"));
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(int8.data<int8_t>()[i], i - 5);
    EXPECT_EQ(int32.data<int32_t>()[i], (i - 5) * 1000003);
    EXPECT_EQ(float32.data<float>()[i], static_cast<float>((i - 5) * 0.3));
    EXPECT_EQ(float64.data<double>()[i], (i - 5) * 0.3);
  }
  EXPECT_EQ(int32.shape(), (Shape{4, 3}));
}

TEST_F(IdxTest, EveryCutIsFound) {
  for (const char* name : {"images.idx.gz", "labels.idx.gz", "int32.idx"}) {
    const std::string whole = Golden(name);
    for (size_t size = 0; size < whole.size(); size += (whole.size() > 100 ? 13 : 1)) {
      const absl::StatusOr<Tensor> read = ReadBytes(whole.substr(0, size));
      ASSERT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << name << " cut at " << size;
      EXPECT_THAT(std::string(read.status().message()), HasSubstr(path()));
      EXPECT_THAT(std::string(read.status().message()), HasSubstr("fetch it again"));
    }
  }
}

TEST_F(IdxTest, TrailingBytesAreFound) {
  for (const char* name : {"images.idx.gz", "images.idx"}) {
    const absl::StatusOr<Tensor> read = ReadBytes(Golden(name) + "x");
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("1 bytes follow"));
  }
}

TEST_F(IdxTest, AbsurdHeadersAreRefusedBeforeAllocation) {
  const auto header = [](std::initializer_list<int> bytes) {
    return std::string(bytes.begin(), bytes.end());
  };
  const struct {
    std::string bytes;
    const char* says;
  } cases[] = {
      {header({0, 0, 8, 3, 127, -1, -1, -1, 127, -1, -1, -1, 127, -1, -1, -1}), "can hold"},
      {header({0, 0, 8, 1, 0, 0, 1, 0, 1}), "can hold"},
      {header({0, 0, 8, 0}), "has 0 axes"},
      {header({0, 0, 8, -1}), "has 255 axes"},
      {header({0, 0, 0x0a, 1, 0, 0, 0, 1, 0, 0}), "type 0xa"},
      {header({0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 0}), "size 0"},
      {"PK\x03\x04 a zip file", "504b0304"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<Tensor> read = ReadBytes(c.bytes);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << c.says;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(c.says));
  }
}

TEST_F(IdxTest, EmptyArrayAndMissingFile) {
  const absl::StatusOr<Tensor> empty = ReadBytes(std::string("\0\0\x08\x01\0\0\0\0", 8));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->num_elements(), 0);
  EXPECT_EQ(ReadIdx(files_, "/nowhere/x").status().code(), absl::StatusCode::kNotFound);
}

// What RFC 1952 leaves without meaning for the data and outside the checksum: the flag FTEXT, time
// stamp, compression level and system, and the bits that pad the last byte before the trailer.
bool IsBenign(const std::string& whole, size_t offset, char flipped) {
  if (offset == 3) return flipped == 1;
  return (offset >= 4 && offset <= 9) || offset == whole.size() - 9;
}

TEST_F(IdxTest, EverySingleByteDamageIsFound) {
  constexpr uint64_t kSeed = 20;  // the damages depend on nothing else: change it to draw others
  SequenceRng random(kSeed);
  const std::string whole = Golden("images.idx.gz");
  const Tensor intact = *ReadIdx(files_, GoldenPath("images.idx.gz"));
  int found = 0;
  for (int i = 0; i < 500; ++i) {
    const size_t offset = random.Below(whole.size());
    std::string damaged = whole;
    const auto flipped = static_cast<char>(1 + random.Below(255));
    damaged[offset] = static_cast<char>(damaged[offset] ^ flipped);
    const absl::StatusOr<Tensor> read = ReadBytes(damaged);
    if (read.ok()) {
      ASSERT_TRUE(IsBenign(whole, offset, flipped))
          << "silent damage at " << offset << ", seed " << kSeed;
      ASSERT_EQ(std::memcmp(read->raw(), intact.raw(), intact.num_bytes()), 0);
    } else {
      ASSERT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << read.status();
      ++found;
    }
  }
  EXPECT_GT(found, 450);
}

struct MnistCase {
  const char* images;
  const char* labels;
  int64_t count;
  double mean;
  std::array<int64_t, 10> counts;
};

TEST_F(IdxTest, MnistFacts) {
  const char* const data = getenv("COHORT_DATA_DIR");
  if (data == nullptr) GTEST_SKIP() << "COHORT_DATA_DIR is not set";
  const std::string mnist = std::string(data) + "/mnist/";
  if (access((mnist + "t10k-images-idx3-ubyte.gz").c_str(), R_OK) != 0) {
    GTEST_SKIP() << "no MNIST under " << mnist;
  }
  const MnistCase cases[] = {{"train-images-idx3-ubyte.gz",
                              "train-labels-idx1-ubyte.gz",
                              60000,
                              33.3184,
                              {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}},
                             {"t10k-images-idx3-ubyte.gz",
                              "t10k-labels-idx1-ubyte.gz",
                              10000,
                              33.7912,
                              {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}}};
  for (const MnistCase& c : cases) {
    const Tensor images = *ReadIdx(files_, mnist + c.images);
    const Tensor labels = *ReadIdx(files_, mnist + c.labels);
    EXPECT_EQ(images.shape(), (Shape{c.count, 28, 28}));
    std::array<int64_t, 10> counts{};
    for (const uint8_t label : labels.span<uint8_t>()) counts.at(label)++;
    EXPECT_EQ(counts, c.counts);
    const auto pixels = images.span<uint8_t>();
    const double sum = std::accumulate(pixels.begin(), pixels.end(), 0.0);
    EXPECT_NEAR(sum / static_cast<double>(pixels.size()), c.mean, 5e-5);
  }
}

}  // namespace
}  // namespace cohort
