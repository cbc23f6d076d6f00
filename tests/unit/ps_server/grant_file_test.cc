#include "ps_server/grant_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/temporary_file.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr char kPath[] = "/ps-0.grant";

TEST(GrantFile, IsReadBackAndReplaced) {
  MemoryFileSystem files;
  EXPECT_EQ(ReadGrant(files, kPath)->epoch, 0u) << "no file yet";
  ASSERT_TRUE(WriteGrant(files, kPath, {5, 1, {}, absl::Seconds(1)}).ok());
  EpochGrant written{6, 18446744073709551615u, {}, absl::Milliseconds(2500)};
  written.job.set_name("the \"job\"\n");
  written.job.set_settings(77);
  ASSERT_TRUE(WriteGrant(files, kPath, written).ok());
  const auto grant = ReadGrant(files, kPath);
  ASSERT_TRUE(grant.ok()) << grant.status();
  EXPECT_EQ(grant->epoch, 6u);
  EXPECT_EQ(grant->coordinator_incarnation, 18446744073709551615u);
  EXPECT_TRUE(SameJob(grant->job, written.job)) << grant->job.DebugString();
  EXPECT_EQ(grant->lease, written.lease);
}

TEST(GrantFile, ThatIsDamagedIsNamed) {
  MemoryFileSystem files;
  for (const char* const text :
       {"", "5", "5 1", "5 1 job", "x 1 2 5000 job", "-5 1 2 5000 job", "5  2 5000 job",
        "5 1 2 0 job", "5 1 x 5000 job", "99999999999999999999 1 2 5000 job"}) {
    ASSERT_TRUE(WriteFileAtomically(files, kPath, text).ok());
    const absl::Status error = ReadGrant(files, kPath).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(error.message()), HasSubstr(kPath));
  }
}

}  // namespace
}  // namespace cohort
