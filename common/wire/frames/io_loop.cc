#include "common/wire/frames/io_loop.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace cohort {

namespace {

// The most events that one epoll_wait returns.
constexpr int kEventsMax = 64;

}  // namespace

bool SpinGate::Open() {
  if (score_ > 0) return true;
  // While spinning does not pay, one wait in kTrialInterval waits spins as a trial, because the
  // traffic may have changed.
  if (++waits_ < kTrialInterval) return false;
  waits_ = 0;
  return true;
}

void SpinGate::Spun(bool found) {
  if (!found) {
    score_ = std::max(0, score_ - 1);
  } else {
    score_ = score_ == 0 ? kScoreFirst : std::min(kScoreMax, score_ + 1);
  }
}

IoLoop::IoLoop(Turns turns) : state_(std::make_shared<State>()) {
  state_->epoll = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  state_->wake = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  state_->timer = UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  // Main has checked the limit on open descriptors before a loop is made
  // (common/cluster/process_limits.h).
  COHORT_CHECK(state_->epoll.ok() && state_->wake.ok() && state_->timer.ok(),
               "the process may open three descriptors");
  for (const UniqueFd* const own : {&state_->wake, &state_->timer}) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = own->get();
    COHORT_CHECK(epoll_ctl(state_->epoll.get(), EPOLL_CTL_ADD, own->get(), &event) == 0,
                 "epoll takes an eventfd and a timer");
  }
  thread_ = std::thread([state = state_, turns] {
    SetTurns(turns);
    Run(*state);
  });
  pthread_setname_np(thread_.native_handle(), turns == Turns::kLong ? "io-parts" : "io-calls");
}

IoLoop::~IoLoop() {
  {
    MutexLock lock(state_->mutex);
    state_->stopped = true;
  }
  Wake(*state_);
  // The loop's last owner may be a task or source on the loop's own thread, and a thread cannot
  // join itself.
  if (std::this_thread::get_id() == thread_.get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void IoLoop::Add(std::shared_ptr<Source> source, uint32_t events) {
  const int fd = source->fd();
  // The source is stored before epoll watches it, because epoll may report an event for it at once.
  {
    MutexLock lock(state_->mutex);
    state_->sources[fd] = std::move(source);
  }
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  COHORT_CHECK(epoll_ctl(state_->epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0,
               "a descriptor is added once");
}

void IoLoop::Change(const Source& source, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = source.fd();
  // EPOLL_CTL_MOD fails if the source was removed in the meantime. The failure is ignored, because
  // a removed source is not watched.
  epoll_ctl(state_->epoll.get(), EPOLL_CTL_MOD, source.fd(), &event);
}

void IoLoop::Remove(const Source& source) {
  std::shared_ptr<Source> removed;  // the source dies after the lock is released
  MutexLock lock(state_->mutex);
  const auto found = state_->sources.find(source.fd());
  // If `source` was removed before, another source may now have the same descriptor number.
  if (found == state_->sources.end() || found->second.get() != &source) return;
  removed = std::move(found->second);
  state_->sources.erase(found);
  epoll_ctl(state_->epoll.get(), EPOLL_CTL_DEL, source.fd(), nullptr);
}

void IoLoop::Post(Task task) {
  {
    MutexLock lock(state_->mutex);
    state_->tasks.push_back(std::move(task));
  }
  Wake(*state_);
}

uint64_t IoLoop::RunAt(Time time, Task task) {
  MutexLock lock(state_->mutex);
  const uint64_t id = ++state_->last_alarm;
  state_->alarm_times[id] = time;
  const auto place = state_->alarms.emplace(std::make_pair(time, id), std::move(task)).first;
  // The timerfd is set to the time of the earliest alarm, so an alarm that is not the earliest does
  // not change the timerfd.
  if (place == state_->alarms.begin()) SetTimerLocked(*state_);
  return id;
}

// Cancels an alarm. The timerfd is not reset: if it expires at the cancelled alarm's time,
// RunAlarms finds no alarm to run.
void IoLoop::CancelRun(uint64_t id) {
  Task cancelled;  // the task dies after the lock is released
  MutexLock lock(state_->mutex);
  const auto found = state_->alarm_times.find(id);
  if (found == state_->alarm_times.end()) return;
  const auto alarm = state_->alarms.find({found->second, id});
  cancelled = std::move(alarm->second);
  state_->alarms.erase(alarm);
  state_->alarm_times.erase(found);
}

void IoLoop::SetTimerLocked(State& state) {
  if (state.alarms.empty()) return;
  const Time time = state.alarms.begin()->first.first;
  // A timerfd set to time zero would be disarmed.
  const auto since_start = std::max(time.time_since_epoch(), std::chrono::nanoseconds(1));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_start);
  itimerspec when = {};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = (since_start - seconds).count();
  timerfd_settime(state.timer.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void IoLoop::RunAlarms(State& state) {
  uint64_t times = 0;
  // The read fails if the timerfd was set to a later time after epoll had reported it. In that case
  // no alarm is due.
  if (read(state.timer.get(), &times, sizeof(times)) != sizeof(times)) return;
  std::vector<Task> due;
  {
    MutexLock lock(state.mutex);
    const Time now = std::chrono::steady_clock::now();
    while (!state.alarms.empty() && state.alarms.begin()->first.first <= now) {
      const auto first = state.alarms.begin();
      due.push_back(std::move(first->second));
      state.alarm_times.erase(first->first.second);
      state.alarms.erase(first);
    }
    SetTimerLocked(state);
  }
  // The tasks of alarms run outside the lock, because a task may set or cancel alarms.
  for (Task& task : due) task();
}

void IoLoop::Wake(const State& state) { eventfd_write(state.wake.get(), 1); }

bool IoLoop::RunTasks(State& state) {
  std::vector<Task> tasks;
  bool stopped = false;
  {
    MutexLock lock(state.mutex);
    tasks.swap(state.tasks);
    stopped = state.stopped;
  }
  // Posted tasks run outside the lock, because a task may post another task.
  for (Task& task : tasks) task();
  return !stopped;
}

int IoLoop::Wait(const State& state, epoll_event* events, SpinGate& gate) {
  int count = epoll_wait(state.epoll.get(), events, kEventsMax, 0);
  if (count != 0) return count;
  // Spinning avoids the time that a sleeping processor takes to wake up.
  if (gate.Open()) {
    const auto end = std::chrono::steady_clock::now() + kSpinMax;
    do {
      count = epoll_wait(state.epoll.get(), events, kEventsMax, 0);
    } while (count == 0 && std::chrono::steady_clock::now() < end);
    gate.Spun(count != 0);
    if (count != 0) return count;
  }
  return epoll_wait(state.epoll.get(), events, kEventsMax, -1);
}

void IoLoop::Run(State& state) {
  epoll_event events[kEventsMax];
  SpinGate gate;
  while (true) {
    const int count = Wait(state, events, gate);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == state.wake.get()) {
        eventfd_t drained = 0;
        eventfd_read(state.wake.get(), &drained);
        // The thread ends only after the tasks that were posted before the stop have run.
        if (!RunTasks(state)) return;
        continue;
      }
      if (events[i].data.fd == state.timer.get()) {
        RunAlarms(state);
        continue;
      }
      // This shared_ptr keeps the source alive during OnEvents, even if Remove runs meanwhile.
      std::shared_ptr<Source> source;
      {
        MutexLock lock(state.mutex);
        const auto found = state.sources.find(events[i].data.fd);
        if (found != state.sources.end()) source = found->second;
      }
      // If another source has taken the descriptor number of a removed source, the new source gets
      // an event of the removed one. Sources never block, so the new source finds nothing to do.
      if (source != nullptr) source->OnEvents(events[i].events);
    }
  }
}

std::shared_ptr<LoopTimer> LoopTimer::Make(IoLoop& loop, std::function<void()> fire) {
  return std::shared_ptr<LoopTimer>(new LoopTimer(loop, std::move(fire)));
}

void LoopTimer::FireBy(IoLoop::Time time) {
  MutexLock lock(mutex_);
  // A timer that is set to an earlier time keeps that time. Its callback sets the timer again for
  // later times.
  if (stopped_ || time >= next_) return;
  loop_.CancelRun(run_);
  next_ = time;
  run_ = loop_.RunAt(time, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Fire();
  });
}

void LoopTimer::Fire() {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    run_ = 0;
    // The timer is unset before `fire_` runs, because `fire_` may set it again.
    next_ = IoLoop::Time::max();
  }
  // The callback runs outside the lock, because it may call FireBy or Stop.
  fire_();
}

void LoopTimer::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  loop_.CancelRun(run_);
}

}  // namespace cohort
