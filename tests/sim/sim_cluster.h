#pragma once

// A whole cluster in one thread under one seed.

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/network/sim_transport.h"
#include "tests/support/test_cluster.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {

// Whether all hosts see one directory tree, or each process start but the coordinator's an empty
// one of its own.
enum class Disks { kShared, kPrivate };

// Lives on the test's thread.
class SimCluster {
 public:
  SimCluster(uint64_t seed, int ps, int workers)
      : SimCluster(seed, FirstIndices(ps), FirstIndices(workers)) {}
  SimCluster(uint64_t seed, int ps, int workers, Disks disks)
      : SimCluster(seed, FirstIndices(ps), FirstIndices(workers), disks) {}
  // What workers run on.
  struct Machines {
    FindCuda find_cuda = nullptr;  // null: SetGpus says what GPUs they have
    FindNccl find_nccl = nullptr;  // null: they have no NCCL
    int workers_on_host = 1;       // by the names of their addresses
  };
  SimCluster(uint64_t seed, int ps, int workers, Machines machines)
      : SimCluster(seed, FirstIndices(ps), FirstIndices(workers), Disks::kShared,
                   std::move(machines)) {}
  // With the task indices of a sparse cluster.
  SimCluster(uint64_t seed, std::vector<int> ps, std::vector<int> workers)
      : SimCluster(seed, std::move(ps), std::move(workers), Disks::kShared) {}
  SimCluster(uint64_t seed, std::vector<int> ps, std::vector<int> workers, Disks disks)
      : SimCluster(seed, std::move(ps), std::move(workers), disks, Machines()) {}

  SimWorld& sim() { return sim_; }
  SimNetwork& network() { return network_; }
  Waiter& waiter() { return waiter_; }
  TestCluster& tasks() { return cluster_; }

  // The world of a new process start on `host`.
  World WorldOf(const std::string& host) {
    transports_.push_back(network_.TransportOf(host));
    if (disks_ == Disks::kShared || host == "chief:0") {
      return World{sim_, sim_, files_, *transports_.back()};
    }
    own_files_.push_back(std::make_unique<MemoryFileSystem>());
    files_of_[host] = own_files_.back().get();
    return World{sim_, sim_, *own_files_.back(), *transports_.back()};
  }
  // The files that the last process start on `host` sees.
  FileSystem& FilesOf(const std::string& host) {
    const auto own = files_of_.find(host);
    return own == files_of_.end() ? files_ : *own->second;
  }

  absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(
      ClusterCoordinator::Options options = {}) {
    options.cluster = cluster_.spec();
    if (!options.settings.has_value()) options.settings = 1;  // all that connect are of one job
    return ClusterCoordinator::Connect(WorldOf("chief:0"), waiter_, std::move(options));
  }

  // All tasks are killed, and what they leave under way ends. Ranks of a group hold the calls that
  // wait for each other until they have agreed on why it ended: a world that ends before that
  // drops the timer, and nobody frees them. The coordinator is gone; what a test has in the world
  // for later may run.
  void End() {
    network_.SetWatcher(nullptr);
    const ClusterSpec spec = cluster_.spec();
    for (const auto& [task, address] : spec.tasks()) cluster_.Kill(task);
    sim_.RunFor(absl::Seconds(1));
  }

 private:
  SimCluster(uint64_t seed, std::vector<int> ps, std::vector<int> workers, Disks disks,
             Machines machines)
      : disks_(disks),
        sim_(seed),
        network_(sim_),
        waiter_(sim_),
        cluster_(TaskOptions(std::move(ps), std::move(workers), std::move(machines))) {}

  static std::vector<int> FirstIndices(int count) {
    std::vector<int> indices(static_cast<size_t>(count));
    std::iota(indices.begin(), indices.end(), 0);
    return indices;
  }

  TestCluster::Options TaskOptions(std::vector<int> ps, std::vector<int> workers,
                                   Machines machines) {
    TestCluster::Options options;
    options.find_cuda = std::move(machines.find_cuda);
    options.find_nccl = std::move(machines.find_nccl);
    options.workers_on_host = machines.workers_on_host;
    options.ps = std::move(ps);
    options.workers = std::move(workers);
    options.grant_directory = std::string("/");  // of a literal, GCC 12 warns without reason
    options.world_of = [this](const std::string& host) { return WorldOf(host); };
    options.kill_host = [this](const std::string& host) { network_.Kill(host); };
    return options;
  }

  const Disks disks_;
  SimWorld sim_;
  MemoryFileSystem files_;
  std::vector<std::unique_ptr<MemoryFileSystem>> own_files_;
  std::map<std::string, FileSystem*> files_of_;
  SimNetwork network_;
  // Of all process starts; they outlive the tasks.
  std::vector<std::unique_ptr<Transport>> transports_;
  SimWaiter waiter_;
  TestCluster cluster_;
};

}  // namespace cohort
