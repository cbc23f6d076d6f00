#include "common/cluster/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Address, ReadsAndWritesTheSameText) {
  for (const std::string text : {"host:2222", "10.0.0.1:1", "my_host-1.svc.local:65535", "h:0",
                                 "[::1]:2222", "[fe80::1%eth0]:7", "unix:/run/ps.sock"}) {
    const auto address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(FormatAddress(*address), text);
  }
}

TEST(Address, SplitsItsParts) {
  EXPECT_EQ(ParseAddress("[::1]:2222")->host, "::1");
  EXPECT_EQ(ParseAddress("[::1]:2222")->port, 2222);
  EXPECT_EQ(ParseAddress("unix:///a/b")->unix_path, "/a/b");
}

TEST(Address, OnlyWhatOthersReachListensBeyondLoopback) {
  const auto listen = [](const std::string& own) {
    return FormatAddress(ListenAddressOf(*ParseAddress(own)));
  };
  for (const std::string here : {"127.0.0.1:7", "127.9.8.7:0", "[::1]:7", "localhost:7",
                                 "LocalHost:7", "unix:/run/ps.sock"}) {
    EXPECT_EQ(listen(here), here);
  }
  EXPECT_EQ(listen("10.0.0.7:7"), "0.0.0.0:7");
  EXPECT_EQ(listen("128.0.0.1:7"), "0.0.0.0:7");
  EXPECT_EQ(listen("[fe80::1%eth0]:7"), "[::]:7");
  EXPECT_EQ(listen("worker-0.svc:7"), "0.0.0.0:7");
  EXPECT_EQ(listen("localhost.example:7"), "0.0.0.0:7") << "a name like another";
}

struct BadCase {
  std::string text;
  const char* problem;
};

class BadAddress : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadAddress, SaysWhatIsWrong) {
  const auto address = ParseAddress(GetParam().text);
  ASSERT_FALSE(address.ok());
  EXPECT_THAT(std::string(address.status().message()), ::testing::HasSubstr(GetParam().problem));
}

INSTANTIATE_TEST_SUITE_P(
    Forms, BadAddress,
    ::testing::Values(
        BadCase{"", "it is empty"}, BadCase{"host", "the port is missing"},
        BadCase{"host:", "the port is missing"}, BadCase{":80", "the host is missing"},
        BadCase{"host:65536", "not a number from 0 to 65535"}, BadCase{"host:-1", "not a number"},
        BadCase{"host:+1", "not a number"}, BadCase{"host: 1", "not a number"},
        BadCase{"host:99999999999", "not a number"}, BadCase{"::1:80", "needs brackets"},
        BadCase{"[::1]80", "the port is missing"}, BadCase{"[::1:80", "closing ']' is missing"},
        BadCase{"[zz]:80", "not an IPv6 address"},
        BadCase{"grpc://host:80", "a scheme does not belong here"},
        BadCase{"ho st:80", "no host name has"}, BadCase{"host/x:80", "no host name has"},
        BadCase{"unix:", "the path is missing"},
        BadCase{"unix:" + std::string(108, 'x'), "longer than 107"}));

}  // namespace
}  // namespace cohort
