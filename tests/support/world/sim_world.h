#pragma once

// A world of one thread: every timer and every task of the executor is an event in one queue,
// ordered by simulated time. Events of the same instant run in an order drawn from the seed, so
// each seed is one schedule of the program, the same in every process. Time jumps from event to
// event.
//
// The trace hash chains what happened. Two runs of a seed that differ in it depend on something
// that the seed does not decide: a pointer, the order of a hash container, a real clock or thread.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "absl/functional/function_ref.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "tests/support/sequence_rng.h"

namespace cohort {

// Lives on the thread that steps it; the Clock and the Executor that it is may be used there alone.
class SimWorld final : public Clock, public Executor {
 public:
  explicit SimWorld(uint64_t seed);
  ~SimWorld() override;  // drops what is queued

  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  absl::Time Now() const override { return now_; }
  TimerId CallAt(absl::Time when, Task task) override;
  bool Cancel(TimerId timer) override;
  void Run(Task task) override;

  // Runs the next event. False when there is none.
  bool Step();

  // Steps until `holds`. False when the queue runs dry or the next event lies more than `limit`
  // after now; time stands at that end then.
  bool RunUntil(absl::FunctionRef<bool()> holds, absl::Duration limit);
  // Runs all events of the next `duration`.
  void RunFor(absl::Duration duration);

  // All chance of the simulation comes from here.
  SequenceRng& rng() { return rng_; }

  // Adds an event's description to the trace: names and numbers, never addresses of memory.
  void Trace(absl::string_view event);
  uint64_t trace_hash() const { return trace_hash_; }
  // Also gets every line that is traced; for finding where two runs part.
  void SetTraceSink(std::function<void(absl::string_view)> sink) { trace_sink_ = std::move(sink); }

  uint64_t seed() const { return seed_; }
  uint64_t events_run() const { return events_run_; }

 private:
  // Time, then a number from the seed, then the order of arrival.
  using Key = std::tuple<absl::Time, uint64_t, uint64_t>;

  uint64_t Add(absl::Time when, Task task);

  const uint64_t seed_;
  SequenceRng rng_;
  absl::Time now_;
  std::map<Key, Task> queue_;
  std::map<uint64_t, Key> key_of_;
  uint64_t last_id_ = 0;
  uint64_t events_run_ = 0;
  uint64_t trace_hash_ = 0;
  std::function<void(absl::string_view)> trace_sink_;
};

}  // namespace cohort
