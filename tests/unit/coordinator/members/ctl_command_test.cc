#include "coordinator/members/ctl_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/temporary_file.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::HasSubstr;

absl::StatusOr<CtlOptions> Parse(const std::vector<std::string>& arguments) {
  MemoryFileSystem files;
  EXPECT_TRUE(files.MakeDirectories("/state").ok());
  EXPECT_TRUE(WriteFileAtomically(files, "/state/coordinator.address", "127.0.0.1:77\n").ok());
  auto command = ParseCtlCommandLine(arguments, files);
  if (!command.ok()) return command.status();
  return std::get<CtlOptions>(*command);
}

TEST(CtlCommandLine, ReadsVerbsAndWhereTheCoordinatorIs) {
  auto options = Parse({"status", "--address", "h:1", "--json", "--timeout=5s"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->verb, CtlOptions::Verb::kStatus);
  EXPECT_EQ(options->address, "h:1");
  EXPECT_TRUE(options->json);
  EXPECT_EQ(options->timeout, absl::Seconds(5));

  options = Parse({"--state_dir", "/state", "add-worker", "w3:2222"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->verb, CtlOptions::Verb::kAddWorker);
  EXPECT_EQ(options->address, "127.0.0.1:77");
  EXPECT_EQ(options->worker, "w3:2222");

  for (const char* index : {"3", "worker:3"}) {
    options = Parse({"remove-worker", index, "--state_dir=/state"});
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->verb, CtlOptions::Verb::kRemoveWorker);
    EXPECT_EQ(options->index, 3);
    EXPECT_EQ(options->worker, "");
  }
  options = Parse({"flight-record", "--address=h:1"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->verb, CtlOptions::Verb::kFlightRecord);
  EXPECT_EQ(options->calls_max, 16);
  options = Parse({"flight-record", "4096", "--address=h:1"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->calls_max, 4096);
  EXPECT_THAT(options->files, testing::IsEmpty());
  options = Parse({"flight-record", "a.flight.json", "9"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->calls_max, 16);
  EXPECT_THAT(options->files, testing::ElementsAre("a.flight.json", "9"));
  options = Parse({"flight-record", "64", "a.flight.json"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->calls_max, 64);
  EXPECT_THAT(options->files, testing::ElementsAre("a.flight.json"));

  options = Parse({"remove-worker", "w3:2222", "--state_dir=/state"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->worker, "w3:2222");
}

TEST(CtlCommandLine, SaysWhatIsWrong) {
  const auto error = [](const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  };
  EXPECT_THAT(error({"--address=h:1"}), HasSubstr("status, add-worker [HOST:PORT]"));
  EXPECT_THAT(error({"stop", "--address=h:1"}), HasSubstr("'stop' is not a verb"));
  EXPECT_THAT(error({"remove-worker", "--address=h:1"}), HasSubstr("'remove-worker'"));
  EXPECT_THAT(error({"remove-worker", "-x", "--address=h:1"}), HasSubstr("-x"));
  EXPECT_THAT(error({"remove-worker", "w3", "--address=h:1"}), HasSubstr("'w3'"));
  EXPECT_THAT(error({"add-worker", "w3", "--address=h:1"}), HasSubstr("'w3'"));
  EXPECT_THAT(error({"flight-record", "0", "--address=h:1"}), HasSubstr("'0' is not a number of"));
  EXPECT_THAT(error({"flight-record", "4097", "--address=h:1"}), HasSubstr("1 to 4096"));
  EXPECT_THAT(error({"flight-record", "f.json", "--address=h:1"}),
              HasSubstr("flight-record f.json: a file is read without a coordinator"));
  EXPECT_THAT(error({"flight-record"}), HasSubstr("--address HOST:PORT or --state_dir"));
  EXPECT_THAT(error({"status"}), HasSubstr("--address HOST:PORT or --state_dir"));
  EXPECT_THAT(error({"status", "--address=h:1", "--state_dir=/state"}), HasSubstr("--address"));
  EXPECT_THAT(error({"status", "--state_dir=/other"}), HasSubstr("/other/coordinator.address"));
  EXPECT_THAT(error({"status", "--state_dir=~/x"}), HasSubstr("--state_dir: '~/x' begins with ~"));
}

TEST(CtlStatus, ShowsEveryMemberAndWhatIsWaitedFor) {
  proto::GetJobStatusResponse status;
  status.set_job("mnist");
  status.set_epoch(4);
  const auto add = [&status](const char* role, int index, proto::MemberState state) {
    proto::MemberStatus& member = *status.add_members();
    member.mutable_task()->set_role(role);
    member.mutable_task()->set_index(index);
    member.mutable_task()->set_incarnation(state == proto::MEMBER_SERVING ? 17 : 0);
    member.set_address("h:1");
    member.set_state(state);
    member.set_text("why");
    member.set_closures_done(5);
  };
  add("ps", 0, proto::MEMBER_SERVING);
  add("worker", 1, proto::MEMBER_AWAY);
  add("worker", 2, proto::MEMBER_LEAVING);
  status.set_min_workers(1);
  status.set_max_workers(2147483647);
  status.set_waits("nothing");
  EXPECT_EQ(StatusText(status),
            "job mnist epoch 4\n"
            "ps:0 serving at h:1 incarnation 17\n"
            "worker:1 away (why) done 5 in_flight 0\n"
            "worker:2 leaving (why) done 5 in_flight 0\n"
            "workers: at least 1, at most any number\n"
            "closures: done 0 queued 0 in_flight 0 put_back 0 failed 0; recoveries 0\n"
            "waits: nothing\n");
  status.mutable_members(0)->clear_address();
  EXPECT_THAT(StatusText(status),
              HasSubstr("\nps:0 serving, its next process is starting, incarnation 17\n"));
  for (const uint64_t slices : {9, 0, 7, 1}) status.add_staleness_histogram(slices);
  status.set_staleness_max(4);
  EXPECT_THAT(StatusText(status),
              HasSubstr("staleness of updates, by slice: 0: 9 1: 0 2-3: 7 4-7: 1; largest 4\n"));
}

}  // namespace
}  // namespace cohort
