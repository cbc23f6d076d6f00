#pragma once

// A job's daemons as real processes, started one by one as people do it, with TF_CONFIG. Every
// address in it is a proxy's, so that no port is fixed and a test can cut a task off.

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/fault_proxy.h"
#include "tests/support/run_process.h"

namespace cohort {

// Flags of a coordinator for the MNIST job on `examples` made-up digits, in batches of 32, with
// `sets` as further fields of it.
std::vector<std::string> DigitsJob(int examples, const std::vector<std::string>& sets,
                                   const std::string& transport = "tcp");

// Thread-compatible. Kills what has not ended when it goes.
class DaemonCluster {
 public:
  struct Task {
    std::string role;
    int index = 0;
    FaultProxy proxy;
    std::unique_ptr<RunningProcess> process;  // none: not started
  };

  // `transport` is what its tasks and coordinators are told.
  DaemonCluster(int ps, int workers, std::string transport = "tcp");

  Task& ps(int index) { return ps_[static_cast<size_t>(index)]; }
  Task& worker(int index) { return workers_[static_cast<size_t>(index)]; }
  std::vector<Task*> tasks();

  // Returns when it listens; false, and a failed expectation, when it does not.
  bool Start(Task& task);
  void StartAll();
  // Of DigitsJob.
  std::unique_ptr<RunningProcess> StartCoordinator(int examples,
                                                   const std::vector<std::string>& sets,
                                                   const std::vector<std::string>& flags = {});

 private:
  std::string Config(const std::string& role, int index) const;

  const std::string transport_;
  std::deque<Task> ps_;
  std::deque<Task> workers_;
  nlohmann::json cluster_;
};

}  // namespace cohort
