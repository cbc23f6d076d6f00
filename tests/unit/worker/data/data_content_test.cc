// How data are told from others: a recovery goes on with the same alone.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "google/protobuf/text_format.h"
#include "tests/support/world/memory_file_system.h"
#include "worker/data/dataset.h"

namespace cohort {
namespace {

proto::DatasetSpec Spec(const std::string& text) {
  proto::DatasetSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

// One byte per element.
std::string IdxOf(const std::string& values) {
  return std::string("\0\0\x08\x01\0\0\0", 7) + static_cast<char>(values.size()) + values;
}

TEST(DataContent, IsThatOfTheBytesAndNotOfPathOrAge) {
  MemoryFileSystem files;
  SourceCache sources(files, "");
  const auto content = [&](const std::string& path, const std::string& values) {
    EXPECT_TRUE(WriteFileAtomically(files, path, IdxOf(values)).ok());
    const auto dataset = Dataset::Build(
        Spec(absl::StrCat("source{idx{paths:'", path, "'}} transforms{take:1}")), sources);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return (*dataset)->content();
  };
  const uint32_t before = content("/a", "abc");
  EXPECT_EQ(content("/a", "abc"), before) << "written again";
  EXPECT_EQ(content("/b", "abc"), before) << "moved";
  EXPECT_NE(content("/a", "abd"), before);
  EXPECT_NE(content("/a", "abca"), before);
  const auto other = [&](const std::string& source) {
    return (*Dataset::Build(Spec(source), sources))->content();
  };
  EXPECT_NE(other("source{synthetic_digits{seed:1 count:9}}"),
            other("source{synthetic_digits{seed:2 count:9}}"));
  EXPECT_NE(other("source{range{end:9}}"), other("source{range{end:8}}"));
  EXPECT_NE(other("source{inline_tensors{tensors{dtype:2 dims:1 data:'a'}}}"),
            other("source{inline_tensors{tensors{dtype:2 dims:1 data:'b'}}}"));
}

}  // namespace
}  // namespace cohort
