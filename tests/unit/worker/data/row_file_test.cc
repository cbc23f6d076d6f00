// Arrays whose rows stay in their file give what the same arrays in memory give.

#include "worker/data/row_file.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "common/formats/memory_file.h"
#include "common/formats/npy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/world/memory_file_system.h"
#include "worker/data/dataset.h"
#include "worker/data/idx.h"
#include "worker/data/numpy_array.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RowFile, ReadsRowsInAnyOrder) {
  // Six big-endian int16 in rows of two, behind a byte of something else.
  const std::string bytes("?\0\x01\0\x02\xff\xff\0\x04\x01\0\0\x06", 13);
  StoredArray array{{StoredType::Kind::kSigned, 2, /*big_endian=*/true}, Shape({3, 2}), 1};
  const auto rows = RowFile::Make(std::make_unique<MemoryFile>(bytes), "some/file", array);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)->rows(), 3);
  EXPECT_EQ((*rows)->dtype(), DType::kInt32);
  const auto read = (*rows)->Read({2, 0, 1, 2});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->shape(), Shape({4, 2}));
  EXPECT_THAT(read->span<int32_t>(), ElementsAre(256, 6, 1, 2, -1, 4, 256, 6));
  EXPECT_EQ((*rows)->Read({})->shape(), Shape({0, 2}));
  array.begin = 2;
  EXPECT_THAT(
      RowFile::Make(std::make_unique<MemoryFile>(bytes), "some/file", array).status().message(),
      HasSubstr("needs 12 bytes from byte 2 on, and it has 13"));
}

// Returns an IDX file of `rows` rows of 1 MiB, each with its number in all bytes.
std::string LargeIdx(uint8_t rows) {
  std::string bytes("\0\0\x08\2\0\0\0", 7);
  bytes.push_back(static_cast<char>(rows));
  bytes += std::string("\0\x10\0\0", 4);
  for (uint8_t row = 0; row < rows; ++row) bytes.append(size_t{1} << 20, static_cast<char>(row));
  return bytes;
}

TEST(RowFile, LargeIdxFilesStayInTheirFile) {
  MemoryFileSystem files;
  ASSERT_TRUE(WriteFileAtomically(files, "/x.idx", LargeIdx(70)).ok());
  ASSERT_TRUE(WriteFileAtomically(files, "/small.idx", LargeIdx(2)).ok());
  EXPECT_EQ(*OpenLargeIdx(files, "/small.idx"), nullptr);
  SourceCache sources(files, "/");
  proto::DatasetSpec spec;
  spec.mutable_source()->mutable_idx()->add_paths("x.idx");
  spec.add_transforms()->mutable_batch()->set_size(3);
  spec.add_transforms()->mutable_rescale()->set_scale(2);
  const auto dataset = Dataset::Build(spec, sources);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->cardinality(), 24);
  EXPECT_EQ(sources.live_arrays(), 0u);
  proto::IteratorPosition position;
  position.set_element(23);
  const auto batch = (*dataset)->ElementAt(position);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)[0].shape(), Shape({1, 1 << 20}));
  EXPECT_EQ((*batch)[0].data<float>()[12345], 138.0f);
  // A file of another length than its header says is refused, as a small one is.
  ASSERT_TRUE(WriteFileAtomically(files, "/long.idx", LargeIdx(70) + "x").ok());
  EXPECT_THAT(OpenLargeIdx(files, "/long.idx").status().message(),
              HasSubstr("/long.idx: its header says uint8[70,1048576], which is not the"));
}

// NumPy wrote the archives (tests/golden/formats/make.py).
TEST(NumpyArray, ArraysOfAnArchiveAreReadByName) {
  PosixFileSystem files;
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::string path = std::string(COHORT_SOURCE_DIR "/tests/golden/formats/") + name;
    const auto array = OpenNumpyArray(files, path, "i2");
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->values->shape(), Shape({2, 3}));
    EXPECT_THAT(array->values->span<int32_t>(), ElementsAre(-7, -4, -1, 2, 5, 8));
    EXPECT_THAT(OpenNumpyArray(files, path, "i3").status().message(),
                testing::AllOf(HasSubstr("has no array 'i3'; it has "), HasSubstr("i2")));
    EXPECT_THAT(OpenNumpyArray(files, path, "").status().message(), HasSubstr("needs keys"));
    EXPECT_THAT(OpenNumpyArray(files, path, "scalar").status().message(),
                HasSubstr("scalar: is one value"));
  }
}

TEST(NumpyArray, ArraysOfFilesAreComponents) {
  MemoryFileSystem files;
  Tensor small(DType::kInt64, Shape({66}));
  for (int64_t i = 0; i < 66; ++i) small.mutable_data<int64_t>()[i] = i;
  Tensor large(DType::kFloat32, Shape({66, 1 << 18}));
  for (int64_t i = 0; i < large.num_elements(); ++i) {
    large.mutable_data<float>()[i] = static_cast<float>(i / (1 << 18));
  }
  for (const auto& [path, tensor] : {std::pair{"/x.npy", &large}, {"/y.npy", &small}}) {
    std::string bytes = *NpyHeaderBytes(*tensor);
    bytes.append(reinterpret_cast<const char*>(tensor->raw()), tensor->num_bytes());
    ASSERT_TRUE(WriteFileAtomically(files, path, bytes).ok());
  }
  const auto array = OpenNumpyArray(files, "/x.npy", "");
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_NE(array->rows, nullptr);
  SourceCache sources(files, "/");
  proto::DatasetSpec spec;
  for (const char* path : {"x.npy", "y.npy"})
    spec.mutable_source()->mutable_numpy()->add_paths(path);
  spec.add_transforms()->mutable_shuffle()->set_order(proto::Shuffle::GLOBAL);
  spec.add_transforms()->mutable_batch()->set_size(7);
  const auto dataset = Dataset::Build(spec, sources);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  for (int64_t element = 0; element < 10; ++element) {
    proto::IteratorPosition position;
    position.set_element(element);
    const auto batch = (*dataset)->ElementAt(position);
    ASSERT_TRUE(batch.ok()) << batch.status();
    for (int64_t row = 0; row < (*batch)[1].num_elements(); ++row) {
      EXPECT_EQ((*batch)[0].data<float>()[row << 18],
                static_cast<float>((*batch)[1].data<int64_t>()[row]));
    }
  }
  EXPECT_THAT(OpenNumpyArray(files, "/x.npy", "a").status().message(),
              HasSubstr("/x.npy: is no .npz file, which keys are for"));
}

}  // namespace
}  // namespace cohort
