#include "common/wire/route/shared_port.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace cohort {

// A connection at a SharedPort whose protocol is not known yet. Only the loop's thread uses a
// Newcomer, but any thread may destroy it.
class SharedPort::Newcomer final : public IoLoop::Source,
                                   public std::enable_shared_from_this<Newcomer> {
 public:
  Newcomer(std::weak_ptr<SharedPort> port, UniqueFd socket)
      : port_(std::move(port)), fd_(socket.get()), socket_(std::move(socket)) {}

  int fd() const override { return fd_; }

  void OnEvents(uint32_t events) override {
    if (const auto port = port_.lock()) port->Look(shared_from_this());
  }

  // Reads the bytes that have arrived, so that first_bytes_ has at most `bytes` bytes. Returns
  // false if the other end is gone.
  bool Read(size_t bytes) {
    const size_t had = first_bytes_.size();
    first_bytes_.resize(bytes);
    const ssize_t count = recv(socket_.get(), first_bytes_.data() + had, bytes - had, 0);
    first_bytes_.resize(had + static_cast<size_t>(count > 0 ? count : 0));
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }

  const std::string& first_bytes() const { return first_bytes_; }
  Time since() const { return since_; }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  const std::weak_ptr<SharedPort> port_;
  const int fd_;
  const Time since_ = std::chrono::steady_clock::now();
  UniqueFd socket_;
  std::string first_bytes_;
};

std::shared_ptr<SharedPort> SharedPort::Start(std::shared_ptr<IoLoop> loop, TcpListeners listeners,
                                              Options options) {
  // The timer and the acceptors hold the port weakly, so that they do not keep it alive.
  std::shared_ptr<SharedPort> port(new SharedPort(std::move(loop), std::move(options)));
  port->timer_ = LoopTimer::Make(*port->loop_, [weak = port->weak_from_this()] {
    if (const auto self = weak.lock()) self->GiveSilentOnes();
  });
  const auto take_in = [weak = port->weak_from_this()](UniqueFd socket) {
    if (const auto self = weak.lock()) self->TakeIn(std::move(socket));
  };
  for (UniqueFd& socket : listeners.sockets) {
    port->acceptors_.push_back(
        Acceptor::Start(port->loop_, std::move(socket), {AcceptTcp, take_in}));
  }
  return port;
}

void SharedPort::TakeIn(UniqueFd socket) {
  auto newcomer = std::make_shared<Newcomer>(weak_from_this(), std::move(socket));
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    newcomers_.insert(newcomer);
    // The loop gets the connection under the lock, so that Close does not miss the connection.
    loop_->Add(newcomer, EPOLLIN);
  }
  timer_->FireBy(newcomer->since() + options_.silence_max);
}

// Reads from a new connection. Once the bytes show the connection's protocol, passes the connection
// to the server for that protocol.
void SharedPort::Look(const std::shared_ptr<Newcomer>& newcomer) {
  if (!BeginGiving(newcomer)) return;
  // No byte beyond a greeting is read, because the bytes that follow belong to frames.
  if (newcomer->Read(StreamGreetingBytes(options_.name))) {
    Give(newcomer, ReadGreeting(newcomer->first_bytes(), options_.name));
  } else {
    Give(newcomer, {FirstBytes::kStranger});
  }
  EndGiving();
}

void SharedPort::Give(const std::shared_ptr<Newcomer>& newcomer, const Greeted& greeted) {
  if (greeted.first == FirstBytes::kTooFew) return;
  loop_->Remove(*newcomer);
  {
    MutexLock lock(mutex_);
    newcomers_.erase(newcomer);
  }
  UniqueFd socket = newcomer->TakeSocket();
  if (greeted.first == FirstBytes::kOther) {
    options_.take_others(std::move(socket), newcomer->first_bytes());
  } else if (greeted.first == FirstBytes::kGreeting) {
    // The welcome answers the greeting. A socket to which nothing was sent yet has room for it.
    if (send(socket.get(), kStreamWelcome.data(), kStreamWelcome.size(), MSG_NOSIGNAL) > 0) {
      options_.take_frames(std::move(socket), greeted.kind);
    }
  }
}

// Passes clients that have sent nothing for too long to gRPC. Sets the timer for the client that
// will be the next to have been silent for too long.
void SharedPort::GiveSilentOnes() {
  const Time now = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<Newcomer>> silent;
  Time next = Time::max();
  {
    MutexLock lock(mutex_);
    for (const auto& newcomer : newcomers_) {
      if (newcomer->since() + options_.silence_max <= now) {
        silent.push_back(newcomer);
      } else {
        next = std::min(next, newcomer->since() + options_.silence_max);
      }
    }
  }
  if (next != Time::max()) timer_->FireBy(next);
  // The connections are passed to gRPC outside the lock, because Give takes the lock itself.
  for (const auto& newcomer : silent) {
    if (!BeginGiving(newcomer)) continue;
    Give(newcomer, {FirstBytes::kOther});
    EndGiving();
  }
}

// Marks that a new connection is being passed to a server; Close waits until EndGiving. Returns
// false if the connection was passed on already or the port is closed.
bool SharedPort::BeginGiving(const std::shared_ptr<Newcomer>& newcomer) {
  MutexLock lock(mutex_);
  giving_ = !closed_ && newcomers_.count(newcomer) > 0;
  return giving_;
}

void SharedPort::EndGiving() {
  MutexLock lock(mutex_);
  giving_ = false;
  given_.NotifyAll();
}

void SharedPort::Close() {
  std::set<std::shared_ptr<Newcomer>> newcomers;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    while (giving_) given_.Wait(mutex_);
    newcomers.swap(newcomers_);
  }
  // The acceptors are closed outside the lock, because Acceptor::Close waits for TakeIn, which
  // takes the lock.
  for (const auto& acceptor : acceptors_) acceptor->Close();
  for (const auto& newcomer : newcomers) loop_->Remove(*newcomer);
  timer_->Stop();
}

}  // namespace cohort
