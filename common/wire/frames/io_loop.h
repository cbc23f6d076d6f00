#pragma once

// An IoLoop is a thread that waits for events on descriptors and calls the descriptors' owners.
// Internal to common/wire.
//
// For a short time after the last event, the thread polls for the next event instead of sleeping
// (it spins), because waking a processor takes longer than a short call. The thread spins for at
// most kSpinMax at a time, and only as long as spinning pays (SpinGate).

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/turns.h"
#include "common/base/unique_fd.h"
#include "common/wire/receive_memory.h"

namespace cohort {

inline constexpr std::chrono::microseconds kSpinMax{20};

// Decides whether a loop spins before it sleeps. Spinning pays as long as at least every second
// spin ends with an event. Otherwise only one of kTrialInterval waits spins, which costs almost
// nothing of a processor that other threads need. Thread-compatible.
class SpinGate {
 public:
  bool Open();
  // Records whether a spin that Open has allowed found an event.
  void Spun(bool found);

 private:
  static constexpr int kScoreMax = 8;
  // The score after a trial spin that found an event. A loop spins before each sleep while its
  // score is above 0.
  static constexpr int kScoreFirst = 2;
  static constexpr int kTrialInterval = 64;
  int score_ = 0;
  int waits_ = 0;  // number of waits since the last trial spin
};

// A thread that serves descriptors, posted tasks and timers. Thread-safe.
class IoLoop {
 public:
  // The owner of a descriptor that the loop watches. Thread-safe.
  class Source {
   public:
    virtual ~Source() = default;
    // Returns the descriptor that the loop watches, which stays the same as long as the source
    // exists.
    virtual int fd() const = 0;
    // Handles epoll events of the descriptor. Runs on the loop's thread and must not block.
    virtual void OnEvents(uint32_t events) = 0;
  };

  explicit IoLoop(Turns turns);
  // Runs the tasks that were posted, and then ends the thread. If the destructor runs on the loop's
  // own thread, it does not wait: the thread then ends by itself.
  ~IoLoop();

  // Watches the source's descriptor for level-triggered epoll `events`. The loop holds the source
  // until Remove.
  void Add(std::shared_ptr<Source> source, uint32_t events);
  void Change(const Source& source, uint32_t events);
  // Stops watching the source's descriptor. A call of OnEvents may still be under way on another
  // thread.
  void Remove(const Source& source);

  // Runs `task` on the loop's thread as soon as that thread gets to it.
  void Post(Task task);

  using Time = std::chrono::steady_clock::time_point;
  // Runs `task` on the loop's thread at `time`. One timer descriptor serves all such tasks. Returns
  // the id that CancelRun takes.
  uint64_t RunAt(Time time, Task task);
  // Cancels a task of RunAt that has not begun. Does not wait for a task that has begun.
  void CancelRun(uint64_t id);

 private:
  struct State {
    UniqueFd epoll;
    UniqueFd wake;
    UniqueFd timer;  // a timerfd, set to the earliest time in `alarms`
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

  // Shared with the loop's thread, which may outlive the IoLoop.
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

// A timer of an IoLoop with one callback, which runs on the loop's thread. The timer can be set to
// an earlier time any number of times before it fires. Thread-safe.
class LoopTimer : public std::enable_shared_from_this<LoopTimer> {
 public:
  // Makes a timer with the callback `fire`. The loop must outlive the timer.
  static std::shared_ptr<LoopTimer> Make(IoLoop& loop, std::function<void()> fire);

  // Makes the timer fire at `time`, unless the timer is already set to an earlier time.
  void FireBy(IoLoop::Time time);

  // Stops the timer for good. Does not wait for a callback that is running.
  void Stop();

 private:
  LoopTimer(IoLoop& loop, std::function<void()> fire) : loop_(loop), fire_(std::move(fire)) {}
  void Fire();

  IoLoop& loop_;
  const std::function<void()> fire_;
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // The id of the loop's task (RunAt) that will run the callback; 0 if no such task is set.
  uint64_t run_ ABSL_GUARDED_BY(mutex_) = 0;
  IoLoop::Time next_ ABSL_GUARDED_BY(mutex_) = IoLoop::Time::max();
};

// The loops and the memory with which a process serves the connections to its peers. Copying a
// large payload takes long, so large payloads have connections of their own, on a thread with long
// time slices (turns.h). Small calls then do not wait behind large payloads.
struct LocalLoops {
  std::shared_ptr<IoLoop> calls = std::make_shared<IoLoop>(Turns::kShort);
  std::shared_ptr<IoLoop> parts = std::make_shared<IoLoop>(Turns::kLong);
  // One pool of payload memory for all connections. With a pool for each connection, each
  // connection would keep the memory of its largest payloads.
  std::shared_ptr<ReceivePool> pool = std::make_shared<ReceivePool>();
};

}  // namespace cohort
