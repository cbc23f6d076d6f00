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
  // ReadSome reports errors and hang-ups of the socket, after it has read the bytes that arrived
  // before them.
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) == 0) return;
  const absl::Status read = ReadSome();
  if (read.ok()) return;
  if (!absl::IsUnavailable(read)) {
    Log(LogLevel::kWarning, "connection_ends", {{"peer", peer_}, {"error", read.message()}});
    if (sums_ != FrameSums::kNone) SayWhy(read);
  }
  End(read);
}

// Tells the other end why this end closes the connection. The other end may be without fault, since
// bytes may have changed on the way, and should name the cause in its errors too.
void LocalConnection::SayWhy(const absl::Status& why) {
  proto::LocalFrame last;
  last.set_ended_because(std::string(why.message()));
  writer_.Send(std::move(last), {});
}

absl::Status LocalConnection::ReadSome() {
  // The lambdas are called during ReadSome only, so they may refer to this connection.
  return reader_.ReadSome(
      socket_,
      {weak_from_this(), [&](const proto::LocalFrame& frame) { return writer_.TakeNotes(frame); },
       [&](uint64_t block) { writer_.PartRead(block); },
       [&](proto::LocalFrame frame, Payload payload) {
         return Give(std::move(frame), std::move(payload));
       },
       [&](const proto::LocalFrame& frame, size_t bytes) {
         // The owner may have closed the connection while the frame was being read.
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
    // End and Close may run at the same time. The first of them sets `owner_` to null, so OnEnd
    // runs at most once.
    owner = std::exchange(owner_, nullptr);
  }
  loop_->Remove(*this);
  writer_.Close();
  // OnEnd is called outside the lock, because the owner may make a new connection in it.
  if (owner != nullptr) owner->OnEnd(why);
}

void LocalConnection::Close() {
  std::shared_ptr<Owner> owner;  // the owner dies after the lock is released
  {
    MutexLock lock(mutex_);
    owner = std::exchange(owner_, nullptr);
  }
  writer_.Close();
  // shutdown ends the stream for the other end at once, even if a reader at this end keeps the
  // socket open.
  shutdown(socket_.get(), SHUT_RDWR);
  loop_->Remove(*this);
}

bool LocalConnection::open() const {
  MutexLock lock(mutex_);
  return owner_ != nullptr;
}

}  // namespace cohort
