#include "common/wire/frames/acceptor.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include <utility>

#include "common/base/log.h"

namespace cohort {

namespace {

// The interval in which a process that is short of descriptors or memory logs the shortage at most
// once.
constexpr std::chrono::minutes kLogInterval{1};

// Returns whether accept4 failed for want of descriptors or memory. Such a failure may pass.
bool IsShortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Acceptor::Acceptor(std::shared_ptr<IoLoop> loop, UniqueFd socket, Options options)
    : loop_(std::move(loop)),
      options_(std::move(options)),
      fd_(socket.get()),
      socket_(std::move(socket)) {}

std::shared_ptr<Acceptor> Acceptor::Start(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                          Options options) {
  std::shared_ptr<Acceptor> acceptor(
      new Acceptor(std::move(loop), std::move(socket), std::move(options)));
  acceptor->rested_ = LoopTimer::Make(*acceptor->loop_, [weak = std::weak_ptr<Acceptor>(acceptor)] {
    if (const auto self = weak.lock()) self->GoOn();
  });
  acceptor->loop_->Add(acceptor, EPOLLIN);
  return acceptor;
}

void Acceptor::OnEvents(uint32_t events) {
  MutexLock lock(mutex_);
  // The lock is held while `take` runs, so that Close can only return after `take` has returned.
  while (socket_.ok()) {
    UniqueFd accepted = options_.accept(socket_);
    if (!accepted.ok()) {
      // An error other than a shortage concerns one connection, or says that no connection waits.
      // The loop calls OnEvents again when a connection waits.
      if (IsShortage(errno)) Rest(errno);
      return;
    }
    options_.take(std::move(accepted));
  }
}

void Acceptor::Rest(int error) {
  // A listening socket with waiting connections stays readable, so watching it during the pause
  // would keep the loop's thread busy.
  loop_->Change(*this, 0);
  const auto now = std::chrono::steady_clock::now();
  rested_->FireBy(now + options_.rest);
  if (logged_ && now - *logged_ < kLogInterval) return;
  logged_ = now;
  Log(LogLevel::kWarning, "connections_wait",
      {{"cause", strerror(error)},
       {"remedy", "raise the process's limit of open files (ulimit -n), or its memory"}});
}

void Acceptor::GoOn() {
  MutexLock lock(mutex_);
  // After Close, the descriptor's number may belong to another source of the loop.
  if (socket_.ok()) loop_->Change(*this, EPOLLIN);
}

void Acceptor::Close() {
  MutexLock lock(mutex_);
  loop_->Remove(*this);
  rested_->Stop();
  socket_ = UniqueFd();
}

}  // namespace cohort
