#include "coordinator/local/state_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "common/wire/error_detail.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr TaskId kPs1 = {Role::kPs, 1};
constexpr TaskId kWorker0 = {Role::kWorker, 0};

class StateDirectoryTest : public testing::Test {
 protected:
  std::unique_ptr<StateDirectory> Open() {
    auto opened = StateDirectory::Open(files, temp / "state");
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  void Put(const std::string& name, const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(files, JoinPath(temp / "state", name), text).ok());
  }

  const TempDirectory temp{"state-directory"};
  PosixFileSystem files;
};

TEST_F(StateDirectoryTest, RecordsAreReadByTheNextCoordinator) {
  StateDirectory::Record ps = {{77, 18446744073709551615u, "boot \"x\""}, "/bin/ps", {"--a=b", ""}};
  StateDirectory::Record worker = {{78, 0, ""}, "/bin/worker", {}};
  auto first = Open();
  ASSERT_TRUE(first->Write(kPs1, worker).ok());
  ASSERT_TRUE(first->Write(kPs1, ps).ok()) << "over the one before";
  ASSERT_TRUE(first->Write(kWorker0, worker).ok());
  EXPECT_TRUE(first->Remove(TaskId{Role::kPs, 8}).ok()) << "there is none";
  first.reset();
  const auto second = Open();
  Put("worker-1.address", "127.0.0.1:5\n");
  Put("worker-x.process", "not ours");
  Put("boss-1.process", "not ours");
  auto records = second->Read();
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ(records->at(kPs1).process, ps.process);
  EXPECT_EQ(records->at(kPs1).program, ps.program);
  EXPECT_EQ(records->at(kPs1).arguments, ps.arguments);
  EXPECT_EQ(records->at(kWorker0).process, worker.process);
  ASSERT_TRUE(second->Remove(kPs1).ok());
  EXPECT_EQ(second->Read()->size(), 1u);
}

TEST_F(StateDirectoryTest, TheAddressGoesWithTheRecord) {
  const auto directory = Open();
  Put("ps-1.address", "127.0.0.1:5\n");
  EXPECT_EQ(*ReadFile(files, directory->AddressFile(kPs1)), "127.0.0.1:5\n");
  ASSERT_TRUE(directory->Remove(kPs1).ok());
  EXPECT_FALSE(ReadFile(files, directory->AddressFile(kPs1)).ok());
}

TEST_F(StateDirectoryTest, ADamagedRecordIsNamed) {
  const auto directory = Open();
  const std::string good = R"({"pid":5,"start_time":6,"boot":"b","program":"p","arguments":["a"]})";
  Put("ps-1.process", good);
  EXPECT_TRUE(directory->Read().ok());
  for (const char* damaged :
       {"", "{", "[]", R"({"pid":5})",
        R"({"pid":-5,"start_time":6,"boot":"b","program":"p","arguments":[]})",
        R"({"pid":0,"start_time":6,"boot":"b","program":"p","arguments":[]})",
        R"({"pid":18446744073709551615,"start_time":6,"boot":"b","program":"p","arguments":[]})",
        R"({"pid":5,"start_time":6,"boot":"b","program":"p","arguments":[7]})"}) {
    Put("ps-1.process", damaged);
    const absl::Status error = directory->Read().status();
    EXPECT_EQ(ClassOf(error), proto::CONFIGURATION) << damaged;
    EXPECT_THAT(std::string(error.message()), HasSubstr("ps-1.process is damaged"));
  }
}

TEST_F(StateDirectoryTest, ASecondCoordinatorIsToldOfTheFirst) {
  auto first = Open();
  const absl::Status error = StateDirectory::Open(files, temp / "state").status();
  EXPECT_EQ(ClassOf(error), proto::CONFIGURATION);
  EXPECT_THAT(std::string(error.message()),
              AllOf(HasSubstr(temp / "state"), HasSubstr(absl::StrCat("process id ", getpid()))));
  first.reset();
  EXPECT_NE(Open(), nullptr);
}

TEST_F(StateDirectoryTest, TheLockGoesWithAKilledProcess) {
  const pid_t holder = fork();
  if (holder == 0) {
    const auto held = Open();
    raise(SIGSTOP);
    _exit(0);
  }
  int state = 0;
  ASSERT_EQ(waitpid(holder, &state, WUNTRACED), holder);
  ASSERT_TRUE(WIFSTOPPED(state));
  EXPECT_THAT(std::string(StateDirectory::Open(files, temp / "state").status().message()),
              HasSubstr(absl::StrCat("process id ", holder)));
  kill(holder, SIGKILL);
  ASSERT_EQ(waitpid(holder, &state, 0), holder);
  EXPECT_NE(Open(), nullptr);
}

}  // namespace
}  // namespace cohort
