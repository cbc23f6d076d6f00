#include "ps_server/grant_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/memory_file_system.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr char kPath[] = "/ps-0.grant";

TEST(GrantFile, IsReadBackAndReplaced) {
  MemoryFileSystem files;
  EXPECT_EQ(ReadGrant(files, kPath)->epoch, 0u) << "no file yet";
  ASSERT_TRUE(WriteGrant(files, kPath, {5, 1, "a"}).ok());
  ASSERT_TRUE(WriteGrant(files, kPath, {6, 18446744073709551615u, "the \"job\"\n"}).ok());
  const auto grant = ReadGrant(files, kPath);
  ASSERT_TRUE(grant.ok()) << grant.status();
  EXPECT_EQ(grant->epoch, 6u);
  EXPECT_EQ(grant->coordinator_incarnation, 18446744073709551615u);
  EXPECT_EQ(grant->job, "the \"job\"\n");
}

TEST(GrantFile, ThatIsDamagedIsNamed) {
  MemoryFileSystem files;
  for (const char* const text :
       {"", "5", "5 1", "x 1 job", "-5 1 job", "5  job", "99999999999999999999 1 job"}) {
    ASSERT_TRUE(WriteFileAtomically(files, kPath, text).ok());
    const absl::Status error = ReadGrant(files, kPath).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(error.message()), HasSubstr(kPath));
  }
}

}  // namespace
}  // namespace cohort
