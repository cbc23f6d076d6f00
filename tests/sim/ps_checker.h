#pragma once

// Watches the parameter servers from outside, by the answers that they give and the files that they
// write, and knows for each process start and slice which closures' pushes are in it
// (slice_model.h). A checkpoint takes that along and a restore brings it back. Whatever an answer
// says that does not follow from it is a violation.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/file_system.h"
#include "common/checkpoint/bundle.h"
#include "proto/ps.pb.h"
#include "proto/recovery.pb.h"
#include "tests/sim/sim_files.h"
#include "tests/sim/slice_model.h"
#include "tests/support/network/sim_transport.h"

namespace cohort {

// What the program over a coordinator knows of its closures.
struct ClosureKnowledge {
  uint64_t id = 0;
  bool done = false;                   // else it may still run
  std::vector<std::string> variables;  // that it pushes to; not empty
  uint64_t round = 0;                  // synchronous
};

// Whether the checkpoint of this state has what the closure did.
bool Covers(const proto::CoordinatorState& state, uint64_t closure);

// Lives on the world's thread.
class PsChecker {
 public:
  struct Options {
    std::string directory;                    // of the recovery checkpoints
    bool grants_are_kept = false;             // by a ps from start to start
    std::optional<uint64_t> steps_ahead_max;  // of a closure
    // Closures of a coordinator that push, without those that failed or were cancelled.
    std::function<std::vector<ClosureKnowledge>(uint64_t coordinator)> closures;
    // What a closure of a coordinator pushes to every element.
    std::function<double(uint64_t coordinator, uint64_t closure)> amount;
    std::function<void(const std::string& what)> violate;
  };

  PsChecker(FileSystem& disk, Options options) : disk_(disk), options_(std::move(options)) {}

  void OnKill(const std::string& host);
  // When a coordinator sends a closure to a worker, what is more than steps_ahead_max older is in
  // every slice that it could read.
  void OnRequest(const SimMessage& message);
  void OnArrival(const SimMessage& message);
  void OnResponse(const SimMessage& message);
  void OnFileDone(const std::string& host, const FileCall& call);
  // Every checkpoint that is visible is complete.
  void CheckVisible();

  // What is in a slice now; nullptr when the ps does not hold it.
  const SliceModel* ModelOf(const std::string& host, uint32_t slice) const;
  // The coordinator that a ps has attached to; 0: none.
  uint64_t HolderOf(const std::string& host) const;
  // Whether every ps of the epoch refuses pushes of a worker's session.
  bool IsFenced(uint64_t epoch, uint64_t session) const;
  bool WasGranted(uint64_t coordinator) const { return granted_.count(coordinator) > 0; }

 private:
  using Slices = std::map<uint32_t, SliceModel>;
  struct Place {
    std::string variable;
    RowRange rows;
  };
  struct Grant {
    uint64_t epoch = 0;
    uint64_t coordinator = 0;
  };
  struct Ps {
    uint64_t epoch = 0;
    uint64_t coordinator = 0;
    uint64_t restored_epoch = 0;
    uint64_t watermark = 0;
    std::set<uint64_t> fenced;  // sessions
    Slices slices;
    std::map<uint32_t, uint64_t> versions;  // the highest seen since the last restore
  };

  void OnAttach(const SimMessage& message, Ps& ps);
  void OnCreate(const SimMessage& message, Ps& ps);
  void OnPull(const SimMessage& message, Ps& ps);
  void OnPush(const SimMessage& message, Ps& ps);
  void CheckSender(const SimMessage& message, const Ps& ps, const proto::PushRequest& push,
                   const proto::PushResponse& answer);
  // A synchronous step whose push is in a mean has read what was before its round, in all slices.
  void CheckRead(const SimMessage& message, const proto::PushRequest& push,
                 const proto::PushSlice& slice, const SliceModel& model);
  void CheckCounted(const SimMessage& message, const Ps& ps, const SliceModel& model);
  void OnFence(const SimMessage& message, Ps& ps);
  void OnHold(const SimMessage& message, const Ps& ps);
  void OnRestore(const SimMessage& message, Ps& ps);
  void CheckEpoch(const SimMessage& message, const Ps& ps, uint64_t epoch);
  void CheckWatermark(const SimMessage& message, const Ps& ps, uint64_t watermark);
  void OnCommit(const std::string& prefix);
  // What the files say of a slice is its history.
  absl::Status CheckSaved(const BundleReader& reader, uint32_t slice, const SliceModel& model,
                          const proto::CoordinatorState& state);
  void CheckWholeRounds(const std::string& prefix, const Slices& slices);
  void Violate(const SimMessage& message, const std::string& what);
  // Of a file of a recovery checkpoint; empty for another one.
  std::string PrefixOf(const std::string& path) const;

  FileSystem& disk_;
  const Options options_;
  std::map<uint32_t, Place> places_;     // by slice
  std::map<std::string, Ps> ps_;         // by host
  std::map<std::string, Grant> grants_;  // by host; what a ps has to remember
  // What has been frozen, once per checkpoint and process start.
  std::set<std::pair<std::string, std::string>> held_;        // prefix and host
  std::map<std::string, Slices> saved_;                       // by prefix
  std::map<std::string, proto::CoordinatorState> committed_;  // by prefix
  std::map<uint64_t, proto::CoordinatorState> durable_;       // by epoch
  std::map<uint64_t, uint64_t> coordinator_of_epoch_;
  std::set<uint64_t> granted_;  // coordinators that a ps has attached to
  // Runs of synchronous closures, by the epoch: what they read that they should not have, and
  // whether a slice has what they pushed in a mean.
  struct Step {
    int arrivals = 0;  // of RunClosure; what came twice has run twice, and each run reads anew
    std::string wrong;
    bool counted = false;
  };
  std::map<std::pair<uint64_t, SliceModel::Attempt>, Step> steps_;
};

}  // namespace cohort
