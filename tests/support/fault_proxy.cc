#include "tests/support/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace cohort {

namespace {

constexpr int kBacklog = 128;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

UniqueFd MakeSocket() {
  UniqueFd made(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  COHORT_CHECK(made.ok(), "a socket");
  return made;
}

UniqueFd BoundSocket(uint16_t port) {
  UniqueFd made = MakeSocket();
  const int on = 1;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = Loopback(port);
  COHORT_CHECK(bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
               "a port of loopback");
  return made;
}

uint16_t PortOf(const UniqueFd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

uint16_t PortIn(const std::string& address) {
  int port = 0;
  COHORT_CHECK(address.rfind("127.0.0.1:", 0) == 0 && absl::SimpleAtoi(address.substr(10), &port),
               "an address of loopback");
  return static_cast<uint16_t>(port);
}

void SendAtOnce(const UniqueFd& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void Add(const ProxyBytes& more, ProxyBytes& sum) {
  sum.passed += more.passed;
  sum.held += more.held;
  sum.dropped += more.dropped;
}

int MillisecondsUntil(ProxyTime wake, ProxyTime now) {
  if (wake == ProxyTime::max()) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(wake - now).count();
  return static_cast<int>(std::clamp<int64_t>(left + 1, 0, 60'000));
}

}  // namespace

FaultProxy::FaultProxy() : reserved_(BoundSocket(0)), wake_(eventfd(0, EFD_CLOEXEC)) {
  COHORT_CHECK(wake_.ok(), "an eventfd");
  address_ = absl::StrCat("127.0.0.1:", PortOf(reserved_));
  Listen();
  thread_ = std::thread([this] { Loop(); });
}

FaultProxy::~FaultProxy() {
  RunOnThread([this] {
    MutexLock lock(mutex_);
    stopping_ = true;
  });
  thread_.join();
}

void FaultProxy::Listen() {
  listener_ = BoundSocket(PortOf(reserved_));
  COHORT_CHECK(listen(listener_.get(), kBacklog) == 0, "a port that is ours");
}

void FaultProxy::SetTarget(const std::string& address) {
  RunOnThread([this, address] { target_ = address; });
}

void FaultProxy::SetFlow(Direction direction, ProxyFlow flow) {
  RunOnThread([this, direction, flow] { rules_[direction].flow = flow; });
}

void FaultProxy::SetFlow(ProxyFlow flow) {
  RunOnThread([this, flow] {
    for (ProxyRule& rule : rules_) rule.flow = flow;
  });
}

void FaultProxy::SetDelay(Direction direction, absl::Duration delay) {
  RunOnThread(
      [this, direction, delay] { rules_[direction].delay = absl::ToChronoNanoseconds(delay); });
}

void FaultProxy::HalfClose(Direction direction) {
  RunOnThread([this, direction] {
    for (const auto& connection : connections_) connection->HalfClose(direction);
  });
}

void FaultProxy::ResetAll() {
  RunOnThread([this] {
    for (const auto& connection : connections_) connection->Reset();
  });
}

void FaultProxy::RefuseConnections() {
  RunOnThread([this] { UniqueFd closed = std::move(listener_); });
}

void FaultProxy::AcceptConnections() {
  RunOnThread([this] {
    if (!listener_.ok()) Listen();
  });
}

FaultProxy::Counts FaultProxy::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

bool FaultProxy::WaitUntil(const std::function<bool(const Counts&)>& holds,
                           absl::Duration timeout) const {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  while (!holds(counts_)) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    changed_.WaitFor(mutex_, absl::FromChrono(left));
  }
  return true;
}

void FaultProxy::RunOnThread(Command command) {
  MutexLock lock(mutex_);
  commands_.push_back(std::move(command));
  const uint64_t mine = ++commands_given_;
  eventfd_write(wake_.get(), 1);
  while (commands_done_ < mine) changed_.Wait(mutex_);
}

// False when it was the last time.
bool FaultProxy::RunCommands() {
  std::vector<Command> commands;
  {
    MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) command();
  Publish();
  MutexLock lock(mutex_);
  commands_done_ += commands.size();
  changed_.NotifyAll();
  return !stopping_;
}

void FaultProxy::Loop() {
  while (RunCommands()) {
    Prune();
    const ProxyTime now = std::chrono::steady_clock::now();
    std::vector<pollfd> watched = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    ProxyTime wake = ProxyTime::max();
    for (const auto& connection : connections_) {
      wake = std::min(wake, connection->Watch(rules_, now, watched));
    }
    poll(watched.data(), watched.size(), MillisecondsUntil(wake, now));
    if (watched[0].revents != 0) {
      eventfd_t ignored = 0;
      eventfd_read(wake_.get(), &ignored);
      if (!RunCommands()) return;  // before any byte moves
    }
    const ProxyTime later = std::chrono::steady_clock::now();
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i]->IsOpen()) connections_[i]->Move(rules_, later, &watched[2 + 2 * i]);
    }
    if (watched[1].revents != 0 && listener_.ok()) Accept();
  }
}

void FaultProxy::Accept() {
  UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!client.ok()) return;
  ++accepted_;
  UniqueFd server = MakeSocket();
  SendAtOnce(client);
  SendAtOnce(server);
  const sockaddr_in address = Loopback(target_.empty() ? uint16_t{0} : PortIn(target_));
  const bool connecting =
      !target_.empty() &&
      (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
       errno == EINPROGRESS);
  connections_.push_back(std::make_unique<ProxyConnection>(std::move(client), std::move(server)));
  if (!connecting) connections_.back()->Reset();
}

// Not while the entries of poll() are in use, which count connections.
void FaultProxy::Prune() {
  for (const auto& connection : connections_) {
    if (connection->IsOpen()) continue;
    for (const Direction direction : {kToServer, kToClient}) {
      Add(connection->bytes(direction), ended_[direction]);
      ended_[direction].held = 0;
    }
  }
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(),
                                    [](const auto& connection) { return !connection->IsOpen(); }),
                     connections_.end());
}

void FaultProxy::Publish() {
  Counts counts{accepted_, 0, ended_[kToServer], ended_[kToClient]};
  for (const auto& connection : connections_) {
    counts.open += connection->IsOpen() ? 1 : 0;
    Add(connection->bytes(kToServer), counts.to_server);
    Add(connection->bytes(kToClient), counts.to_client);
  }
  MutexLock lock(mutex_);
  counts_ = counts;
  changed_.NotifyAll();
}

}  // namespace cohort
