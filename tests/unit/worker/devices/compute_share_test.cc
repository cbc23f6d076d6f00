#include "worker/devices/compute_share.h"

#include "gtest/gtest.h"

namespace cohort {
namespace {

TEST(ComputeShare, DividesByTheWorkersOfTheSameHost) {
  ClusterSpec cluster;
  cluster.Add({Role::kWorker, 0}, "10.0.0.1:2222");
  cluster.Add({Role::kWorker, 1}, "10.0.0.1:2223");
  cluster.Add({Role::kWorker, 2}, "10.0.0.2:2222");
  cluster.Add({Role::kPs, 0}, "10.0.0.1:2224");
  EXPECT_EQ(ComputeShare(cluster, {Role::kWorker, 0}, 8), 4);
  EXPECT_EQ(ComputeShare(cluster, {Role::kWorker, 2}, 8), 8);
  EXPECT_EQ(ComputeShare(cluster, {Role::kWorker, 1}, 1), 1);
  EXPECT_EQ(ComputeShare(cluster, {Role::kWorker, 9}, 8), 8);
}

}  // namespace
}  // namespace cohort
