#include "coordinator/local/find_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "common/base/file_system.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// Thread-compatible.
class FindDaemonTest : public testing::Test {
 protected:
  FindDaemonTest() : path_before_(std::getenv("PATH")) {}
  ~FindDaemonTest() override { setenv("PATH", path_before_.c_str(), 1); }

  std::string MakeProgram(const std::string& directory, const std::string& name, int mode = 0755) {
    const std::string path = JoinPath(JoinPath(temp_.path(), directory), name);
    EXPECT_TRUE(files_.MakeDirectories(DirectoryOf(path)).ok());
    EXPECT_TRUE(WriteFileAtomically(files_, path, "#!/bin/sh\n").ok());
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string In(const std::string& directory) { return JoinPath(temp_.path(), directory); }

  const std::string path_before_;
  PosixFileSystem files_;
  TempDirectory temp_{"find-daemon"};
};

TEST_F(FindDaemonTest, TheInstalledNameComesBeforeThatOfABuild) {
  const std::string build = MakeProgram("a", "ps");
  EXPECT_EQ(*FindDaemon("ps", In("a")), build);
  const std::string installed = MakeProgram("a", "cohort-ps");
  EXPECT_EQ(*FindDaemon("ps", In("a")), installed);
}

TEST_F(FindDaemonTest, OnlyTheInstalledNameIsLookedForInPath) {
  MakeProgram("first", "ps");
  MakeProgram("second", "cohort-ps", 0644);
  const std::string installed = MakeProgram("third", "cohort-ps");
  setenv("PATH", (In("first") + ":" + In("second") + ":" + In("third")).c_str(), 1);
  EXPECT_EQ(*FindDaemon("ps", ""), installed) << "procps has a ps, and the second is no program";
}

TEST_F(FindDaemonTest, WhatIsNotThereIsNamedWithTheRemedy) {
  setenv("PATH", "/nowhere", 1);
  const absl::Status named = FindDaemon("worker", In("empty")).status();
  EXPECT_TRUE(absl::IsNotFound(named));
  EXPECT_THAT(std::string(named.message()), HasSubstr(In("empty")));
  const absl::Status anywhere = FindDaemon("worker", "").status();
  EXPECT_TRUE(absl::IsNotFound(anywhere));
  EXPECT_THAT(std::string(anywhere.message()), HasSubstr("nor cohort-worker in PATH"));
}

}  // namespace
}  // namespace cohort
