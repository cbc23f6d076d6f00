#pragma once

// One end of a unix socket between two processes of one host, on which frames travel both ways
// (proto/local.proto). A payload is copied once, into a block that both processes map; the other
// end reads it there and then gives the block back with a later frame. Blocks belong to their
// connection: after its end nobody writes to them, so what still reads one reads what was sent.
// Internal to common/wire.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/block_pool.h"
#include "common/wire/io_loop.h"
#include "common/wire/message.h"
#include "proto/local.pb.h"

namespace cohort {

// Thread-safe.
class LocalConnection final : public IoLoop::Source,
                              public std::enable_shared_from_this<LocalConnection> {
 public:
  // Who gets what arrives, on the loop's thread. Thread-safe.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Kind and header of the frame; the payload's memory is the block's while a slice lives.
    virtual void OnFrame(proto::LocalFrame frame, Payload payload) = 0;
    // The other end is gone, or sent what is no frame. Not after Close.
    virtual void OnEnd() = 0;
  };

  // Holds `owner` until the end. A larger frame or block ends the connection.
  static std::shared_ptr<LocalConnection> Start(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                                std::shared_ptr<Owner> owner,
                                                size_t message_bytes_max);

  // Takes kind and header from `frame` and copies the payload. False when the connection has ended.
  bool Send(proto::LocalFrame frame, const Payload& payload);

  // What was sent arrives, unless the other end has no room for it now.
  void Close();

  bool open() const;

  int fd() const override { return socket_.get(); }
  void OnEvents(uint32_t events) override;

 private:
  class BlockLease;
  struct Unsent {
    std::string bytes;
    size_t begin = 0;
    int passed_fd = -1;
  };

  LocalConnection(std::shared_ptr<IoLoop> loop, UniqueFd socket, std::shared_ptr<Owner> owner,
                  size_t message_bytes_max);

  void PutIntoBlock(const Payload& payload, size_t bytes, proto::LocalFrame& frame, int& new_fd);
  bool WriteLocked(proto::LocalFrame& frame, int passed_fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FlushLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReadAll();
  bool TakeFrames();
  bool TakeFrame(proto::LocalFrame frame);
  void Release(uint64_t block, size_t bytes);
  void End();

  // Shared: the last of loop, connections and transport takes the thread down.
  const std::shared_ptr<IoLoop> loop_;
  const UniqueFd socket_;
  const size_t frame_bytes_max_;
  BlockPool blocks_;

  // Of the loop's thread.
  std::vector<char> buffer_;
  std::string received_;
  std::deque<UniqueFd> passed_;
  // Shared with the payloads that are read from them.
  std::map<uint64_t, std::shared_ptr<const Mapping>> mapped_;

  mutable Mutex mutex_;
  std::shared_ptr<Owner> owner_ ABSL_GUARDED_BY(mutex_);  // null after the end
  std::deque<Unsent> unsent_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> released_ ABSL_GUARDED_BY(mutex_);
  size_t released_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
