#pragma once

// A thread that waits for descriptors and tells their owners. Internal to common/wire.
//
// The thread waits awake for events that follow soon after the last one, because waking a processor
// up takes longer than a short call: for at most kSpinMax at a time, and only as long as that pays
// (SpinGate).

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/turns.h"
#include "common/base/unique_fd.h"
#include "common/wire/receive_pool.h"

namespace cohort {

inline constexpr std::chrono::microseconds kSpinMax{20};

// The decision whether to wait awake. It pays as long as at least every other such wait ends with
// an event; otherwise one of many waits is tried, so that a spin costs next to nothing of a
// processor that others need. Thread-compatible.
class SpinGate {
 public:
  bool Open();
  // Notes how a wait that was let in ended.
  void Spun(bool found);

 private:
  static constexpr int kScoreMax = 8;
  static constexpr int kScoreFirst = 2;  // after a trial that paid
  static constexpr int kTrialInterval = 64;
  int score_ = 0;
  int waits_ = 0;  // since the last trial
};

// Thread-safe.
class IoLoop {
 public:
  // Thread-safe.
  class Source {
   public:
    virtual ~Source() = default;
    // Returns the same descriptor throughout its life.
    virtual int fd() const = 0;
    // Handles what epoll saw. Runs on the loop's thread and must not block.
    virtual void OnEvents(uint32_t events) = 0;
  };

  explicit IoLoop(Turns turns);
  // Tasks that were posted have run. When the last owner is on the loop's own thread, that thread
  // ends by itself, after the call that it is in.
  ~IoLoop();

  // Watches the source for level-triggered epoll `events`. The loop holds the source until Remove.
  void Add(std::shared_ptr<Source> source, uint32_t events);
  void Change(const Source& source, uint32_t events);
  // Stops watching the source. A call of OnEvents may still be under way on another thread.
  void Remove(const Source& source);

  // Runs `task` on the loop's thread.
  void Post(Task task);

  using Time = std::chrono::steady_clock::time_point;
  // Runs `task` on the loop's thread at `time`. Takes no descriptor. Returns what cancels it.
  uint64_t RunAt(Time time, Task task);
  // Cancels a task that has not begun; otherwise does nothing, and the task may still be running.
  void CancelRun(uint64_t id);

 private:
  struct State {
    UniqueFd epoll;
    UniqueFd wake;
    UniqueFd timer;  // set to the earliest of `alarms`
    Mutex mutex;
    std::map<int, std::shared_ptr<Source>> sources ABSL_GUARDED_BY(mutex);
    std::vector<Task> tasks ABSL_GUARDED_BY(mutex);
    std::map<std::pair<Time, uint64_t>, Task> alarms ABSL_GUARDED_BY(mutex);
    std::map<uint64_t, Time> alarm_times ABSL_GUARDED_BY(mutex);
    uint64_t last_alarm ABSL_GUARDED_BY(mutex) = 0;
    bool stopped ABSL_GUARDED_BY(mutex) = false;
  };
  static void Run(State& state);
  static bool RunTasks(State& state);
  static void RunAlarms(State& state);
  static void SetTimerLocked(State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  static int Wait(const State& state, epoll_event* events, SpinGate& gate);
  static void Wake(const State& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  std::thread thread_;
};

// The loops and the memory with which a process waits for its peers. Large payloads, whose copies
// take long, have a thread with long turns and connections of their own, so that small calls do not
// wait behind them.
struct LocalLoops {
  std::shared_ptr<IoLoop> calls = std::make_shared<IoLoop>(Turns::kShort);
  std::shared_ptr<IoLoop> parts = std::make_shared<IoLoop>(Turns::kLong);
  // One pool for all connections: each would otherwise keep memory of its largest payloads for
  // itself.
  std::shared_ptr<ReceivePool> pool = std::make_shared<ReceivePool>();
};

}  // namespace cohort
