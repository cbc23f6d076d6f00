#include "common/wire/frames/stream_dial.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/wire/frames/tcp_socket.h"

namespace cohort {

namespace {

constexpr absl::string_view kWelcome = kStreamWelcome;

}  // namespace

StreamDial::StreamDial(std::shared_ptr<IoLoop> loop, UniqueFd socket, Options options, Done done)
    : loop_(std::move(loop)),
      fd_(socket.get()),
      options_(std::move(options)),
      done_(std::move(done)),
      socket_(std::move(socket)) {}

absl::StatusOr<std::shared_ptr<StreamDial>> StreamDial::Start(std::shared_ptr<IoLoop> loop,
                                                              Options options, Done done) {
  ASSIGN_OR_RETURN(UniqueFd socket, BeginConnectTcp(options.peer));
  std::shared_ptr<StreamDial> dial(
      new StreamDial(std::move(loop), std::move(socket), std::move(options), std::move(done)));
  dial->timer_ = LoopTimer::Make(*dial->loop_, [weak = dial->weak_from_this()] {
    if (const auto self = weak.lock()) self->End(absl::UnavailableError("no answer in time"));
  });
  // The dial has a time limit, because no welcome arrives if something other than the server has
  // accepted the connection.
  dial->timer_->FireBy(std::chrono::steady_clock::now() + kDialTimeMax);
  dial->loop_->Add(dial, EPOLLOUT);
  return dial;
}

void StreamDial::OnEvents(uint32_t events) {
  absl::StatusOr<bool> welcomed = false;
  {
    MutexLock lock(mutex_);
    if (done_ == nullptr) return;
    if (greeted_) {
      welcomed = Welcomed();
    } else if (absl::Status greeted = Greet(); !greeted.ok()) {
      welcomed = std::move(greeted);
    }
  }
  if (!welcomed.ok()) {
    End(welcomed.status());
  } else if (*welcomed) {
    End(absl::OkStatus());
  }
}

absl::Status StreamDial::Greet() {
  RETURN_IF_ERROR(ConnectedTcp(socket_));
  const std::string greeting = StreamGreeting(options_.kind, options_.name);
  // The buffer of a new socket has room for the whole greeting, so one call of send() sends all of
  // it.
  const ssize_t sent = send(fd_, greeting.data(), greeting.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(greeting.size())) {
    return absl::UnavailableError(strerror(sent < 0 ? errno : ENOBUFS));
  }
  greeted_ = true;
  loop_->Change(*this, EPOLLIN);
  return absl::OkStatus();
}

absl::StatusOr<bool> StreamDial::Welcomed() {
  char bytes[kWelcome.size()];
  // No byte beyond the welcome is read, because the bytes that follow belong to frames.
  const ssize_t count = recv(fd_, bytes, kWelcome.size() - answer_.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count < 0) return absl::UnavailableError(strerror(errno));
  if (count == 0) return absl::UnavailableError("the server closes the connection");
  answer_.append(bytes, static_cast<size_t>(count));
  // The answer is compared with the welcome while its bytes arrive, so that another protocol is
  // noticed at once.
  if (absl::StartsWith(kWelcome, answer_)) return answer_.size() == kWelcome.size();
  return absl::UnavailableError("something between here and the server speaks another protocol");
}

void StreamDial::End(absl::Status status) {
  Done done;
  UniqueFd socket;
  {
    MutexLock lock(mutex_);
    if (done_ == nullptr) return;
    done = std::exchange(done_, nullptr);
    // The loop stops watching the descriptor while this dial still owns the descriptor, because the
    // number of a closed descriptor may be used again.
    loop_->Remove(*this);
    socket = std::move(socket_);
  }
  timer_->Stop();
  // The callback runs outside the lock, because it begins to use the socket.
  if (status.ok()) {
    done(std::move(socket));
  } else {
    done(std::move(status));
  }
}

void StreamDial::Cancel() {
  Done done;  // the callback dies after the lock is released
  UniqueFd socket;
  {
    MutexLock lock(mutex_);
    done = std::exchange(done_, nullptr);
    if (done == nullptr) return;
    loop_->Remove(*this);
    socket = std::move(socket_);
  }
  timer_->Stop();
}

}  // namespace cohort
