#include "tests/support/proxy_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace cohort {

namespace {

constexpr size_t kChunkBytes = 64 << 10;
// Then the sender waits.
constexpr size_t kHeldBytesMax = 4 << 20;

void CloseWithReset(UniqueFd& socket) {
  const linger now = {1, 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  UniqueFd closed = std::move(socket);
}

}  // namespace

ProxyConnection::ProxyConnection(UniqueFd client, UniqueFd server) {
  sockets_[0] = std::move(client);
  sockets_[1] = std::move(server);
}

ProxyTime ProxyConnection::Watch(const ProxyRules& rules, ProxyTime now,
                                 std::vector<pollfd>& watched) const {
  ProxyTime wake = ProxyTime::max();
  std::array<short, 2> events = {0, 0};
  if (connecting_) events[1] = POLLOUT;
  for (size_t from = 0; from < 2 && !connecting_; ++from) {
    const Pipe& pipe = pipes_[from];
    if (!pipe.ended && pipe.bytes.held < kHeldBytesMax) events[from] |= POLLIN;
    if (pipe.chunks.empty() || rules[from].flow != ProxyFlow::kPass) continue;
    if (pipe.chunks.front().ready <= now) {
      events[1 - from] |= POLLOUT;
    } else {
      wake = std::min(wake, pipe.chunks.front().ready);
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    // Without events a socket that broke would be told of again and again.
    watched.push_back({events[i] == 0 ? -1 : sockets_[i].get(), events[i], 0});
  }
  return wake;
}

void ProxyConnection::Move(const ProxyRules& rules, ProxyTime now, const pollfd* watched) {
  if (connecting_) {
    if (watched[1].revents == 0) return;
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(sockets_[1].get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Reset();
    connecting_ = false;
  }
  for (size_t from = 0; from < 2; ++from) {
    if (watched[from].revents != 0 && (watched[from].events & POLLIN) != 0) {
      Read(from, rules[from], now);
    }
    if (rules[from].flow == ProxyFlow::kDrop) Drop(pipes_[from]);
  }
  for (size_t from = 0; from < 2 && open_; ++from) {
    Write(from, rules[from], now);
    if (open_) TellEnd(from, rules[from]);
  }
  const auto over = [](const Pipe& pipe) { return pipe.ended && (pipe.told || pipe.damaged); };
  if (over(pipes_[0]) && over(pipes_[1])) open_ = false;
}

void ProxyConnection::Read(size_t from, const ProxyRule& rule, ProxyTime now) {
  Pipe& pipe = pipes_[from];
  std::string bytes(kChunkBytes, '\0');
  const ssize_t got = recv(sockets_[from].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    pipe.ended = true;
    pipe.reset = got < 0;
    return;
  }
  bytes.resize(static_cast<size_t>(got));
  if (pipe.damaged || pipe.closing || rule.flow == ProxyFlow::kDrop) {
    pipe.damaged = pipe.damaged || !pipe.closing;
    pipe.bytes.dropped += bytes.size();
    return;
  }
  pipe.bytes.held += bytes.size();
  pipe.chunks.push_back({now + rule.delay, std::move(bytes)});
}

void ProxyConnection::Drop(Pipe& pipe) {
  if (pipe.chunks.empty()) return;
  pipe.damaged = true;
  pipe.chunks.clear();
  pipe.bytes.dropped += std::exchange(pipe.bytes.held, 0);
}

void ProxyConnection::Write(size_t from, const ProxyRule& rule, ProxyTime now) {
  Pipe& pipe = pipes_[from];
  while (rule.flow == ProxyFlow::kPass && !pipe.chunks.empty() &&
         pipe.chunks.front().ready <= now) {
    std::string& bytes = pipe.chunks.front().bytes;
    const ssize_t sent =
        send(sockets_[1 - from].get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent < 0) return Reset();  // nobody is there to receive
    pipe.bytes.passed += static_cast<uint64_t>(sent);
    pipe.bytes.held -= static_cast<uint64_t>(sent);
    bytes.erase(0, static_cast<size_t>(sent));
    if (bytes.empty()) pipe.chunks.pop_front();
  }
}

// An end is behind the bytes before it, and as silent as they are.
void ProxyConnection::TellEnd(size_t from, const ProxyRule& rule) {
  Pipe& pipe = pipes_[from];
  if (!(pipe.ended || pipe.closing) || pipe.told || pipe.damaged) return;
  if (rule.flow != ProxyFlow::kPass || !pipe.chunks.empty()) return;
  if (pipe.reset) return Reset();
  shutdown(sockets_[1 - from].get(), SHUT_WR);
  pipe.told = true;
}

void ProxyConnection::HalfClose(size_t direction) { pipes_[direction].closing = true; }

void ProxyConnection::Reset() {
  for (UniqueFd& socket : sockets_) CloseWithReset(socket);
  open_ = false;
}

}  // namespace cohort
