#include "common/task/data_files.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using Files = google::protobuf::RepeatedPtrField<proto::DataFile>;

void Add(Files& files, const std::string& path, uint64_t bytes, uint32_t crc32c) {
  proto::DataFile& file = *files.Add();
  file.set_path(path);
  file.set_bytes(bytes);
  file.set_crc32c(crc32c);
}

TEST(DataFiles, TheFirstThatDiffersIsNamedWithBothReadersAndPaths) {
  Files here, there;
  Add(here, "/a/x.idx", 10, 1);
  Add(there, "/b/x.idx", 10, 1);
  EXPECT_EQ(FirstDifference({"worker:0", here}, {"worker:2", there}), "")
      << "the same content under two paths";
  Add(here, "/a/y.idx", 10, 0xab);
  Add(there, "/b/y.idx", 10, 0xac);
  Add(here, "/a/z.idx", 10, 1);
  Add(there, "/b/z.idx", 11, 1);
  EXPECT_EQ(FirstDifference({"worker:0", here}, {"worker:2", there}),
            "; the first file that differs: worker:0 read /a/y.idx (10 bytes, checksum 000000ab), "
            "and worker:2 /b/y.idx (10 bytes, checksum 000000ac)");
}

TEST(DataFiles, ThatOneReaderDidNotTellAreNotCompared) {
  Files here;
  Add(here, "/a/x.idx", 10, 1);
  EXPECT_EQ(FirstDifference({"worker:0", here}, {"worker:2", Files()}), "");
}

}  // namespace
}  // namespace cohort
