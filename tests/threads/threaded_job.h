#pragma once

// A job of several workers, as multi_worker_mirrored, on real threads in one process; they send
// each other frames.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/real_clock.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/wire/frames/local_socket.h"
#include "common/wire/inprocess_transport.h"
#include "tests/support/stepwise_training.h"
#include "tests/support/test_cluster.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {

// Workers and coordinator. Belongs to the thread of the test.
class ThreadedJob {
 public:
  static constexpr int kWorkers = 2;

  // Workers with so many GPUs of the stand-in each.
  explicit ThreadedJob(FindNccl find_nccl = nullptr, int gpus = 0)
      : cluster_(TaskOptions(std::move(find_nccl))) {
    for (int worker = 0; worker < kWorkers; ++worker) {
      cluster_.SetGpus({Role::kWorker, worker}, gpus);
    }
  }

  TestCluster& cluster() { return cluster_; }

  void EndCoordinator() {
    training_.reset();
    coordinator_.reset();
  }

  // The perceptron, with what else the job says.
  absl::StatusOr<StepwiseTraining*> Begin(std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), "strategy.type=multi_worker_mirrored");
    const JobSpec job = PerceptronJob(overrides);
    ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
    options.cluster = cluster_.spec();
    options.recovery_directory = "/recovery";  // else the loss of a worker is an error
    options.attempts_max = options.quarantine_after = 1000;
    ASSIGN_OR_RETURN(coordinator_,
                     ClusterCoordinator::Connect(world_, waiter_, std::move(options)));
    training_.emplace(*coordinator_, job, kExamples);
    RETURN_IF_ERROR(training_->Begin());
    return &*training_;
  }

 private:
  static constexpr int64_t kExamples = 99;  // batches of 32, 32, 32 and 3

  TestCluster::Options TaskOptions(FindNccl find_nccl) {
    TestCluster::Options options;
    options.ps = {};
    options.workers.clear();
    for (int worker = 0; worker < kWorkers; ++worker) options.workers.push_back(worker);
    options.address_prefix = NewSocketNumber();
    options.world_of = [this](const std::string&) { return world_; };
    options.find_nccl = std::move(find_nccl);
    return options;
  }

  RealClock clock_;
  ThreadPool pool_{{"test", 4}};
  MemoryFileSystem files_;
  InProcessTransport transport_{clock_, pool_};
  const World world_{clock_, pool_, files_, transport_};
  BlockingWaiter waiter_;
  TestCluster cluster_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::optional<StepwiseTraining> training_;
};

}  // namespace cohort
