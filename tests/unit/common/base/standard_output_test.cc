// What a process can write is an error where it cannot: no signal ends the process, and nothing
// goes to a file that was not meant.

#include "common/base/standard_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/base/posix_file_system.h"

namespace cohort {
namespace {

constexpr rlim_t kFileBytes = 4096;

// Each test runs in a process of its own; the last line says how it ended.
class StandardOutputTest : public testing::Test {
 protected:
  StandardOutputTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  static void LimitFiles() {
    const rlimit limit = {kFileBytes, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::exit(9);
  }
  [[noreturn]] static void End(const absl::Status& status) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(status.ok() ? 0 : 1);
  }
};

TEST_F(StandardOutputTest, AFileBeyondTheLimitIsAnErrorThatNamesIt) {
  const auto write = [] {
    IgnoreSignalsOfWrites();
    LimitFiles();
    char directory[] = "/tmp/cohort_limit_XXXXXX";
    const std::string path = JoinPath(mkdtemp(directory), "large");
    PosixFileSystem files;
    const absl::Status written = (*files.Create(path))->Append(std::string(2 * kFileBytes, 'x'));
    files.Remove(path).IgnoreError();
    rmdir(directory);
    End(written);
  };
  EXPECT_EXIT(write(), testing::ExitedWithCode(1),
              "RESOURCE_EXHAUSTED: cannot write .*/large: File too large: a file of this process "
              "may have 4096 bytes \\(ulimit -f\\)");
}

TEST_F(StandardOutputTest, MemoryBeyondTheLimitIsAnErrorThatNamesIt) {
  const auto grow = [] {
    IgnoreSignalsOfWrites();
    LimitFiles();
    const int memory = memfd_create("limited", MFD_CLOEXEC);
    const bool grown = ftruncate(memory, 2 * kFileBytes) == 0;
    End(grown ? absl::OkStatus() : ErrnoStatus(errno, "ftruncate"));
  };
  EXPECT_EXIT(grow(), testing::ExitedWithCode(1), "ftruncate: File too large: .*ulimit -f");
}

TEST_F(StandardOutputTest, APipeWithoutAReaderIsAnError) {
  const auto write = [] {
    IgnoreSignalsOfWrites();
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) std::exit(9);
    close(ends[0]);
    End(WriteToStdout("summary"));
  };
  EXPECT_EXIT(write(), testing::ExitedWithCode(1), "cannot write to stdout: Broken pipe");
}

TEST_F(StandardOutputTest, NoFileTakesThePlaceOfAClosedStdout) {
  const auto write = [] {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    KeepStandardDescriptors();
    const int opened = open("/dev/null", O_WRONLY);
    if (opened <= STDERR_FILENO) End(absl::InternalError("the file is at a standard descriptor"));
    End(WriteToStdout("summary"));
  };
  EXPECT_EXIT(write(), testing::ExitedWithCode(1), "FAILED_PRECONDITION: stdout is closed");
}

}  // namespace
}  // namespace cohort
