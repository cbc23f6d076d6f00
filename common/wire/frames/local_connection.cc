#include "common/wire/frames/local_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"

namespace cohort {

std::shared_ptr<LocalConnection> LocalConnection::Start(std::shared_ptr<IoLoop> loop,
                                                        UniqueFd socket,
                                                        std::shared_ptr<Owner> owner,
                                                        const Options& options) {
  std::shared_ptr<LocalConnection> connection(
      new LocalConnection(std::move(loop), std::move(socket), std::move(owner), options));
  connection->loop_->Add(connection, EPOLLIN);
  return connection;
}

LocalConnection::LocalConnection(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                 std::shared_ptr<Owner> owner, const Options& options)
    : loop_(std::move(loop)),
      socket_(std::move(socket)),
      peer_(options.peer),
      sums_(options.sums),
      reader_({options.message_bytes_max, options.blocks, options.sums, options.pool}),
      writer_({*loop_, *this, socket_, options.blocks, options.sums, options.whole_bytes_max}),
      owner_(std::move(owner)) {}

bool LocalConnection::Send(proto::LocalFrame frame, Payload payload) {
  return writer_.Send(std::move(frame), std::move(payload));
}

void LocalConnection::OnEvents(uint32_t events) {
  if ((events & EPOLLOUT) != 0) writer_.Writable();
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) == 0) return;
  const absl::Status read = ReadSome();
  if (read.ok()) return;
  if (!absl::IsUnavailable(read)) {
    Log(LogLevel::kWarning, "connection_ends", {{"peer", peer_}, {"error", read.message()}});
    if (sums_ != FrameSums::kNone) SayWhy(read);
  }
  End(read);
}

// Bytes may have changed on their way here; the other end is honest, and names the cause as well.
void LocalConnection::SayWhy(const absl::Status& why) {
  proto::LocalFrame last;
  last.set_ended_because(std::string(why.message()));
  writer_.Send(std::move(last), {});
}

absl::Status LocalConnection::ReadSome() {
  return reader_.ReadSome(
      socket_,
      {weak_from_this(), [&](const proto::LocalFrame& frame) { return writer_.TakeNotes(frame); },
       [&](uint64_t block) { writer_.PartRead(block); },
       [&](proto::LocalFrame frame, Payload payload) {
         return Give(std::move(frame), std::move(payload));
       },
       [&](const proto::LocalFrame& frame, size_t bytes) {
         const std::shared_ptr<Owner> owner = OwnerUntilTheEnd();
         return owner == nullptr ? nullptr : owner->PlaceFor(frame, bytes);
       }});
}

std::shared_ptr<LocalConnection::Owner> LocalConnection::OwnerUntilTheEnd() const {
  MutexLock lock(mutex_);
  return owner_;
}

bool LocalConnection::Give(proto::LocalFrame frame, Payload payload) {
  const std::shared_ptr<Owner> owner = OwnerUntilTheEnd();
  if (owner == nullptr) return false;
  owner->OnFrame(std::move(frame), std::move(payload));
  return true;
}

void LocalConnection::End(const absl::Status& why) {
  std::shared_ptr<Owner> owner;
  {
    MutexLock lock(mutex_);
    owner = std::exchange(owner_, nullptr);
  }
  loop_->Remove(*this);
  writer_.Close();
  if (owner != nullptr) owner->OnEnd(why);
}

void LocalConnection::Close() {
  std::shared_ptr<Owner> owner;  // dies after the lock
  {
    MutexLock lock(mutex_);
    owner = std::exchange(owner_, nullptr);
  }
  writer_.Close();
  shutdown(socket_.get(), SHUT_RDWR);
  loop_->Remove(*this);
}

bool LocalConnection::open() const {
  MutexLock lock(mutex_);
  return owner_ != nullptr;
}

}  // namespace cohort
