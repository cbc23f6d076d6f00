#pragma once

// A cluster inside the test's process: the production tasks over any world. Each task has a
// transport of its own, so that the simulator knows who speaks.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/event.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/world.h"
#include "coordinator/api/cluster_coordinator.h"
#include "ps_server/ps_task.h"
#include "tests/support/world/sim_world.h"
#include "worker/service/worker_task.h"

namespace cohort {

// Runs the simulation until the event has happened.
class SimWaiter final : public Waiter {
 public:
  explicit SimWaiter(SimWorld& world) : world_(world) {}
  bool Wait(const Event& event, absl::Duration timeout) override;

 private:
  SimWorld& world_;
};

// Lives on the test's thread.
class TestCluster {
 public:
  struct Options {
    std::vector<int> ps = {0, 1};  // task indices; a sparse cluster has holes
    std::vector<int> workers = {0, 1, 2};
    size_t call_bytes_max = kCallBytesMax;  // of the workers (MakeTransferPlan)
    int workers_on_host = 1;                // whose addresses have one host name
    std::string address_prefix;   // where the transport's names are not this cluster's alone
    std::string grant_directory;  // of the parameter servers' grant files; empty: they have none
    // The world of a process start on a host ("worker:1"), and how a host's death is made known.
    std::function<World(const std::string& host)> world_of;
    std::function<void(const std::string& host)> kill_host;
    FindCuda find_cuda;  // of the workers; null: SetGpus says what they have
    FindNccl find_nccl;  // of the workers; null: they have no NCCL
    // The process ended as it started: what it has granted cannot be read now. By default a bug.
    std::function<void(TaskId)> on_start_failed;
  };

  explicit TestCluster(Options options);
  ~TestCluster();

  ClusterSpec spec() const { return spec_; }

  // The process is gone at once, with all its memory.
  void Kill(TaskId task);
  // It is told to end, and has not ended yet.
  void StartLeaving(TaskId task, absl::Duration patience);
  // It ends in order. Blocks, as WorkerTask::Drain.
  void Drain(TaskId worker, absl::Duration grace) { workers_.at(worker)->Drain(grace); }
  // A new process start under the same address.
  void Start(TaskId task);
  // So many GPUs of the stand-in (cuda_stand_in.h) from now on; at first it has none.
  void SetGpus(TaskId worker, int32_t gpus);
  // What each ps that starts from now on may have.
  void SetPsMemory(size_t bytes) { ps_memory_bytes_ = bytes; }
  // Starts a worker that no coordinator knows yet. Its address.
  std::string AddWorker(int index);

 private:
  std::string WorkerAddress(int index) const;
  void StartPs(TaskId task);
  void StartWorker(TaskId task);
  FindCuda StandInFinder(TaskId worker);

  const Options options_;
  ClusterSpec spec_;
  uint64_t last_incarnation_ = 0;
  size_t ps_memory_bytes_ = size_t{64} << 30;
  // Shared with workers, which ask on threads of theirs.
  std::map<TaskId, std::shared_ptr<std::atomic<int32_t>>> gpus_;
  std::map<TaskId, std::unique_ptr<PsTask>> ps_;
  std::map<TaskId, std::unique_ptr<WorkerTask>> workers_;
};

}  // namespace cohort
