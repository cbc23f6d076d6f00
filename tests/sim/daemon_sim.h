#pragma once

// The coordinator as a program in simulated time: a small job that a test stops at any call, starts
// again with other settings, and whose disk and network it disturbs.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/daemon/coordinator_daemon.h"
#include "proto/worker.pb.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_files.h"

namespace cohort {

inline constexpr int kSteps = 30;  // three epochs of ten
inline constexpr char kRecovery[] = "/recovery";

// 320 examples in batches of 32.
inline constexpr char kJob[] = R"({
  "name": "small", "seed": 1,
  "model": {"class_name": "Sequential", "config": {"name": "m", "layers": [
    {"class_name": "Dense",
     "config": {"units": 10, "activation": "softmax", "input_shape": [784]}}]}},
  "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
  "data": {"train": {"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 320}},
           "pipeline": [{"class_name": "Flatten", "config": {"component": "x"}},
                        {"class_name": "Rescaling",
                         "config": {"component": "x", "scale": 0.0039}}]},
  "fit": {"epochs": 3, "batch_size": 32},
  "recovery": {"directory": "/recovery", "interval_ms": 3600000},
  "strategy": {"type": "parameter_server"}
})";

// A disk on which calls fail from the moment on that a test says.
class FailingFiles final : public FileWatcher {
 public:
  explicit FailingFiles(FileSystem& disk) : files_(disk, *this, "chief:0") {}

  FileSystem& files() { return files_; }
  void Fail(FileCall::Kind kind, std::string beginning) {
    kind_ = kind;
    beginning_ = std::move(beginning);
  }

  absl::Status OnFileCall(const std::string&, const FileCall& call, size_t*) override {
    if (call.kind != kind_ || !absl::StartsWith(call.path, beginning_)) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat(call.path, ": Read-only file system"));
  }
  void OnFileDone(const std::string&, const FileCall&) override {}

 private:
  SimFiles files_;
  std::optional<FileCall::Kind> kind_;
  std::string beginning_;
};

// Counts how often each closure is sent to a worker, and does something at one of the calls.
class SentClosures final : public SimWatcher {
 public:
  void At(int call, std::function<void()> then) {
    at_ = call;
    then_ = std::move(then);
  }
  // Holds back the closure of one of the calls for so long.
  void Delay(int call, absl::Duration delay) {
    delayed_ = call;
    delay_ = delay;
  }
  // Does something at the first request that has this text.
  void AtText(std::string text, std::function<void()> then) {
    text_ = std::move(text);
    at_text_ = std::move(then);
  }
  // Does something at the next request of a method behind the next one of another.
  void AtMethodBehind(std::string method, std::string before, std::function<void()> then) {
    methods_ = {std::move(before), std::move(method)};
    at_method_ = std::move(then);
  }
  int calls() const { return calls_; }
  // The batches that closures train on, by closure: repetition of the data, and batch in it.
  const std::map<uint64_t, std::pair<int64_t, int64_t>>& batches() const { return batches_; }
  const std::map<uint64_t, int>& by_id() const { return by_id_; }
  // How often one worker was sent the same closure, at most.
  int by_one_worker() const {
    int most = 0;
    for (const auto& [sent, times] : by_worker_) most = std::max(most, times);
    return most;
  }

  SimFate OnRequest(const SimMessage& message) override {
    if (!text_.empty() && absl::StrContains(message.request, text_)) {
      text_.clear();
      at_text_();
    }
    if (!methods_.empty() && absl::EndsWith(message.method, "/" + methods_.front())) {
      methods_.erase(methods_.begin());
      if (methods_.empty()) at_method_();
    }
    proto::RunClosureRequest request;
    if (!absl::EndsWith(message.method, "/RunClosure") ||
        !request.ParseFromString(message.request)) {
      return {};
    }
    ++by_id_[request.closure_id()];
    ++by_worker_[{request.closure_id(), message.to}];
    if (request.learning_rate() > 0) {
      const proto::IteratorPosition& position = request.split().position();
      batches_[request.closure_id()] = {position.epoch(), position.element()};
    }
    if (++calls_ == at_ && then_) then_();
    SimFate fate;
    if (calls_ == delayed_) fate.delay = delay_;
    return fate;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }

 private:
  int calls_ = 0;
  int at_ = -1;
  std::function<void()> then_;
  int delayed_ = -1;
  absl::Duration delay_;
  std::string text_;
  std::function<void()> at_text_;
  std::vector<std::string> methods_;
  std::function<void()> at_method_;
  std::map<uint64_t, std::pair<int64_t, int64_t>> batches_;
  std::map<uint64_t, int> by_id_;
  std::map<std::pair<uint64_t, std::string>, int> by_worker_;
};

class DaemonSim {
 public:
  DaemonSim(uint64_t seed, int ps, int workers, std::vector<std::string> sets)
      : DaemonSim(seed, ps, workers, std::move(sets), kJob, Disks::kShared) {}
  DaemonSim(uint64_t seed, int ps, int workers, std::vector<std::string> sets, std::string job,
            Disks disks)
      : cluster_(seed, ps, workers, disks), job_(std::move(job)), sets_(std::move(sets)) {
    cluster_.network().SetWatcher(&sent_);
  }
  ~DaemonSim() { cluster_.End(); }

  // A new process of the coordinator, from its start to its end, with further settings.
  CoordinatorDaemon::Result Run(const std::vector<std::string>& sets = {}) {
    std::vector<std::string> all = sets_;
    all.insert(all.end(), sets.begin(), sets.end());
    const absl::StatusOr<JobSpec> job = ParseJob(job_, "job.json", all);
    EXPECT_TRUE(job.ok()) << job.status();
    CoordinatorOptions options;
    options.job = *job;
    options.job_file = "job.json";
    options.cluster = cluster_.tasks().spec();
    options.keep_tasks = true;
    const World world = cluster_.WorldOf("chief:0");
    CoordinatorDaemon daemon({world.clock, world.executor, disk_.files(), world.transport},
                             cluster_.waiter(), std::move(options), {});
    running_ = &daemon;
    const CoordinatorDaemon::Result result = daemon.Run();
    running_ = nullptr;
    return result;
  }
  // As SIGTERM does.
  void Interrupt() {
    if (running_ != nullptr) running_->Interrupt("SIGTERM");
  }
  // As the end of the drain time does.
  CoordinatorDaemon::GivenUp GiveUp() { return running_->GiveUp(); }
  void InterruptAt(int call) {
    sent_.At(call, [this] { cluster_.sim().Run([this] { Interrupt(); }); });
  }

  SimCluster& cluster() { return cluster_; }
  FailingFiles& disk() { return disk_; }
  SentClosures& sent() { return sent_; }

 private:
  SentClosures sent_;
  SimCluster cluster_;
  FailingFiles disk_{cluster_.WorldOf("chief:0").files};
  const std::string job_;
  const std::vector<std::string> sets_;
  CoordinatorDaemon* running_ = nullptr;
};

inline nlohmann::json SummaryOf(const CoordinatorDaemon::Result& result) {
  return nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
}

// 9 steps of training and one of validation in each of two epochs, then 5 of the final test.
inline const std::vector<std::string> kEvaluations = {
    "fit.epochs=2", "fit.validation_split=0.1", "checkpoint.directory=/saved",
    "fit.closures_in_flight=1",
    R"(data.test={"class_name": "SyntheticDigits", "config": {"seed": 2, "count": 160}})"};

}  // namespace cohort
