#pragma once

// A whole cluster in one thread under one seed.

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/base/memory_file_system.h"
#include "common/base/sim_world.h"
#include "common/wire/sim_transport.h"
#include "tests/support/test_cluster.h"

namespace cohort {

// Lives on the test's thread.
class SimCluster {
 public:
  SimCluster(uint64_t seed, int ps, int workers)
      : SimCluster(seed, FirstIndices(ps), FirstIndices(workers)) {}
  // With the task indices of a sparse cluster.
  SimCluster(uint64_t seed, std::vector<int> ps, std::vector<int> workers)
      : sim_(seed),
        network_(sim_),
        waiter_(sim_),
        cluster_(TaskOptions(std::move(ps), std::move(workers))) {}

  SimWorld& sim() { return sim_; }
  SimNetwork& network() { return network_; }
  Waiter& waiter() { return waiter_; }
  TestCluster& tasks() { return cluster_; }

  // The world of a new process start on `host`.
  World WorldOf(const std::string& host) {
    transports_.push_back(network_.TransportOf(host));
    return World{sim_, sim_, files_, *transports_.back()};
  }

  absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(
      ClusterCoordinator::Options options = {}) {
    options.cluster = cluster_.spec();
    return ClusterCoordinator::Connect(WorldOf("chief:0"), waiter_, std::move(options));
  }

 private:
  static std::vector<int> FirstIndices(int count) {
    std::vector<int> indices(static_cast<size_t>(count));
    std::iota(indices.begin(), indices.end(), 0);
    return indices;
  }

  TestCluster::Options TaskOptions(std::vector<int> ps, std::vector<int> workers) {
    TestCluster::Options options;
    options.ps = std::move(ps);
    options.workers = std::move(workers);
    options.grant_directory = "/";
    options.world_of = [this](const std::string& host) { return WorldOf(host); };
    options.kill_host = [this](const std::string& host) { network_.Kill(host); };
    return options;
  }

  SimWorld sim_;
  MemoryFileSystem files_;
  SimNetwork network_;
  // Of all process starts; they outlive the tasks.
  std::vector<std::unique_ptr<Transport>> transports_;
  SimWaiter waiter_;
  TestCluster cluster_;
};

}  // namespace cohort
