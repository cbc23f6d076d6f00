#include "common/wire/route/tcp_route.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace cohort {

namespace {

// The first and the longest pause between attempts to reach a server over TCP. After each attempt
// the pause doubles.
constexpr std::chrono::seconds kPauseFirst{10};
constexpr std::chrono::seconds kPauseMax{300};

}  // namespace

TcpRoute::~TcpRoute() {
  std::shared_ptr<StreamDial> dial;
  {
    MutexLock lock(mutex_);
    dial = std::move(dial_);
    if (calls_ != nullptr) calls_->CloseWhenIdle();
  }
  // The attempt to connect (dial) is cancelled outside the lock, because the dial takes a lock of
  // its own.
  if (dial != nullptr) dial->Cancel();
}

std::shared_ptr<LocalChannel> TcpRoute::open() {
  MutexLock lock(mutex_);
  if (channel_ != nullptr && !channel_->open()) channel_.reset();
  return channel_;
}

// Begins to connect to the server, unless a connection exists, an attempt is under way, or the
// pause after a failed attempt is not over.
void TcpRoute::Offer(const Server& server) {
  if (server.name.empty()) {
    return Refuse(server, absl::UnavailableError("the server offers nothing else"));
  }
  {
    MutexLock lock(mutex_);
    if (dialling_ || (channel_ != nullptr && channel_->open())) return;
    // A restarted server has a new name, and is tried at once.
    if (server.name != refused_) {
      pause_ = std::chrono::seconds(0);
    } else if (Clock::now() < again_) {
      return;
    }
    dialling_ = true;
  }
  Dial(server, StreamKind::kCalls);
}

// Opens one of the route's two connections: first the one for small calls, then the one for large
// payloads.
void TcpRoute::Dial(const Server& server, StreamKind kind) {
  int step = 0;
  {
    MutexLock lock(mutex_);
    step = ++dials_;
  }
  auto dial =
      StreamDial::Start(loops_.calls, {server.peer, server.name, kind},
                        [weak = weak_from_this(), server, kind](absl::StatusOr<UniqueFd> socket) {
                          if (const auto self = weak.lock())
                            self->OnDialled(server, kind, std::move(socket));
                        });
  if (!dial.ok()) return Refuse(server, dial.status());
  MutexLock lock(mutex_);
  // If `dials_` has changed, this dial is over, and `dial_` holds a later dial that is under way.
  if (step == dials_) dial_ = *std::move(dial);
}

// Makes a LocalSession over a TCP connection. Such a connection has no shared blocks, and it has
// checksums, because bytes may change on the way.
std::shared_ptr<LocalSession> TcpRoute::SessionOver(UniqueFd socket, StreamKind kind) {
  LocalSession::Options options;
  options.address = options_.address;
  options.message_bytes_max = options_.message_bytes_max;
  options.blocks = false;
  options.sums = FrameSums::kCrc32c;
  options.pool = loops_.pool;
  options.free_bytes_max = options_.free_bytes_max;
  return LocalSession::Over(kind == StreamKind::kParts ? loops_.parts : loops_.calls,
                            std::move(socket), std::move(options));
}

// Handles the end of a dial: opens the second connection after the first one, and makes the channel
// once both connections exist.
void TcpRoute::OnDialled(const Server& server, StreamKind kind, absl::StatusOr<UniqueFd> socket) {
  if (!socket.ok()) return Refuse(server, socket.status());
  std::shared_ptr<LocalSession> session = SessionOver(*std::move(socket), kind);
  if (kind == StreamKind::kCalls) {
    {
      MutexLock lock(mutex_);
      calls_ = std::move(session);
    }
    return Dial(server, StreamKind::kParts);
  }
  MutexLock lock(mutex_);
  channel_ = std::make_shared<LocalChannel>(loops_, std::move(calls_), std::move(session));
  dialling_ = false;
  refused_.clear();
}

// Records that the server cannot be reached over TCP now, and when to try again.
void TcpRoute::Refuse(const Server& server, const absl::Status& why) {
  std::shared_ptr<LocalSession> calls;
  bool log = false;
  {
    MutexLock lock(mutex_);
    dialling_ = false;
    calls.swap(calls_);
    refused_ = server.name;
    pause_ = std::clamp(2 * pause_, kPauseFirst, kPauseMax);
    again_ = Clock::now() + pause_;
    log = logged_ != why.message();
    logged_ = std::string(why.message());
  }
  if (calls != nullptr) calls->CloseWhenIdle();
  // The failure is logged only if its reason is new, because every call may offer the server again.
  if (log) {
    Log(LogLevel::kInfo, "tensors_stay_on_grpc",
        {{"address", options_.address}, {"reason", why.message()}});
  }
}

}  // namespace cohort
