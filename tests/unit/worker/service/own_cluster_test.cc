// A worker whose own TF_CONFIG names a parameter server elsewhere than the coordinator's says so.

#include "worker/service/own_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;

using Peers = google::protobuf::RepeatedPtrField<proto::Peer>;

Peers PeersOf(const std::vector<std::pair<TaskId, std::string>>& tasks) {
  Peers peers;
  for (const auto& [task, address] : tasks) {
    proto::Peer& peer = *peers.Add();
    peer.mutable_task()->set_role(RoleName(task.role));
    peer.mutable_task()->set_index(task.index);
    peer.set_address(address);
  }
  return peers;
}

std::string LogOf(OwnCluster& cluster, const Peers& peers) {
  testing::internal::CaptureStderr();
  cluster.Compare(peers);
  return testing::internal::GetCapturedStderr();
}

TEST(OwnCluster, AnotherAddressIsSaidOnceWithBoth) {
  ClusterSpec own;
  own.Add({Role::kPs, 0}, "a:1");
  own.Add({Role::kPs, 1}, "b:1");
  own.Add({Role::kWorker, 0}, "c:1");
  OwnCluster cluster(own);
  const Peers peers = PeersOf({{{Role::kPs, 0}, "a:1"}, {{Role::kPs, 1}, "b:2"}});
  const std::string log = LogOf(cluster, peers);
  EXPECT_THAT(log, HasSubstr("event=address_differs of=ps:1 here=b:1 coordinator=b:2 "));
  EXPECT_THAT(log, Not(HasSubstr("of=ps:0")));
  EXPECT_EQ(LogOf(cluster, peers), "") << "each Attach has the same peers";
  EXPECT_THAT(LogOf(cluster, PeersOf({{{Role::kPs, 1}, "b:3"}})), HasSubstr("coordinator=b:3"));
}

TEST(OwnCluster, WhatItDoesNotKnowDiffersFromNothing) {
  OwnCluster none{ClusterSpec()};
  EXPECT_EQ(LogOf(none, PeersOf({{{Role::kPs, 0}, "a:1"}})), "");
  ClusterSpec own;
  own.Add({Role::kWorker, 0}, "127.0.0.1:0");
  OwnCluster local(own);
  EXPECT_EQ(LogOf(local, PeersOf({{{Role::kWorker, 0}, "127.0.0.1:4711"},
                                  {{Role::kPs, 0}, "127.0.0.1:4712"}})),
            "");
  Peers unknown = PeersOf({{{Role::kPs, 0}, "a:1"}});
  unknown[0].mutable_task()->set_role("boss");
  EXPECT_EQ(LogOf(local, unknown), "");
}

TEST(OwnCluster, APeerCannotFillTheLog) {
  ClusterSpec own;
  own.Add({Role::kPs, 0}, "a:1");
  OwnCluster cluster(own);
  Peers peers;
  for (int port = 2; port < 200; ++port) {
    peers.MergeFrom(PeersOf({{{Role::kPs, 0}, "a:" + std::to_string(port)}}));
  }
  const std::string log = LogOf(cluster, peers);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 64);
}

}  // namespace
}  // namespace cohort
