#pragma once

// What has to be in one slice after the pushes that its parameter server has answered: a sequential
// model, which forgets nothing. A push adds its amount to every element; of a synchronous round the
// slice adds the mean of the first so many.

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace cohort {

// Thread-compatible.
class SliceModel {
 public:
  // A closure and which of its runs.
  using Attempt = std::pair<uint64_t, uint32_t>;
  struct Push {
    Attempt attempt;
    double amount = 1;
    uint64_t round = 0;  // 0: added by itself
    uint32_t aggregate = 1;
  };
  struct Round {
    uint64_t version_before = 0;
    std::set<uint64_t> closures;  // in its mean
  };

  enum class Outcome { kAdded, kKept, kRepeated, kKeptBefore, kLate };
  Outcome Take(const Push& push);
  // Whose pushes the last Take added.
  const std::vector<Attempt>& added() const { return added_; }

  // Closures below have ended: what is kept of them is in no mean.
  void RaiseWatermark(uint64_t watermark) {
    kept_.erase(kept_.begin(), kept_.lower_bound(watermark));
  }
  // As a checkpoint has it.
  SliceModel WithoutKept() const;

  bool Has(uint64_t closure) const { return closures_.count(closure) > 0; }
  // Whether the slice must have the closure's push, or have gone on without it.
  bool HasOrWasFull(uint64_t closure, uint64_t round) const {
    return Has(closure) || (round > 0 && round <= last_round());
  }
  // Of whose pushes the slice remembers that they came.
  std::set<uint64_t> Remembered(uint64_t watermark) const;
  const std::set<uint64_t>& closures() const { return closures_; }
  const std::map<uint64_t, Round>& rounds() const { return rounds_; }
  uint64_t last_round() const { return rounds_.empty() ? 0 : rounds_.rbegin()->first; }
  // What a step of the round has to read.
  uint64_t VersionBefore(uint64_t round) const;

  uint64_t version() const { return values_.size() - 1; }
  double value() const { return values_.back(); }
  double ValueOf(uint64_t version) const { return values_[version]; }

 private:
  struct Kept {
    uint32_t attempt = 0;
    double amount = 0;
  };
  void Add(double amount) { values_.push_back(values_.back() + amount); }

  std::vector<double> values_ = {0};  // by version
  std::set<uint64_t> closures_;       // whose pushes are in it
  std::set<uint64_t> late_;           // whose round was added without them
  std::map<uint64_t, Round> rounds_;
  uint64_t open_round_ = 0;
  std::map<uint64_t, Kept> kept_;  // of the open round, by closure
  std::vector<Attempt> added_;
};

}  // namespace cohort
