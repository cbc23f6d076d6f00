#include "common/wire/local_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/local_socket.h"

namespace cohort {

namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kReadBytes = size_t{64} << 10;
// Kind, ids and texts of a frame beside its message.
constexpr size_t kFrameOverheadBytesMax = size_t{1} << 20;

// Below this, two copies through the socket are cheaper than a block on its way there and back.
constexpr size_t kInlineBytesMax = size_t{8} << 10;

// Blocks that are read go back with the next frame. So many bytes of them do not wait for one.
constexpr size_t kReleasedBytesMax = size_t{8} << 20;

std::string WithLength(const proto::LocalFrame& frame) {
  const size_t size = frame.ByteSizeLong();
  std::string bytes(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(size >> (8 * i));
  frame.AppendToString(&bytes);
  return bytes;
}

size_t LengthAt(const char* bytes) {
  size_t size = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    size |= static_cast<size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return size;
}

void CopyAll(const Payload& payload, std::byte* out) {
  for (const ByteSlice& slice : payload) {
    if (slice.size > 0) std::memcpy(out, slice.data, slice.size);
    out += slice.size;
  }
}

}  // namespace

// Keeps a block of the other end from being written again. Thread-safe.
class LocalConnection::BlockLease {
 public:
  BlockLease(std::weak_ptr<LocalConnection> connection, uint64_t block,
             std::shared_ptr<const Mapping> memory)
      : connection_(std::move(connection)), block_(block), memory_(std::move(memory)) {}
  ~BlockLease() {
    if (const auto connection = connection_.lock()) connection->Release(block_, memory_->size());
  }
  BlockLease(const BlockLease&) = delete;
  BlockLease& operator=(const BlockLease&) = delete;

 private:
  const std::weak_ptr<LocalConnection> connection_;
  const uint64_t block_;
  const std::shared_ptr<const Mapping> memory_;
};

std::shared_ptr<LocalConnection> LocalConnection::Start(std::shared_ptr<IoLoop> loop,
                                                        UniqueFd socket,
                                                        std::shared_ptr<Owner> owner,
                                                        size_t message_bytes_max) {
  std::shared_ptr<LocalConnection> connection(
      new LocalConnection(std::move(loop), std::move(socket), std::move(owner), message_bytes_max));
  connection->loop_->Add(connection, EPOLLIN);
  return connection;
}

LocalConnection::LocalConnection(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                 std::shared_ptr<Owner> owner, size_t message_bytes_max)
    : loop_(std::move(loop)),
      socket_(std::move(socket)),
      frame_bytes_max_(message_bytes_max + kFrameOverheadBytesMax),
      buffer_(kReadBytes),
      owner_(std::move(owner)) {}

bool LocalConnection::Send(proto::LocalFrame frame, const Payload& payload) {
  const size_t bytes = PayloadBytes(payload);
  int new_fd = -1;
  if (bytes > kInlineBytesMax) PutIntoBlock(payload, bytes, frame, new_fd);
  if (frame.block() == 0 && bytes > 0) {
    frame.mutable_payload()->resize(bytes);
    CopyAll(payload, reinterpret_cast<std::byte*>(frame.mutable_payload()->data()));
  }
  MutexLock lock(mutex_);
  return owner_ != nullptr && WriteLocked(frame, new_fd);
}

void LocalConnection::PutIntoBlock(const Payload& payload, size_t bytes, proto::LocalFrame& frame,
                                   int& new_fd) {
  const absl::StatusOr<BlockPool::Lent> lent = blocks_.Take(bytes);
  if (!lent.ok()) {
    // The socket takes the bytes too, only slower.
    Log(LogLevel::kWarning, "no_shared_block", {{"error", lent.status().message()}});
    return;
  }
  CopyAll(payload, lent->data);
  new_fd = lent->fd;
  frame.set_block(lent->id);
  frame.set_block_bytes(bytes);
  frame.set_new_block(new_fd >= 0);
}

bool LocalConnection::WriteLocked(proto::LocalFrame& frame, int passed_fd) {
  frame.mutable_released()->Add(released_.begin(), released_.end());
  released_.clear();
  released_bytes_ = 0;
  for (const uint64_t block : blocks_.TakeDropped()) frame.add_dropped(block);
  unsent_.push_back({WithLength(frame), 0, passed_fd});
  if (unsent_.size() > 1) return true;  // its turn comes when the socket has room
  if (!FlushLocked()) return false;
  if (!unsent_.empty()) loop_->Change(*this, EPOLLIN | EPOLLOUT);
  return true;
}

// False when the other end is gone; the loop finds that out by itself.
bool LocalConnection::FlushLocked() {
  while (!unsent_.empty()) {
    Unsent& next = unsent_.front();
    const absl::StatusOr<size_t> sent =
        SendSome(socket_, absl::MakeConstSpan(next.bytes).subspan(next.begin), next.passed_fd);
    if (!sent.ok()) return false;
    if (*sent == 0) return true;
    next.passed_fd = -1;
    next.begin += *sent;
    if (next.begin == next.bytes.size()) unsent_.pop_front();
  }
  return true;
}

void LocalConnection::OnEvents(uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    MutexLock lock(mutex_);
    FlushLocked();
    if (unsent_.empty()) loop_->Change(*this, EPOLLIN);
  }
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0 && !ReadAll()) End();
}

// False when the connection has to end. One look only: what is left makes the next event.
bool LocalConnection::ReadAll() {
  std::vector<UniqueFd> passed;
  const absl::StatusOr<size_t> count = ReceiveSome(socket_, absl::MakeSpan(buffer_), passed);
  if (!count.ok()) return false;
  received_.append(buffer_.data(), *count);
  for (UniqueFd& fd : passed) passed_.push_back(std::move(fd));
  return TakeFrames();
}

bool LocalConnection::TakeFrames() {
  size_t begin = 0;
  while (received_.size() - begin >= kLengthBytes) {
    const size_t size = LengthAt(received_.data() + begin);
    if (size > frame_bytes_max_) return false;
    if (received_.size() - begin - kLengthBytes < size) break;
    proto::LocalFrame frame;
    const char* const bytes = received_.data() + begin + kLengthBytes;
    if (!frame.ParseFromArray(bytes, static_cast<int>(size))) return false;
    begin += kLengthBytes + size;
    if (!TakeFrame(std::move(frame))) return false;
  }
  received_.erase(0, begin);
  return true;
}

bool LocalConnection::TakeFrame(proto::LocalFrame frame) {
  for (const uint64_t block : frame.released()) {
    if (!blocks_.GiveBack(block)) return false;
  }
  if (frame.new_block()) {
    if (passed_.empty()) return false;
    auto memory = MapSharedBlock(passed_.front(), frame_bytes_max_);
    passed_.pop_front();
    if (!memory.ok()) {
      Log(LogLevel::kWarning, "local_connection_ends", {{"error", memory.status().message()}});
      return false;
    }
    mapped_[frame.block()] = std::make_shared<const Mapping>(*std::move(memory));
  }
  Payload payload;
  if (frame.block() != 0) {
    const auto found = mapped_.find(frame.block());
    if (found == mapped_.end() || frame.block_bytes() > found->second->size()) return false;
    payload.push_back({std::make_shared<const BlockLease>(weak_from_this(), found->first,
                                                          found->second),
                       found->second->data(), frame.block_bytes()});
  } else if (!frame.payload().empty()) {
    auto bytes = std::make_shared<const std::string>(std::move(*frame.mutable_payload()));
    const auto* const data = reinterpret_cast<const std::byte*>(bytes->data());
    const size_t size = bytes->size();
    payload.push_back({std::move(bytes), data, size});
  }
  for (const uint64_t block : frame.dropped()) mapped_.erase(block);
  if (frame.kind_case() == proto::LocalFrame::KIND_NOT_SET) return true;
  std::shared_ptr<Owner> owner;
  {
    MutexLock lock(mutex_);
    owner = owner_;
  }
  if (owner == nullptr) return false;
  owner->OnFrame(std::move(frame), std::move(payload));
  return true;
}

void LocalConnection::Release(uint64_t block, size_t bytes) {
  MutexLock lock(mutex_);
  if (owner_ == nullptr) return;
  released_.push_back(block);
  released_bytes_ += bytes;
  if (released_bytes_ <= kReleasedBytesMax) return;
  proto::LocalFrame frame;
  WriteLocked(frame, -1);
}

void LocalConnection::End() {
  std::shared_ptr<Owner> owner;
  {
    MutexLock lock(mutex_);
    owner = std::exchange(owner_, nullptr);
  }
  loop_->Remove(*this);
  if (owner != nullptr) owner->OnEnd();
}

void LocalConnection::Close() {
  std::shared_ptr<Owner> owner;  // dies after the lock
  {
    MutexLock lock(mutex_);
    owner = std::exchange(owner_, nullptr);
    shutdown(socket_.get(), SHUT_RDWR);
  }
  loop_->Remove(*this);
}

bool LocalConnection::open() const {
  MutexLock lock(mutex_);
  return owner_ != nullptr;
}

}  // namespace cohort
