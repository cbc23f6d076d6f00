#include "common/wire/frames/local_connection.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/local_socket.h"

namespace cohort {

namespace {

// The most pieces of memory that one system call sends.
constexpr size_t kPiecesMax = 64;

// Returns the pieces of memory that the next system call sends: the bytes of a frame's head and of
// the payload after it, without the first `sent` bytes, up to the limits of one system call.
std::vector<iovec> PiecesOf(const std::string& head, const Payload& following, size_t sent) {
  std::vector<iovec> pieces;
  size_t room = kSystemCallBytesMax;
  const auto add = [&](const void* data, size_t size) {
    const size_t skip = std::min(sent, size);
    // The bytes of one system call are limited, so that other threads can use the processor between
    // two calls.
    const size_t count = std::min(size - skip, room);
    sent -= skip;
    if (count == 0 || pieces.size() == kPiecesMax) return;
    room -= count;
    pieces.push_back({const_cast<char*>(static_cast<const char*>(data)) + skip, count});
  };
  add(head.data(), head.size());
  for (const ByteSlice& slice : following) add(slice.data, slice.size);
  return pieces;
}

}  // namespace

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
    : FrameConnection(static_cast<FrameBearer&>(*this), std::move(owner), options),
      loop_(std::move(loop)),
      socket_(std::move(socket)) {}

void LocalConnection::OnEvents(uint32_t events) {
  if ((events & EPOLLOUT) != 0) writer().Writable();
  // All events but EPOLLOUT go to the reader: it reads the bytes that arrived before an error or a
  // hang-up of the socket, and then reports the error.
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) == 0) return;
  // The status is ignored, because Read itself ends the connection after an error.
  Read([&](LocalReader& reader, const LocalReader::Sinks& sinks) {
    return reader.ReadSome(socket_, sinks);
  }).IgnoreError();
}

absl::StatusOr<bool> LocalConnection::SendFrames(std::deque<UnsentFrame>& frames,
                                                 std::vector<Payload>& sent) {
  while (!frames.empty()) {
    UnsentFrame& next = frames.front();
    const std::vector<iovec> pieces = PiecesOf(next.head, next.following, next.sent);
    ASSIGN_OR_RETURN(const size_t count, SendPieces(socket_, pieces, next.passed_fd));
    if (count == 0) break;
    // The descriptor was passed with the first byte of the frame, so the next system call must not
    // pass it again.
    next.passed_fd = -1;
    next.sent += count;
    written_ += static_cast<int64_t>(count);
    Count(count);
    if (next.sent < next.head.size() + PayloadBytes(next.following)) continue;
    sent.push_back(std::move(next.following));
    frames.pop_front();
  }
  return false;
}

void LocalConnection::CountLeft() {
  int queued = 0;  // bytes that the system has taken and the other host has not confirmed
  if (ioctl(socket_.get(), SIOCOUTQ, &queued) != 0) return;
  // A unix socket counts the memory of its queue, which is more than the bytes in it.
  const int64_t left = written_ - queued;
  const int64_t before = left_;
  if (left <= before) return;
  left_ = left;
  Count(static_cast<size_t>(left - before));
}

// Lets the loop watch for room in the socket only while frames wait for it.
void LocalConnection::WaitForRoom(bool waits) {
  const uint32_t room = waits ? uint32_t{EPOLLOUT} : 0u;
  loop_->Change(*this, EPOLLIN | room);
}

void LocalConnection::StopBearer(const absl::Status&) {
  // shutdown ends the connection for the other end at once, even if a thread at this end still
  // reads from the socket.
  shutdown(socket_.get(), SHUT_RDWR);
  loop_->Remove(*this);
}

}  // namespace cohort
