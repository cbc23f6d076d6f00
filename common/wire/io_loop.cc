#include "common/wire/io_loop.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace cohort {

namespace {
constexpr int kEventsMax = 64;
}

bool SpinGate::Open() {
  if (score_ > 0) return true;
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
  COHORT_CHECK(state_->epoll.ok() && state_->wake.ok(), "the process may open two descriptors");
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = state_->wake.get();
  COHORT_CHECK(epoll_ctl(state_->epoll.get(), EPOLL_CTL_ADD, state_->wake.get(), &event) == 0,
               "epoll takes an eventfd");
  thread_ = std::thread([state = state_, turns] {
    SetTurns(turns);
    Run(*state);
  });
  pthread_setname_np(thread_.native_handle(),
                     turns == Turns::kLong ? "io-parts" : "io-calls");
}

IoLoop::~IoLoop() {
  {
    MutexLock lock(state_->mutex);
    state_->stopped = true;
  }
  Wake(*state_);
  if (std::this_thread::get_id() == thread_.get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void IoLoop::Add(std::shared_ptr<Source> source, uint32_t events) {
  const int fd = source->fd();
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
  // Fails for a source that was removed meanwhile, and then nothing is to be done.
  epoll_ctl(state_->epoll.get(), EPOLL_CTL_MOD, source.fd(), &event);
}

void IoLoop::Remove(const Source& source) {
  std::shared_ptr<Source> removed;  // dies after the lock
  MutexLock lock(state_->mutex);
  const auto found = state_->sources.find(source.fd());
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

void IoLoop::Wake(const State& state) { eventfd_write(state.wake.get(), 1); }

bool IoLoop::RunTasks(State& state) {
  std::vector<Task> tasks;
  bool stopped = false;
  {
    MutexLock lock(state.mutex);
    tasks.swap(state.tasks);
    stopped = state.stopped;
  }
  for (Task& task : tasks) task();
  return !stopped;
}

int IoLoop::Wait(const State& state, epoll_event* events, SpinGate& gate) {
  int count = epoll_wait(state.epoll.get(), events, kEventsMax, 0);
  if (count != 0) return count;
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
        if (!RunTasks(state)) return;
        continue;
      }
      std::shared_ptr<Source> source;
      {
        MutexLock lock(state.mutex);
        const auto found = state.sources.find(events[i].data.fd);
        if (found != state.sources.end()) source = found->second;
      }
      // A removed source whose number was taken again gets an event that is not its own; sources
      // never block, so it finds nothing to do.
      if (source != nullptr) source->OnEvents(events[i].events);
    }
  }
}

}  // namespace cohort
