#include "common/base/path_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"

namespace cohort {
namespace {

using testing::HasSubstr;

class PathCheck : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteFileAtomically(files, file, "x").ok());
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  }

  void TearDown() override { std::filesystem::remove_all(directory); }

  static std::string MakeDirectory() {
    char pattern[] = "/tmp/cohort_path_check_XXXXXX";
    return mkdtemp(pattern);
  }
  std::string In(const std::string& name) const { return JoinPath(directory, name); }

  PosixFileSystem files;
  const std::string directory = MakeDirectory();
  const std::string file = In("file");
  const std::string fifo = In("fifo");
};

TEST_F(PathCheck, TildesAndUrlsAreNoPaths) {
  EXPECT_THAT(std::string(CheckLocalPath("~/x").message()), HasSubstr("'~/x' begins with ~"));
  EXPECT_FALSE(CheckLocalPath("~").ok());
  for (const char* url : {"s3://bucket/x", "gs://bucket", "file:///x", "hdfs://name:9000/x"}) {
    EXPECT_THAT(std::string(CheckLocalPath(url).message()), HasSubstr("is a URL")) << url;
  }
  for (const char* path : {"", "/x", "x~", "~x", "./~/x", "a:b", "/x://y", "://x"}) {
    EXPECT_TRUE(CheckLocalPath(path).ok()) << path;
  }
}

TEST_F(PathCheck, ADirectoryIsOneOrCanBecomeOne) {
  EXPECT_TRUE(CheckDirectoryPath(directory).ok());
  EXPECT_TRUE(CheckDirectoryPath(In("new/one/")).ok());
  EXPECT_TRUE(CheckDirectoryPath("new").ok());
  EXPECT_TRUE(CheckDirectoryPath("/").ok());
  for (const std::string& path : {file, fifo, file + "/below", fifo + "/far/below", file + "/"}) {
    const std::string refused(CheckDirectoryPath(path).message());
    EXPECT_THAT(refused, HasSubstr(" is not a directory")) << path;
    EXPECT_THAT(path, HasSubstr(refused.substr(0, refused.find(' '))));
  }
}

// Also by root, whom no permission stops.
TEST_F(PathCheck, TheKernelsFilesTakeNoDirectory) {
  for (const char* path : {"/proc/x", "/proc", "/sys/x/y", "/proc/self/fd/"}) {
    EXPECT_THAT(std::string(CheckDirectoryPath(path).message()),
                HasSubstr("cannot be written to: /proc and /sys take no files"))
        << path;
  }
}

TEST_F(PathCheck, ADirectoryCanBeWrittenTo) {
  if (geteuid() == 0) GTEST_SKIP() << "needs a user other than root";
  const std::string closed = In("closed");
  ASSERT_EQ(mkdir(closed.c_str(), 0555), 0);
  for (const std::string& path : {closed, closed + "/below/it"}) {
    const std::string refused(CheckDirectoryPath(path).message());
    EXPECT_THAT(refused, HasSubstr(closed + " cannot be written to: Permission denied"));
    EXPECT_FALSE(CheckFilePath(path + "/file").ok());
  }
}

TEST_F(PathCheck, AFileIsOneOrCanBecomeOne) {
  EXPECT_TRUE(CheckFilePath(file).ok());
  EXPECT_TRUE(CheckFilePath(In("new/one")).ok());
  for (const std::string& path : {directory, fifo, In("new/"), file + "/"}) {
    EXPECT_THAT(std::string(CheckFilePath(path).message()), HasSubstr(" is not a regular file"));
  }
  EXPECT_THAT(std::string(CheckFilePath(file + "/below").message()),
              HasSubstr(file + " is not a directory"));
}

TEST_F(PathCheck, ALinkIsJudgedByWhereItLeads) {
  const std::string link = In("link");
  for (const std::string& target : {file, In("new/one")}) {
    ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
    EXPECT_TRUE(CheckFilePath(link).ok()) << target;
    EXPECT_EQ(*FollowLinks(link), target);
    ASSERT_EQ(unlink(link.c_str()), 0);
  }
  for (const std::string& target : {directory, fifo, std::string("/dev/stdout")}) {
    ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
    EXPECT_THAT(std::string(CheckFilePath(link).message()),
                HasSubstr(target + "', to which '" + link + "' leads, is not a regular file"));
    ASSERT_EQ(unlink(link.c_str()), 0);
  }
  EXPECT_EQ(*FollowLinks("/dev/shm/model.onnx"), "/dev/shm/model.onnx");
}

TEST_F(PathCheck, NamesOfOneFileAreOnePlace) {
  const std::string hard = In("hard");
  const std::string soft = In("soft");
  ASSERT_EQ(link(file.c_str(), hard.c_str()), 0);
  ASSERT_EQ(symlink(file.c_str(), soft.c_str()), 0);
  const FilePlace place(file);
  for (const std::string& name : {file, hard, soft, In("./file")}) {
    EXPECT_TRUE(place.IsSame(FilePlace(name))) << name;
  }
  EXPECT_FALSE(place.IsSame(FilePlace(fifo)));
  EXPECT_FALSE(place.IsSame(FilePlace(In("new"))));
}

TEST_F(PathCheck, PlacesThatDoNotExistAreComparedByTheirPaths) {
  const std::string linked = In("linked");
  ASSERT_EQ(symlink(directory.c_str(), linked.c_str()), 0);
  const FilePlace place(In("new"));
  EXPECT_TRUE(place.IsSame(FilePlace(In("new/"))));
  EXPECT_TRUE(place.IsSame(FilePlace(linked + "/x/../new")));
  EXPECT_FALSE(place.IsSame(FilePlace(In("newer"))));
  EXPECT_TRUE(FilePlace(In("new/one")).IsBelow(place));
  EXPECT_FALSE(FilePlace(In("newer/one")).IsBelow(place));
  EXPECT_TRUE(place.IsBelow(FilePlace("/")));
}

}  // namespace
}  // namespace cohort
