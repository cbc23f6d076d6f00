#include <gmock/gmock.h>

#include <cstdlib>
#include <random>

#include "common/checkpoint/bundle.h"
#include "tests/unit/common/checkpoint/bundle_support.h"
#include "tests/unit/common/checkpoint/crash_disk.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr char kPrefix[] = "d/ckpt-1";

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(Bundle, FourShardsAreReadAsThree) {
  CrashDisk disk(CrashDisk::kNever);
  const Tensor full = Ramp({13, 5});
  ASSERT_TRUE(Save(disk, kPrefix, 4, Partitioned("w", full, 4, 4)).ok());
  auto reader = BundleReader::Open(disk, kPrefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ((*reader)->tensors().size(), 1u);
  EXPECT_EQ((*reader)->tensors().at("w").shape, (Shape{13, 5}));
  for (const RowRange& rows : DivRows(13, 3)) {
    auto part = (*reader)->ReadRows("w", rows);
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_TRUE(SameTensor(*part, full.Rows(rows.begin, rows.count)));
  }
}

TEST(Bundle, EveryTypeAndRankComesBack) {
  CrashDisk disk(CrashDisk::kNever);
  std::vector<Piece> pieces;
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kUint8,
                      DType::kInt8, DType::kBool, DType::kFloat16, DType::kBfloat16}) {
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{0, 3}, Shape{4, 0}, Shape{7}, Shape{3, 2, 5}}) {
      Tensor tensor(dtype, shape);
      for (size_t i = 0; i < tensor.num_bytes(); ++i) {
        tensor.mutable_raw()[i] =
            static_cast<std::byte>(dtype == DType::kBool ? i % 2 : i * 37 + 1);
      }
      pieces.push_back(Whole(tensor.TypeString(), 0, tensor));
    }
  }
  ASSERT_TRUE(Save(disk, kPrefix, 1, pieces).ok());
  auto reader = BundleReader::Open(disk, kPrefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const Piece& piece : pieces) {
    auto tensor = (*reader)->Read(piece.name);
    ASSERT_TRUE(tensor.ok()) << piece.name << tensor.status();
    EXPECT_TRUE(SameTensor(*tensor, piece.value)) << piece.name;
  }
}

// Pieces of more than one read buffer, at borders that do not fall on it.
TEST(Bundle, SlicesLargerThanTheReadBuffer) {
  CrashDisk disk(CrashDisk::kNever);
  const Tensor full = Ramp({1009, 1021});
  ASSERT_TRUE(Save(disk, kPrefix, 2, Partitioned("w", full, 2, 2)).ok());
  auto reader = BundleReader::Open(disk, kPrefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(SameTensor(*(*reader)->Read("w"), full));
  EXPECT_TRUE(SameTensor(*(*reader)->ReadRows("w", {300, 407}), full.Rows(300, 407)));
}

TEST(Bundle, RandomLayoutsComeBack) {
  const char* given = std::getenv("COHORT_SEED");
  const unsigned first = given ? static_cast<unsigned>(std::atoi(given)) : 1;
  for (unsigned seed = first; seed < first + (given ? 1 : 200); ++seed) {
    SCOPED_TRACE(absl::StrCat("replay: COHORT_SEED=", seed,
                              " checkpoint_test --gtest_filter=Bundle.RandomLayoutsComeBack"));
    std::mt19937 random(seed);
    auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    CrashDisk disk(CrashDisk::kNever);
    const int num_shards = 1 + below(6);
    std::map<std::string, Tensor> tensors;
    std::vector<Piece> pieces;
    for (int t = 0; t < 1 + below(12); ++t) {
      const std::string name =
          absl::StrCat("t", t, std::string(static_cast<size_t>(below(3)), '\xff'));
      const Tensor full = below(2) ? Ramp({1 + below(300), 1 + below(4)}) : Ramp({1 + below(20)});
      tensors[name] = full;
      // Cuts anywhere, not only where DivRows has them.
      for (int64_t row = 0; row < full.shape().dim(0);) {
        const int64_t count = 1 + below(static_cast<int>(full.shape().dim(0) - row));
        pieces.push_back(RowsOf(name, below(num_shards), full, {row, count}));
        row += count;
      }
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    const absl::Status status = Save(disk, kPrefix, num_shards, pieces);
    ASSERT_TRUE(status.ok()) << status;
    auto reader = BundleReader::Open(disk, kPrefix);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ASSERT_EQ((*reader)->tensors().size(), tensors.size());
    for (const auto& [name, full] : tensors) {
      ASSERT_TRUE(SameTensor(*(*reader)->Read(name), full));
      for (const RowRange& rows : DivRows(full.shape().dim(0), 1 + below(5))) {
        ASSERT_TRUE(
            SameTensor(*(*reader)->ReadRows(name, rows), full.Rows(rows.begin, rows.count)));
      }
    }
  }
}

TEST(Bundle, TheSameSlicesInAnyOrderGiveTheSameIndex) {
  CrashDisk disk(CrashDisk::kNever);
  auto slices = SaveShards(disk, kPrefix, 3, Partitioned("w", Ramp({9, 2}), 5, 3));
  ASSERT_TRUE(slices.ok());
  ASSERT_TRUE(WriteIndex(disk, kPrefix, 3, *slices).ok());
  const std::string first = disk.bytes("d/ckpt-1.index");
  std::reverse(slices->begin(), slices->end());
  ASSERT_TRUE(WriteIndex(disk, kPrefix, 3, *slices).ok());
  EXPECT_EQ(disk.bytes("d/ckpt-1.index"), first);
}

TEST(Bundle, ErrorsOfReading) {
  CrashDisk disk(CrashDisk::kNever);
  ASSERT_TRUE(absl::IsNotFound(BundleReader::Open(disk, kPrefix).status()));
  ASSERT_TRUE(
      Save(disk, kPrefix, 2, {Whole("s", 0, Tensor::Scalar(2.0f)), Whole("w", 1, Ramp({3, 2}))})
          .ok());
  auto reader = BundleReader::Open(disk, kPrefix);
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(absl::IsNotFound((*reader)->Read("x").status()));
  for (const RowRange& rows : {RowRange{-1, 1}, RowRange{0, 4}, RowRange{3, 1}, RowRange{0, -1},
                               RowRange{INT64_MAX, 1}, RowRange{1, INT64_MAX}}) {
    EXPECT_TRUE(absl::IsInvalidArgument((*reader)->ReadRows("w", rows).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument((*reader)->ReadRows("s", {0, 0}).status()));
  EXPECT_EQ(*(*reader)->ReadRows("s", {0, 1})->data<float>(), 2.0f);

  auto expect_loss = [&](const std::string& file) {
    const absl::Status status = BundleReader::Open(disk, kPrefix).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(Message(status), HasSubstr(file));
  };
  disk.bytes("d/ckpt-1.data-00001-of-00002").pop_back();
  expect_loss("d/ckpt-1.data-00001-of-00002");
  ASSERT_TRUE(disk.Remove("d/ckpt-1.data-00000-of-00002").ok());
  expect_loss("d/ckpt-1.data-00000-of-00002");
}

TEST(DataShardWriter, RefusesWhatIsNotASlice) {
  CrashDisk disk(CrashDisk::kNever);
  EXPECT_TRUE(absl::IsInvalidArgument(DataShardWriter::Create(disk, kPrefix, 2, 2).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DataShardWriter::Create(disk, kPrefix, -1, 2).status()));
  auto writer = DataShardWriter::Create(disk, kPrefix, 0, 1);
  ASSERT_TRUE(writer.ok());
  const Tensor value = Ramp({2, 3});
  auto add = [&](const std::string& name, Shape full, RowRange rows, const Tensor& tensor) {
    return (*writer)->Add(name, full, rows, tensor).code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(add("", {2, 3}, {0, 2}, value), kInvalid);
  EXPECT_EQ(add(std::string("\0x", 2), {2, 3}, {0, 2}, value), kInvalid);
  EXPECT_EQ(add("w", {5, 3}, {4, 2}, value), kInvalid);
  EXPECT_EQ(add("w", {5, 3}, {-1, 2}, value), kInvalid);
  EXPECT_EQ(add("w", {5, 3}, {0, 3}, value), kInvalid);
  EXPECT_EQ(add("w", {5, 4}, {0, 2}, value), kInvalid);
  EXPECT_EQ(add("w", {5}, {0, 2}, value), kInvalid);
  EXPECT_EQ(add("w", {2, 3}, {0, 2}, Tensor()), kInvalid);
  EXPECT_EQ(add("w", {5, 3}, {0, 0}, value.Rows(0, 0)), kInvalid);
  EXPECT_EQ(add("w", {5, 3}, {3, 2}, value), absl::StatusCode::kOk);
}

TEST(DataShardWriter, NeverTouchesACompleteCheckpoint) {
  CrashDisk disk(CrashDisk::kNever);
  const std::vector<Piece> pieces = {Whole("w", 0, Ramp({3}))};
  auto late = DataShardWriter::Create(disk, kPrefix, 0, 1);
  ASSERT_TRUE(late.ok());
  ASSERT_TRUE(Save(disk, kPrefix, 1, pieces).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(DataShardWriter::Create(disk, kPrefix, 0, 1).status()));
  ASSERT_TRUE((*late)->Add("w", {3}, {0, 3}, Ramp({3}).Clone()).ok());
  EXPECT_TRUE(absl::IsAlreadyExists((*late)->Finish().status()));
  EXPECT_TRUE(SameTensor(*(*BundleReader::Open(disk, kPrefix))->Read("w"), Ramp({3})));
}

class WriteIndexErrors : public testing::Test {
 protected:
  void SetUp() override {
    auto slices = SaveShards(disk_, kPrefix, 2, Partitioned("w", Ramp({10, 2}), 2, 2));
    ASSERT_TRUE(slices.ok());
    slices_ = *slices;
  }
  void ExpectInvalid(const std::vector<proto::SavedSlice>& slices, const std::string& text) {
    const absl::Status status = WriteIndex(disk_, kPrefix, 2, slices);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(Message(status), HasSubstr(text));
    EXPECT_FALSE(disk_.has("d/ckpt-1.index"));
  }
  template <typename Change>
  void ExpectInvalidAfter(Change change, const std::string& text) {
    std::vector<proto::SavedSlice> slices = slices_;
    change(slices[1]);
    ExpectInvalid(slices, text);
  }

  CrashDisk disk_{CrashDisk::kNever};
  std::vector<proto::SavedSlice> slices_;
};

TEST_F(WriteIndexErrors, GapsOverlapsAndDisagreements) {
  ExpectInvalid({slices_[0]}, "leave 10 elements");
  ExpectInvalid({slices_[0], slices_[1], slices_[1]}, "overlap");
  ExpectInvalidAfter([](auto& s) { s.set_row_begin(4); }, "overlap");
  ExpectInvalidAfter([](auto& s) { s.set_full_dims(0, 11); }, "disagree");
  ExpectInvalidAfter([](auto& s) { s.set_dtype(6); }, "disagree");
}

TEST_F(WriteIndexErrors, MalformedReports) {
  ExpectInvalidAfter([](auto& s) { s.set_tensor(""); }, "rename");
  ExpectInvalidAfter([](auto& s) { s.set_dtype(0); }, "element type");
  ExpectInvalidAfter([](auto& s) { s.set_dtype(99); }, "element type");
  ExpectInvalidAfter([](auto& s) { s.set_shard(2); }, "data shard 2 of 2");
  ExpectInvalidAfter([](auto& s) { s.set_row_begin(INT64_MAX); }, "rows");
  ExpectInvalidAfter([](auto& s) { s.set_row_count(INT64_MIN); }, "rows");
  ExpectInvalidAfter([](auto& s) { s.set_full_dims(1, -1); }, "negative");
  ExpectInvalidAfter([](auto& s) { s.set_full_dims(1, INT64_MAX); }, "2^62");
  ExpectInvalidAfter([](auto& s) { s.set_size(3); }, "bytes");
  ExpectInvalidAfter([](auto& s) { s.set_offset(-1); }, "bytes");
}

TEST_F(WriteIndexErrors, MissingOrShortDataShard) {
  slices_[1].set_offset(1);
  EXPECT_EQ(WriteIndex(disk_, kPrefix, 2, slices_).code(), absl::StatusCode::kFailedPrecondition);
  slices_[1].set_offset(0);
  ASSERT_TRUE(disk_.Remove("d/ckpt-1.data-00000-of-00002").ok());
  const absl::Status status = WriteIndex(disk_, kPrefix, 2, slices_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("d/ckpt-1.data-00000-of-00002"));
}

}  // namespace
}  // namespace cohort
