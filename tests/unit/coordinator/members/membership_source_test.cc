#include "coordinator/members/membership_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/event.h"
#include "common/base/temporary_file.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseMembership, LinesWithCommentsInAnyOrder) {
  const auto list = ParseMembership("# ours\n w1:2222\t# the second\r\n\nw0:2222\nw1:2222\n");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(*list, ElementsAre("w0:2222", "w1:2222"));
}

TEST(ParseMembership, JsonOfTfConfigOrOfItsCluster) {
  for (const char* text : {R"({"cluster": {"ps": ["p:1"], "worker": {"7": "b:1", "3": "a:1"}}})",
                           R"( {"worker": ["b:1", "a:1"], "ps": ["p:1"]})"}) {
    const auto list = ParseMembership(text);
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_THAT(*list, ElementsAre("a:1", "b:1"));
  }
}

TEST(ParseMembership, WhatNamesNobodyOrIsBrokenIsAnError) {
  for (const char* text : {"", "\n \n", "# nobody\n", "{}", R"({"worker": []})",
                           R"({"ps": ["p:1"]})", R"({"worker": ["a:1", )", "a:1\nb:", "a b\n",
                           R"({"worker": ["a"]})", R"({"workers": ["a:1"]})"}) {
    EXPECT_EQ(ParseMembership(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(std::string(ParseMembership("a:1\n\nb\n").status().message()), HasSubstr("line 3"));
}

TEST(CheckMembership, IsAFileOrAName) {
  EXPECT_TRUE(CheckMembership("/etc/workers").ok());
  EXPECT_TRUE(CheckMembership("dns:cohort-worker.default.svc:2222").ok());
  for (const char* text : {"", "dns:", "dns:name", "dns:name:0", "dns:name:x", "dns:unix:/x"}) {
    EXPECT_EQ(CheckMembership(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

class NoResolver final : public HostResolver {
 public:
  void Resolve(const std::string& host, Done done) override {
    asked.push_back(host);
    done(answer);
  }
  std::vector<std::string> asked;
  absl::StatusOr<std::vector<std::string>> answer;
};

TEST(MembershipSource, ANameHasOneWorkerPerAddress) {
  MemoryFileSystem files;
  NoResolver resolver;
  const auto source = MakeMembershipSource("dns:workers:2222", files, resolver);
  EXPECT_EQ(source->departure(), MembershipSource::Departure::kWhenLost);
  absl::StatusOr<std::vector<std::string>> read;
  const auto take = [&read](auto list) { read = std::move(list); };
  resolver.answer = {"10.0.0.9", "::1", "10.0.0.1", "10.0.0.9"};
  source->Read(take);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(*read, ElementsAre("10.0.0.1:2222", "10.0.0.9:2222", "[::1]:2222"));
  EXPECT_THAT(resolver.asked, ElementsAre("workers"));
  resolver.answer = std::vector<std::string>();
  source->Read(take);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kNotFound) << "nobody is not a list";
}

TEST(MembershipSource, AFileIsReadAnewAndItsErrorsNameIt) {
  MemoryFileSystem files;
  NoResolver resolver;
  const auto source = MakeMembershipSource("/workers", files, resolver);
  EXPECT_EQ(source->departure(), MembershipSource::Departure::kAtOnce);
  absl::StatusOr<std::vector<std::string>> read;
  const auto take = [&read](auto list) { read = std::move(list); };
  source->Read(take);
  EXPECT_FALSE(read.ok());
  ASSERT_TRUE(WriteFileAtomically(files, "/workers", "a:1\n").ok());
  source->Read(take);
  EXPECT_THAT(*read, ElementsAre("a:1"));
  ASSERT_TRUE(WriteFileAtomically(files, "/workers", "a:1\nb:").ok());
  source->Read(take);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("/workers: line 2"));
}

TEST(SystemHostResolver, KnowsLoopback) {
  SystemHostResolver resolver;
  Event answered;
  absl::StatusOr<std::vector<std::string>> hosts;
  resolver.Resolve("127.0.0.1", [&](auto found) {
    hosts = std::move(found);
    answered.Notify();
  });
  BlockingWaiter waiter;
  ASSERT_TRUE(waiter.Wait(answered, absl::Minutes(1)));
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_THAT(*hosts, ElementsAre("127.0.0.1"));
}

}  // namespace
}  // namespace cohort
