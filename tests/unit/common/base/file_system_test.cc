// One suite for every FileSystem, and the faults of the one in memory.

#include "common/base/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Place {
  std::unique_ptr<FileSystem> files;
  std::string root;
};

Place PosixPlace() {
  char pattern[] = "/tmp/cohort_file_system_XXXXXX";
  return {std::make_unique<PosixFileSystem>(), mkdtemp(pattern)};
}

Place MemoryPlace() {
  Place place{std::make_unique<MemoryFileSystem>(), "/place/of/test"};
  EXPECT_TRUE(place.files->MakeDirectories(place.root).ok());
  return place;
}

struct Implementation {
  const char* name;
  Place (*make)();
};

class FileSystemConformance : public ::testing::TestWithParam<Implementation> {
 protected:
  FileSystemConformance() : place_(GetParam().make()), files_(*place_.files) {}
  ~FileSystemConformance() override {
    std::error_code ignored;
    if (place_.root.find("/tmp/cohort_") == 0) std::filesystem::remove_all(place_.root, ignored);
  }

  std::string Path(const std::string& name) const { return JoinPath(place_.root, name); }
  void Write(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(files_, Path(name), bytes).ok());
  }

  Place place_;
  FileSystem& files_;
};

INSTANTIATE_TEST_SUITE_P(All, FileSystemConformance,
                         ::testing::Values(Implementation{"posix", PosixPlace},
                                           Implementation{"memory", MemoryPlace}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(FileSystemConformance, ReadsWhatWasAppended) {
  auto file = files_.Create(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Append("hello ").ok());
  EXPECT_TRUE((*file)->Append("").ok());
  EXPECT_TRUE((*file)->Append(std::string("wor\0ld", 6)).ok());
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_EQ(*ReadFile(files_, Path("a")), std::string("hello wor\0ld", 12));
}

TEST_P(FileSystemConformance, ReadsFromAnOffset) {
  Write("a", "0123456789");
  const auto file = files_.Open(Path("a"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 10u);
  std::string out(3, ' ');
  EXPECT_TRUE((*file)->Read(7, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, "789");
}

TEST_P(FileSystemConformance, ReadingBeyondTheEndIsOutOfRange) {
  Write("a", "0123456789");
  const auto file = files_.Open(Path("a"));
  std::string out(3, ' ');
  for (const uint64_t offset : {uint64_t{8}, uint64_t{10}, uint64_t{11}, ~uint64_t{0}}) {
    const absl::Status status = (*file)->Read(offset, absl::MakeSpan(out));
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << offset;
    EXPECT_THAT(std::string(status.message()), HasSubstr(Path("a")));
  }
  EXPECT_TRUE((*file)->Read(10, absl::Span<char>()).ok());
}

TEST_P(FileSystemConformance, CreateNeverTakesWhatIsThere) {
  Write("a", "old");
  EXPECT_EQ(files_.Create(Path("a")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadFile(files_, Path("a")), "old");
}

TEST_P(FileSystemConformance, AClosedFileRefusesEverything) {
  auto file = files_.Create(Path("a"));
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_FALSE((*file)->Append("x").ok());
  EXPECT_FALSE((*file)->Sync().ok());
  EXPECT_FALSE((*file)->Close().ok());
}

TEST_P(FileSystemConformance, MissingThingsAreNotFoundAndNamed) {
  const std::string missing = Path("no/such");
  const std::vector<absl::Status> answers = {
      files_.Open(missing).status(), files_.Create(missing).status(), files_.List(missing).status(),
      files_.Rename(missing, Path("b")), ReadFile(files_, missing).status()};
  for (const absl::Status& status : answers) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("no/such"));
  }
}

TEST_P(FileSystemConformance, ListIsSortedAndShallow) {
  EXPECT_THAT(*files_.List(place_.root), IsEmpty());
  ASSERT_TRUE(files_.MakeDirectories(Path("d/e")).ok());
  Write("b", "");
  Write("a", "");
  Write("d/inside", "");
  EXPECT_THAT(*files_.List(place_.root), ElementsAre("a", "b", "d"));
  EXPECT_THAT(*files_.List(Path("d/")), ElementsAre("e", "inside"));
}

TEST_P(FileSystemConformance, RenameReplaces) {
  Write("a", "new");
  Write("b", "old");
  EXPECT_TRUE(files_.Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(*ReadFile(files_, Path("b")), "new");
  EXPECT_THAT(*files_.List(place_.root), ElementsAre("b"));
}

TEST_P(FileSystemConformance, RemoveOfAMissingFileIsGood) {
  Write("a", "x");
  EXPECT_TRUE(files_.Remove(Path("a")).ok());
  EXPECT_TRUE(files_.Remove(Path("a")).ok());
  EXPECT_THAT(*files_.List(place_.root), IsEmpty());
}

TEST_P(FileSystemConformance, RemoveTakesOnlyEmptyDirectories) {
  ASSERT_TRUE(files_.MakeDirectories(Path("d")).ok());
  Write("d/a", "x");
  EXPECT_EQ(files_.Remove(Path("d")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*ReadFile(files_, Path("d/a")), "x");
  EXPECT_TRUE(files_.Remove(Path("d/a")).ok());
  EXPECT_TRUE(files_.Remove(Path("d")).ok());
  EXPECT_EQ(files_.List(Path("d")).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(FileSystemConformance, MakeDirectoriesTwiceAndOverAFile) {
  EXPECT_TRUE(files_.MakeDirectories(Path("x/y/z")).ok());
  EXPECT_TRUE(files_.MakeDirectories(Path("x//y/")).ok());
  Write("file", "");
  EXPECT_EQ(files_.MakeDirectories(Path("file")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files_.MakeDirectories(Path("file/x")).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(FileSystemConformance, DirectoriesAndFilesAreNotMixedUp) {
  ASSERT_TRUE(files_.MakeDirectories(Path("d")).ok());
  Write("file", "");
  EXPECT_EQ(files_.Open(Path("d")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files_.Create(Path("d")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(files_.List(Path("file")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files_.Create(Path("file/x")).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(FileSystemConformance, AnOpenFileKeepsItsContentWhenReplaced) {
  Write("a", "old");
  const auto file = files_.Open(Path("a"));
  Write("a", "new!");
  std::string out(3, ' ');
  EXPECT_TRUE((*file)->Read(0, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, "old");
  EXPECT_EQ(*ReadFile(files_, Path("a")), "new!");
}

TEST_P(FileSystemConformance, WriteFileAtomicallyLeavesNothingElse) {
  Write("a", "1");
  Write("a", "22");
  EXPECT_EQ(*ReadFile(files_, Path("a")), "22");
  EXPECT_THAT(*files_.List(place_.root), ElementsAre("a"));
}

// Two savers of one path, as an old coordinator that still writes and its successor.
TEST_P(FileSystemConformance, NoWriterRenamesWhatAnotherHasBegun) {
  const auto first = TemporaryFile::Create(files_, Path("a"));
  ASSERT_TRUE((*first)->Append("the first, ").ok());
  const auto second = TemporaryFile::Create(files_, Path("a"));
  ASSERT_TRUE((*second)->Append("half of the second").ok());
  ASSERT_TRUE((*first)->Append("whole").ok());
  ASSERT_TRUE((*first)->Seal().ok());
  ASSERT_TRUE((*first)->Commit().ok());
  EXPECT_EQ(*ReadFile(files_, Path("a")), "the first, whole");
}

TEST_P(FileSystemConformance, AFileThatIsDiscardedIsRemoved) {
  const auto file = TemporaryFile::Create(files_, Path("a"));
  ASSERT_TRUE((*file)->Append("x").ok());
  const std::vector<std::string> names = *files_.List(place_.root);
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(IsTemporaryName(names[0])) << names[0];
  EXPECT_EQ(FinalName(names[0]), "a");
  (*file)->Discard();
  EXPECT_THAT(*files_.List(place_.root), IsEmpty());
}

class FileLocks : public FileSystemConformance {};

INSTANTIATE_TEST_SUITE_P(All, FileLocks, ::testing::Values(Implementation{"posix", PosixPlace}));

TEST_P(FileLocks, ExcludeOthersAndLeaveNothing) {
  const std::string path = Path("lock");
  auto first = files_.Lock(path, "process 1 on host a");
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status refused = files_.Lock(path, "process 2").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is locked by process 1 on host a"));
  first->reset();
  EXPECT_THAT(*files_.List(place_.root), IsEmpty());
  EXPECT_TRUE(files_.Lock(path, "process 2").ok());
}

// As a process leaves one that was killed.
TEST_P(FileLocks, TakeAFileThatNobodyHolds) {
  const std::string path = Path("lock");
  ASSERT_TRUE(WriteFileAtomically(files_, path, "process 1, which ended long ago").ok());
  const auto lock = files_.Lock(path, "process 2");
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(*ReadFile(files_, path), "process 2");
}

// As what a call in flight holds at the end of a process.
TEST(TemporaryFiles, MayBeDestroyedBehindTheirFileSystem) {
  auto files = std::make_unique<MemoryFileSystem>();
  auto file = *TemporaryFile::Create(*files, "/a");
  ASSERT_TRUE(file->Append("x").ok());
  files.reset();
  file.reset();
}

// At each call that can fail.
TEST(TemporaryFiles, ThatCannotBeWrittenAreRemoved) {
  for (int calls = 1; calls <= 4; ++calls) {
    MemoryFileSystem files;
    files.FailAfter(calls, absl::ResourceExhaustedError("no space left"));
    const absl::Status failed = WriteFileAtomically(files, "/a", "x");
    EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(failed.message()), testing::Not(HasSubstr(".tmp")));
    EXPECT_THAT(*files.List("/"), IsEmpty()) << calls;
  }
}

TEST_P(FileSystemConformance, WhatKilledWritersLeftOfAPathIsRemoved) {
  for (const char* name : {"a", "a.tmp", "a.0123456789abcdef.tmp", "ab.0123456789abcdef.tmp"}) {
    ASSERT_TRUE((*files_.Create(Path(name)))->Close().ok());
  }
  RemoveTemporaries(files_, Path("a"));
  EXPECT_THAT(*files_.List(place_.root), ElementsAre("a", "ab.0123456789abcdef.tmp"));
}

TEST_P(FileSystemConformance, AProbeLeavesNothing) {
  EXPECT_TRUE(ProbeDirectory(files_, Path("x/y")).ok());
  EXPECT_THAT(*files_.List(Path("x/y")), IsEmpty());
  Write("file", "");
  const absl::Status refused = ProbeDirectory(files_, Path("file/x"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("file"));
}

TEST(PosixFiles, ASymbolicLinkIsNeverWrittenThrough) {
  const Place place = PosixPlace();
  ASSERT_TRUE(WriteFileAtomically(*place.files, place.root + "/victim", "mine").ok());
  for (const char* target : {"/victim", "/nothing"}) {
    const std::string link = place.root + "/link";
    ASSERT_EQ(symlink((place.root + target).c_str(), link.c_str()), 0);
    EXPECT_EQ(place.files->Create(link).status().code(), absl::StatusCode::kAlreadyExists);
    ASSERT_EQ(unlink(link.c_str()), 0);
  }
  EXPECT_EQ(*ReadFile(*place.files, place.root + "/victim"), "mine");
  EXPECT_THAT(*place.files->List(place.root), ElementsAre("victim"));
  std::filesystem::remove_all(place.root);
}

class PosixLinks : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(files_.MakeDirectories(In("links")).ok());
    ASSERT_TRUE(files_.MakeDirectories(In("targets")).ok());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string In(const std::string& name) const { return JoinPath(root_, name); }
  void Link(const std::string& name, const std::string& target) {
    ASSERT_EQ(symlink(target.c_str(), In(name).c_str()), 0);
  }

  const std::string root_ = PosixPlace().root;
  PosixFileSystem files_;
};

// The user has named the file to which the link leads.
TEST_F(PosixLinks, ALinkStaysAndItsFileIsReplaced) {
  ASSERT_TRUE(WriteFileAtomically(files_, In("targets/there"), "old").ok());
  Link("links/absolute", In("targets/there"));
  Link("links/relative", "../targets/there");
  Link("links/chain", "relative");
  Link("links/dangling", "../targets/new");
  for (const char* name : {"absolute", "relative", "chain", "dangling"}) {
    const std::string link = In(absl::StrCat("links/", name));
    EXPECT_TRUE(ProbeFile(files_, link).ok()) << name;
    ASSERT_TRUE(WriteFileAtomically(files_, link, name).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(link)) << name;
    EXPECT_EQ(*ReadFile(files_, link), name);
  }
  EXPECT_EQ(*ReadFile(files_, In("targets/there")), "chain");
  EXPECT_EQ(*ReadFile(files_, In("targets/new")), "dangling");
  EXPECT_THAT(*files_.List(In("targets")), ElementsAre("new", "there"));
  EXPECT_THAT(*files_.List(In("links")), ElementsAre("absolute", "chain", "dangling", "relative"));
}

// The directory of the link may be one that nobody writes to.
TEST_F(PosixLinks, TheTemporaryFileLiesBesideTheFileThatIsReplaced) {
  Link("links/model", In("targets/model"));
  const auto file = TemporaryFile::Create(files_, In("links/model"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(*files_.List(In("links")), ElementsAre("model"));
  ASSERT_EQ(files_.List(In("targets"))->size(), 1u);
  EXPECT_EQ(FinalName(files_.List(In("targets"))->front()), "model");
  RemoveTemporaries(files_, In("links/model"));
  EXPECT_THAT(*files_.List(In("targets")), IsEmpty());
}

// As root a rename would put a regular file in the place of /dev/stdout.
TEST_F(PosixLinks, ALinkToWhatIsNotARegularFileIsRefused) {
  ASSERT_EQ(mkfifo(In("targets/fifo").c_str(), 0600), 0);
  Link("links/fifo", In("targets/fifo"));
  Link("links/directory", In("targets"));
  Link("links/null", "/dev/null");
  Link("links/stdout", "/dev/stdout");
  Link("links/process", "/proc/self/fd/1");
  Link("links/circle", "circle");
  Link("links/devices", "/dev");
  for (const char* name :
       {"fifo", "directory", "null", "stdout", "process", "circle", "devices/new"}) {
    const std::string link = In(absl::StrCat("links/", name));
    const absl::Status written = WriteFileAtomically(files_, link, "x");
    EXPECT_TRUE(absl::IsFailedPrecondition(written)) << name << ": " << written;
    EXPECT_TRUE(absl::IsFailedPrecondition(ProbeFile(files_, link))) << name;
  }
  for (const char* path : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/cohort_new"}) {
    const absl::Status written = WriteFileAtomically(files_, path, "x");
    EXPECT_TRUE(absl::IsFailedPrecondition(written)) << path << ": " << written;
    EXPECT_THAT(std::string(written.message()), HasSubstr("is not a regular file"));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(In("targets/fifo")));
  EXPECT_TRUE(std::filesystem::is_symlink(In("links/null")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(std::filesystem::is_symlink("/dev/stdout"));
}

// In /tmp anybody may make a link with the name of an output. Only root can make that here.
TEST_F(PosixLinks, ALinkOfAnotherUserIsNotFollowedInADirectoryForAll) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make a link of another user";
  ASSERT_TRUE(WriteFileAtomically(files_, In("targets/victim"), "mine").ok());
  Link("links/foreign", In("targets/victim"));
  Link("links/own", In("targets/victim"));
  ASSERT_EQ(lchown(In("links/foreign").c_str(), 12345, 12345), 0);
  EXPECT_TRUE(WriteFileAtomically(files_, In("links/foreign"), "mine").ok()) << "not for all";
  ASSERT_EQ(chmod(In("links").c_str(), 01777), 0);
  const absl::Status refused = WriteFileAtomically(files_, In("links/foreign"), "theirs");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is a symbolic link of another user"));
  EXPECT_EQ(*ReadFile(files_, In("targets/victim")), "mine");
  EXPECT_TRUE(WriteFileAtomically(files_, In("links/own"), "new").ok());
}

// As root a rename would replace /dev/null, and to open a FIFO for reading waits for its writer.
TEST(PosixFiles, WhatIsNotARegularFileIsNeitherReadNorReplaced) {
  const Place place = PosixPlace();
  const std::string fifo = JoinPath(place.root, "fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string directory = JoinPath(place.root, "directory");
  ASSERT_TRUE(place.files->MakeDirectories(directory).ok());
  for (const std::string& path : {fifo, directory}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(place.files->Open(path).status())) << path;
    EXPECT_TRUE(absl::IsFailedPrecondition(ProbeFile(*place.files, path))) << path;
    const absl::Status written = WriteFileAtomically(*place.files, path, "x");
    EXPECT_TRUE(absl::IsFailedPrecondition(written)) << written;
    EXPECT_THAT(std::string(written.message()), HasSubstr("is not a regular file"));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  const std::string fresh = JoinPath(place.root, "made/fresh");
  EXPECT_TRUE(ProbeFile(*place.files, fresh).ok());
  EXPECT_TRUE(absl::IsNotFound(place.files->Open(fresh).status()));
}

TEST(PosixFiles, ARelativePathThatCannotBeOpenedIsNamedWithItsDirectory) {
  const absl::Status status = PosixFileSystem().Open("not/here").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("not/here in ", std::filesystem::current_path().string())));
}

TEST(PosixFiles, ARelativePathThatCannotBeReadIsNamedWithItsDirectory) {
  // A directory, and this test's own program, from the directory that the test runs in.
  const std::string here = absl::StrCat(" in ", std::filesystem::current_path().string());
  PosixFileSystem files;
  EXPECT_EQ(files.Open("..").status().message(),
            absl::StrCat("..", here, " is not a regular file"));
  const std::string program =
      std::filesystem::relative(std::filesystem::read_symlink("/proc/self/exe")).string();
  const auto opened = files.Open(program);
  ASSERT_TRUE(opened.ok()) << opened.status();
  char byte = 0;
  EXPECT_THAT(std::string((*opened)->Read((*opened)->size(), absl::MakeSpan(&byte, 1)).message()),
              HasSubstr(absl::StrCat(program, here, " ends at byte ")));
}

TEST(TemporaryNames, AreToldFromOthers) {
  EXPECT_EQ(FinalName("m.index.0123456789abcdef.tmp"), "m.index");
  EXPECT_EQ(FinalName("m.index.tmp"), "m.index");
  for (const char* name : {"m.index", "m.index.0123456789abcdef", "tmp", "m.tmp.x", ""}) {
    EXPECT_EQ(FinalName(name), name);
    EXPECT_FALSE(IsTemporaryName(name)) << name;
  }
  // 15 digits, and one that is none: a part of the final name.
  EXPECT_EQ(FinalName("m.123456789abcdef.tmp"), "m.123456789abcdef");
  EXPECT_EQ(FinalName("m.g123456789abcdef.tmp"), "m.g123456789abcdef");
}

class MemoryFileSystemFaults : public ::testing::Test {
 protected:
  std::vector<std::string> Names() { return *files_.List("."); }
  MemoryFileSystem files_;
};

TEST_F(MemoryFileSystemFaults, ACrashTakesUnsyncedBytes) {
  auto file = files_.Create("a");
  ASSERT_TRUE((*file)->Append("kept").ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Append("lost").ok());
  files_.Crash(CrashLoss::kUnsyncedBytes);
  EXPECT_EQ(*ReadFile(files_, "a"), "kept");
  EXPECT_EQ((*file)->Append("x").code(), absl::StatusCode::kUnavailable);
}

TEST_F(MemoryFileSystemFaults, ACrashTakesNamesThatNoRenameMadeDurable) {
  ASSERT_TRUE(WriteFileAtomically(files_, "old", "o").ok());
  ASSERT_TRUE((*files_.Create("new"))->Sync().ok());
  ASSERT_TRUE(files_.Remove("old").ok());
  files_.Crash(CrashLoss::kUnsyncedBytesAndNames);
  EXPECT_THAT(Names(), ElementsAre("old"));
  EXPECT_EQ(*ReadFile(files_, "old"), "o");
}

TEST_F(MemoryFileSystemFaults, NamesMaySurviveTheCrashToo) {
  ASSERT_TRUE(WriteFileAtomically(files_, "old", "o").ok());
  ASSERT_TRUE((*files_.Create("new"))->Sync().ok());
  ASSERT_TRUE(files_.Remove("old").ok());
  files_.Crash(CrashLoss::kUnsyncedBytes);
  EXPECT_THAT(Names(), ElementsAre("new"));
}

TEST_F(MemoryFileSystemFaults, ARenameWithoutSyncLosesTheBytes) {
  auto file = files_.Create("a.tmp");
  ASSERT_TRUE((*file)->Append("content").ok());
  ASSERT_TRUE(files_.Rename("a.tmp", "a").ok());
  files_.Crash(CrashLoss::kUnsyncedBytesAndNames);
  EXPECT_EQ(*ReadFile(files_, "a"), "");
}

TEST_F(MemoryFileSystemFaults, TheNthCallFailsOnce) {
  files_.FailAfter(1, absl::PermissionDeniedError("no"));
  EXPECT_TRUE(files_.MakeDirectories("a").ok());
  EXPECT_EQ(files_.MakeDirectories("b").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(files_.MakeDirectories("b").ok());
}

TEST_F(MemoryFileSystemFaults, AFullDiskTakesWhatFits) {
  files_.SetCapacity(6);
  auto file = files_.Create("a");
  EXPECT_TRUE((*file)->Append("1234").ok());
  EXPECT_EQ((*file)->Append("5678").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(*ReadFile(files_, "a"), "123456");
  ASSERT_TRUE(files_.Remove("a").ok());
  EXPECT_TRUE(WriteFileAtomically(files_, "b", "654321").ok());
}

TEST_F(MemoryFileSystemFaults, AFullDiskLeavesNoTemporaryFile) {
  files_.SetCapacity(3);
  EXPECT_EQ(WriteFileAtomically(files_, "a", "1234").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Names(), IsEmpty());
}

// The promise of WriteFileAtomically, at each moment at which the power may go.
TEST_F(MemoryFileSystemFaults, WriteFileAtomicallyIsAtomicAtEveryCrashPoint) {
  for (const CrashLoss loss : {CrashLoss::kUnsyncedBytesAndNames, CrashLoss::kUnsyncedBytes}) {
    ASSERT_TRUE(WriteFileAtomically(files_, "a", "old").ok());
    bool finished = false;
    for (int calls = 0; !finished; ++calls) {
      ASSERT_LT(calls, 20);
      files_.StopAfter(calls);
      finished = WriteFileAtomically(files_, "a", "new").ok();
      files_.Crash(loss);
      EXPECT_EQ(*ReadFile(files_, "a"), finished ? "new" : "old") << calls;
    }
  }
}

TEST(Paths, JoinAndSplit) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(DirectoryOf("a/b/c"), "a/b");
  EXPECT_EQ(DirectoryOf("/a"), "/");
  EXPECT_EQ(DirectoryOf("a"), ".");
  EXPECT_EQ(BaseName("a/b"), "b");
  EXPECT_EQ(BaseName("b"), "b");
}

}  // namespace
}  // namespace cohort
