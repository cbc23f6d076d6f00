#pragma once

// A communicator and an executor that do what a test says, when it says so.

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/executor.h"
#include "worker/collective/communicator.h"

namespace cohort {

// Runs what it is given on the thread of the test. Thread-compatible.
class TasksInTurn final : public Executor {
 public:
  void Run(Task task) override { tasks_.push_back(std::move(task)); }
  // In a task nothing: what it adds comes behind it.
  void RunAll() {
    if (std::exchange(running_, true)) return;
    for (; !tasks_.empty(); tasks_.pop_front()) tasks_.front()();
    running_ = false;
  }

 private:
  bool running_ = false;
  std::deque<Task> tasks_;
};

using Events = std::vector<std::string>;

// The end of one of two ranks, whose calls end when the test says so. Thread-compatible.
class HeldCommunicator final : public Communicator {
 public:
  struct Held {
    CollectiveCall call;
    Done done;
  };
  struct Calls {
    std::deque<Held> held;
    absl::Status aborted;
  };

  HeldCommunicator(Events& events, Calls& calls) : events_(events), calls_(calls) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    return Buffer::Allocate(bytes);
  }
  void Start(CollectiveCall call, Done done) override {
    events_.push_back(absl::StrCat("start ", call.name));
    calls_.held.push_back({std::move(call), std::move(done)});
  }
  void Abort(absl::Status cause) override { calls_.aborted = cause; }

 private:
  Events& events_;
  Calls& calls_;
};

}  // namespace cohort
