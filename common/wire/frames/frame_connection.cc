#include "common/wire/frames/frame_connection.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"

namespace cohort {

FrameConnection::FrameConnection(FrameBearer& bearer, std::shared_ptr<Owner> owner,
                                 const Options& options)
    : peer_(options.peer),
      sums_(options.sums),
      moved_(options.moved),
      reader_({options.message_bytes_max, options.blocks, options.sums, options.pool}),
      writer_({bearer, options.blocks, options.sums, options.whole_bytes_max, options.moved}),
      owner_(std::move(owner)) {}

void FrameConnection::Forget(uint64_t call) {
  if (writer_.Forget(call)) return;
  StopBearer(absl::UnavailableError("a call was given up while its bytes were being sent"));
}

absl::Status FrameConnection::Read(
    absl::FunctionRef<absl::Status(LocalReader&, const LocalReader::Sinks&)> read) {
  const uint64_t before = reader_.bytes_taken();
  // The lambdas are called during `read` only, so they may refer to this connection.
  const absl::Status status =
      read(reader_, {weak_from_this(),
                     [&](const proto::LocalFrame& frame) { return writer_.TakeNotes(frame); },
                     [&](uint64_t block) { writer_.PartRead(block); },
                     [&](proto::LocalFrame frame, Payload payload) {
                       return Give(std::move(frame), std::move(payload));
                     },
                     [&](const proto::LocalFrame& frame, size_t bytes) {
                       // The owner may have closed the connection while the frame was being read.
                       // Then nobody offers memory for the payload.
                       const std::shared_ptr<Owner> owner = OwnerUntilTheEnd();
                       return owner == nullptr ? nullptr : owner->PlaceFor(frame, bytes);
                     }});
  Count(reader_.bytes_taken() - before);
  if (status.ok()) return status;
  if (!absl::IsUnavailable(status)) {
    Log(LogLevel::kWarning, "connection_ends", {{"peer", peer_}, {"error", status.message()}});
    if (sums_ != FrameSums::kNone) SayWhy(status);
  }
  End(status);
  return status;
}

// Tells the other end why this end closes the connection, so that the other end's errors can name
// the cause as well. The other end may be without fault, because bytes may have changed on the way.
void FrameConnection::SayWhy(const absl::Status& why) {
  proto::LocalFrame last;
  last.set_ended_because(std::string(why.message()));
  writer_.Send(std::move(last), {});
}

std::shared_ptr<FrameConnection::Owner> FrameConnection::OwnerUntilTheEnd() const {
  MutexLock lock(mutex_);
  return owner_;
}

bool FrameConnection::Give(proto::LocalFrame frame, Payload payload) {
  const std::shared_ptr<Owner> owner = OwnerUntilTheEnd();
  if (owner == nullptr) return false;
  owner->OnFrame(std::move(frame), std::move(payload));
  return true;
}

void FrameConnection::End(const absl::Status& why) {
  std::shared_ptr<Owner> owner;
  {
    MutexLock lock(mutex_);
    // End and Close may run at the same time. The first of them sets `owner_` to null, so OnEnd
    // runs at most once.
    owner = std::exchange(owner_, nullptr);
  }
  writer_.Close();
  StopBearer(why);
  // OnEnd is called outside the lock, because the owner may make a new connection in OnEnd.
  if (owner != nullptr) owner->OnEnd(why);
}

void FrameConnection::Close() {
  std::shared_ptr<Owner> owner;  // the owner dies after the lock is released
  {
    MutexLock lock(mutex_);
    owner = std::exchange(owner_, nullptr);
  }
  writer_.Close();
  StopBearer(absl::UnavailableError("the connection was closed"));
}

bool FrameConnection::open() const {
  MutexLock lock(mutex_);
  return owner_ != nullptr;
}

}  // namespace cohort
