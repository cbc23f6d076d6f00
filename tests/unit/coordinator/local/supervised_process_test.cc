#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/cluster/environment.h"
#include "coordinator/local/child_process.h"
#include "coordinator/local/process_id.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr char kTail[] =
    " 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 3717049 1251620 1000 18446744073709551615";

// A pipe whose ends forked processes share, programs that they run too.
struct OpenPipe {
  OpenPipe() {
    std::array<int, 2> ends = {-1, -1};
    EXPECT_EQ(pipe(ends.data()), 0);
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  // Until every process that has the write end has ended.
  std::string ReadAll() {
    write_end = UniqueFd();
    std::string text;
    char byte = 0;
    while (read(read_end.get(), &byte, 1) == 1) text.push_back(byte);
    return text;
  }
  UniqueFd read_end, write_end;
};

std::string AwaitEnd(const SupervisedProcess& process) {
  std::optional<std::string> end;
  while (!(end = process.Poll()).has_value()) std::this_thread::yield();
  return *end;
}

// A shell that finds the number of the pipe's write end in OUT.
ChildOptions Shell(const OpenPipe& out, const std::string& script) {
  ChildOptions options;
  options.program = "/bin/sh";
  options.arguments = {"-c", script};
  options.environment["OUT"] = absl::StrCat(out.write_end.get());
  options.output_file = "/dev/null";
  return options;
}

TEST(StartTimeOfStat, IsFieldTwentyTwo) {
  EXPECT_EQ(*StartTimeOfStat(absl::StrCat("9667 (worker) S", kTail)), 3717049u);
  EXPECT_EQ(*StartTimeOfStat(absl::StrCat("9667 (worker) R", kTail, "\n")), 3717049u);
}

// Whoever names a process chooses its second field.
TEST(StartTimeOfStat, ANameMayLookLikeFields) {
  EXPECT_EQ(*StartTimeOfStat(absl::StrCat("1 (a) Z 1 (b) S", kTail)), 3717049u);
}

TEST(StartTimeOfStat, ADeadProcessIsNone) {
  for (const char* state : {"Z", "X"}) {
    EXPECT_TRUE(
        absl::IsNotFound(StartTimeOfStat(absl::StrCat("9667 (worker) ", state, kTail)).status()));
  }
}

TEST(StartTimeOfStat, OtherTextIsRefused) {
  for (const char* text :
       {"", "1", "1 (a)", "1 (a) S 1 2 3", "1 (a) S 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 x 1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(StartTimeOfStat(text).status())) << text;
  }
}

TEST(IdentifyProcess, ALaterProcessStartedLater) {
  const auto self = IdentifyProcess(getpid());
  ASSERT_TRUE(self.ok()) << self.status();
  EXPECT_EQ(*self, *IdentifyProcess(getpid()));
  OpenPipe pipe;
  const auto child = SupervisedProcess::Start(Shell(pipe, "read line"));
  ASSERT_TRUE(child.ok()) << child.status();
  const auto id = IdentifyProcess(child->pid());
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(id->boot, self->boot);
  EXPECT_GE(id->start_time, self->start_time);
  child->Signal(SIGKILL);
  AwaitEnd(*child);
  EXPECT_TRUE(absl::IsNotFound(IdentifyProcess(child->pid()).status()));
}

TEST(RunsProgram, OnlyTheFileThatLiesThereNow) {
  EXPECT_TRUE(RunsProgram(getpid(), ExecutablePath()));
  EXPECT_FALSE(RunsProgram(getpid(), "/bin/sh"));
  const TempDirectory directory("runs-program");
  std::filesystem::copy_file("/bin/sleep", directory / "sleep");
  ChildOptions options;
  options.program = directory / "sleep";
  options.arguments = {"1000"};
  options.output_file = "/dev/null";
  const auto child = SupervisedProcess::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  // It is this test's program until it has become the other.
  while (!RunsProgram(child->pid(), options.program)) std::this_thread::yield();
  std::filesystem::copy_file("/bin/sleep", directory / "new");
  std::filesystem::rename(directory / "new", directory / "sleep");
  EXPECT_FALSE(RunsProgram(child->pid(), options.program)) << "it was built anew";
  child->Signal(SIGKILL);
  EXPECT_EQ(AwaitEnd(*child), "killed by signal 9");
  EXPECT_FALSE(RunsProgram(child->pid(), options.program));
}

TEST(SupervisedProcess, IsNotMetByASignalToItsParentsGroup) {
  OpenPipe out;
  const auto process = SupervisedProcess::Start(Shell(out, "exit 0"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(getpgid(process->pid()), process->pid());
  AwaitEnd(*process);
}

TEST(StartChild, NothingRunsThatCouldNotBeRecorded) {
  OpenPipe pipe;
  ChildOptions options = Shell(pipe, "echo ran >&$OUT");
  options.record = [](pid_t) { return absl::ResourceExhaustedError("no space"); };
  EXPECT_TRUE(absl::IsResourceExhausted(SupervisedProcess::Start(options).status()));
  EXPECT_EQ(pipe.ReadAll(), "");
}

TEST(StartChild, NothingRunsWhenTheParentDiesBeforeItIsRecorded) {
  OpenPipe pipe;
  const pid_t parent = fork();
  if (parent == 0) {
    ChildOptions options = Shell(pipe, "echo ran >&$OUT");
    options.record = [](pid_t) -> absl::Status { _exit(0); };
    (void)SupervisedProcess::Start(options);
    _exit(1);
  }
  int state = 0;
  ASSERT_EQ(waitpid(parent, &state, 0), parent);
  EXPECT_EQ(WEXITSTATUS(state), 0);
  EXPECT_EQ(pipe.ReadAll(), "");
}

// A parent that starts a recorded child and dies; what identifies the child.
ProcessId Orphan(OpenPipe& pipe) {
  const pid_t parent = fork();
  if (parent == 0) {
    ChildOptions options =
        Shell(pipe, absl::StrCat("exec sleep 1000 ", pipe.write_end.get(), ">&-"));
    options.record = [&pipe](pid_t pid) {
      const std::string text = absl::StrCat(pid);
      return write(pipe.write_end.get(), text.data(), text.size()) > 0
                 ? absl::OkStatus()
                 : absl::InternalError("pipe");
    };
    const auto started = SupervisedProcess::Start(options);
    _exit(started.ok() ? 0 : 1);
  }
  int state = 0;
  EXPECT_EQ(waitpid(parent, &state, 0), parent);
  EXPECT_EQ(WEXITSTATUS(state), 0);
  int pid = 0;
  EXPECT_TRUE(absl::SimpleAtoi(pipe.ReadAll(), &pid));
  const auto id = IdentifyProcess(pid);
  EXPECT_TRUE(id.ok()) << "it did not outlive its parent: " << id.status();
  return id.value_or(ProcessId());
}

TEST(SupervisedProcess, AnOrphanIsAdoptedWatchedAndEnded) {
  OpenPipe pipe;
  const ProcessId id = Orphan(pipe);
  const auto adopted = SupervisedProcess::Adopt(id);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_TRUE(adopted->adopted());
  EXPECT_EQ(adopted->pid(), id.pid);
  EXPECT_EQ(adopted->Poll(), std::nullopt);
  adopted->Signal(SIGTERM);
  EXPECT_THAT(AwaitEnd(*adopted), HasSubstr("not known"));
  EXPECT_TRUE(absl::IsNotFound(SupervisedProcess::Adopt(id).status()));
  adopted->Signal(SIGKILL);  // reaches nobody
}

TEST(SupervisedProcess, ANumberThatIsAnotherProcessesNowIsNotAdopted) {
  const ProcessId self = *IdentifyProcess(getpid());
  EXPECT_TRUE(SupervisedProcess::Adopt(self).ok());
  ProcessId other = self;
  other.start_time += 1;
  EXPECT_TRUE(absl::IsNotFound(SupervisedProcess::Adopt(other).status()));
  other = self;
  other.boot = "another";
  EXPECT_TRUE(absl::IsNotFound(SupervisedProcess::Adopt(other).status()));
}

}  // namespace
}  // namespace cohort
