#pragma once

// Draws the faults of a run from its seed and lets them strike. A run has a few triggers: "at the
// third message of a push, kill the worker"; besides, single messages are lost, doubled and delayed
// with small probabilities.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/fault_table.h"
#include "tests/sim/sim_files.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/sequence_rng.h"

namespace cohort {

// What an injector asks of the simulation. Lives on the world's thread.
class FaultTarget {
 public:
  virtual ~FaultTarget() = default;
  virtual std::vector<std::string> Alive(absl::string_view role) const = 0;  // hosts
  // It dies now, and a new start follows.
  virtual void Kill(const std::string& host) = 0;
  virtual void Cut(const std::string& from, const std::string& to, bool both_ways,
                   absl::Duration duration) = 0;
  // Cut off from every other host.
  virtual void Isolate(const std::string& host, absl::Duration duration) = 0;
  // Another coordinator is started.
  virtual void TakeOver() = 0;
  virtual void CrashDisk() = 0;
  virtual void Pause(absl::Duration duration) = 0;
  // It stands still: nothing that is sent to it or by it arrives before the time is over.
  virtual void Stop(const std::string& host, absl::Duration duration) = 0;
  // It leaves the job for so long, by order; infinite: until all is done. False when it cannot.
  virtual bool Remove(const std::string& host, absl::Duration absence) = 0;
  virtual void Later(absl::Duration delay, std::function<void()> strike) = 0;
};

// Lives on the world's thread.
class FaultInjector {
 public:
  struct Options {
    SeedJob job = SeedJob::kCounters;
    std::vector<Fault> faults;  // those that may strike; empty: all
    absl::Duration lease;
    int triggers_max = 5;
    bool part = false;    // one partition of one pair, and nothing else (Fault::kPart)
    double noise = 0.01;  // probability for a message; a third of the runs each: none, once, twice
  };
  FaultInjector(uint64_t seed, Options options, FaultTarget& target);

  SimFate OnRequest(const SimMessage& message);
  void OnArrival(const SimMessage& message);
  SimFate OnResponse(const SimMessage& message);
  absl::Status OnFileCall(const std::string& host, const FileCall& call, size_t* written);

  // Nothing strikes any more.
  void Stop() { stopped_ = true; }
  const FaultTable& table() const { return table_; }
  // Whether faults of the disk may have made a file call fail.
  bool HitTheDisk() const { return hit_the_disk_; }
  // Whether the phase is to occur in this run.
  bool Wants(Phase phase) const;
  // Whether processes are to die in this run.
  bool Kills() const;
  // Whether another coordinator is to come while pushes are under way.
  bool WantsTakeover() const;
  // The triggers, for people.
  std::string Describe() const;

 private:
  enum class Point { kSent, kArrival, kResponse, kFile };
  struct Trigger {
    Fault fault = Fault::kDropRequest;
    Phase phase = Phase::kIdle;
    Point point = Point::kSent;
    uint64_t countdown = 0;  // strikes when it reaches 0
    bool done = false;
  };
  struct Place {
    Phase phase;
    Point point;
    std::string from;
    std::string to;
  };

  Trigger DrawTrigger();
  // One partition, and what has to be lost before its phase can come.
  void DrawPart();
  Point DrawPoint(Fault fault, Phase phase);
  Phase PhaseOf(const SimMessage& message);
  Phase PhaseOfRun(const SimMessage& message);
  bool May(Fault fault) const;
  bool Draw(double probability);
  absl::Duration DrawDuration(double leases_min, double leases_max);
  // The next trigger that strikes here; nullptr without one.
  Trigger* Next(const Place& place);
  // A host of the role: one that is at the place, or any. Empty without one.
  std::string Victim(absl::string_view role, const Place& place);
  bool KillVictim(absl::string_view role, const Place& place);
  // Two workers, one of them at the place if there is one.
  bool CutWorkers(const Place& place, absl::Duration duration);
  // Any two of all hosts.
  bool CutPair();
  // False when there was nobody to strike.
  bool StrikeHosts(Fault fault, const Place& place);
  void StrikeMessage(Fault fault, SimFate& fate);
  void StrikeAt(const Place& place);
  void SlowDown(const Place& place);
  // The host can write nothing for a while.
  void FillUp(const std::string& host);
  void KillMeanwhile(const Place& place, absl::Duration within);

  const Options options_;
  FaultTarget& target_;
  SequenceRng rng_;
  double drop_ = 0;
  double duplicate_ = 0;
  double delay_ = 0;
  std::vector<Trigger> triggers_;
  std::map<uint64_t, uint64_t> epoch_of_closure_;  // in which it ran first
  // Of a gang: coordinator, attempt.
  std::map<uint64_t, std::pair<std::string, uint64_t>> first_run_;
  FaultTable table_;
  std::set<std::string> full_;  // hosts
  int pauses_ = 0;              // inside each other
  bool stopped_ = false;
  bool hit_the_disk_ = false;
};

// The role of a host: "worker" of "worker:1".
absl::string_view RoleOf(const std::string& host);

}  // namespace cohort
