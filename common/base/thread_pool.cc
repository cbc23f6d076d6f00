#include "common/base/thread_pool.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace cohort {

ThreadPool::ThreadPool(Options options) {
  COHORT_CHECK(options.threads > 0, "a pool has at least one thread");
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this, turns = options.turns] { Work(turns); });
    // Linux limits the name of a thread to 15 characters.
    const std::string name = absl::StrCat(options.name.substr(0, 12), "-", i);
    pthread_setname_np(threads_.back().native_handle(), name.substr(0, 15).c_str());
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ThreadPool::Run(Task task) {
  // The waiting thread is notified under the lock. Once the mutex is unlocked, `task` may run and
  // let the pool's owner destroy the pool, and with it the condition variable.
  MutexLock lock(mutex_);
  queue_.push_back(std::move(task));
  wake_.NotifyOne();
}

void ThreadPool::Work(absl::optional<Turns> turns) {
  if (turns) SetTurns(*turns);
  while (true) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) wake_.Wait(mutex_);
      // A thread of a stopping pool ends only when the queue is empty, so every queued task runs.
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    // The task runs without the lock, so that the pool's other threads can take tasks at the same
    // time.
    task();
  }
}

}  // namespace cohort
