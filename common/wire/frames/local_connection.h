#pragma once

// One end of a socket on which frames travel both ways (proto/local.proto): a unix socket between
// two processes of one host, or TCP, on which nothing lies in blocks. On the former a payload is
// copied once, into a block that both processes map; the other end reads it there and then gives
// the block back with a later frame. Blocks belong to their connection: after its end nobody writes
// to them, so what still reads one reads what was sent. Internal to common/wire.

#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_reader.h"
#include "common/wire/frames/local_writer.h"
#include "common/wire/message.h"
#include "proto/local.pb.h"

namespace cohort {

// Thread-safe.
class LocalConnection final : public IoLoop::Source,
                              public BlockReturn,
                              public std::enable_shared_from_this<LocalConnection> {
 public:
  // Who gets what arrives, on the loop's thread. Thread-safe.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Of a payload that is still on the socket: memory to receive it in. Null: any.
    virtual std::shared_ptr<ReceivePlace> PlaceFor(const proto::LocalFrame&, size_t) {
      return nullptr;
    }
    // Kind and header of the frame; the payload's memory is the block's while a slice lives.
    virtual void OnFrame(proto::LocalFrame frame, Payload payload) = 0;
    // The other end is gone (UNAVAILABLE), or one of the two sent what the other could not read
    // (MalformedMessage, RESOURCE_EXHAUSTED). Not after Close.
    virtual void OnEnd(const absl::Status& why) = 0;
  };

  struct Options {
    size_t message_bytes_max = 0;                 // a larger frame or block ends the connection
    bool blocks = true;                           // else payloads travel on the socket, both ways
    FrameSums sums = FrameSums::kNone;            // as at the other end
    std::string peer = "";                        // for texts
    std::shared_ptr<ReceivePool> pool = nullptr;  // as in LocalReader
    size_t whole_bytes_max = kPartBytes;          // as in LocalWriter
  };

  // Holds `owner` until the end.
  static std::shared_ptr<LocalConnection> Start(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                                std::shared_ptr<Owner> owner,
                                                const Options& options);

  // Takes kind and header from `frame`. False when the connection has ended.
  bool Send(proto::LocalFrame frame, Payload payload);

  // As in LocalWriter.
  void Forget(uint64_t call) { writer_.Forget(call); }
  bool uses_blocks() { return writer_.uses_blocks(); }

  // As LocalWriter::WaitUntilSent.
  void WaitUntilSent(std::chrono::steady_clock::time_point end) { writer_.WaitUntilSent(end); }

  // What was sent arrives, unless the other end has no room for it now.
  void Close();

  bool open() const;

  int fd() const override { return socket_.get(); }
  void OnEvents(uint32_t events) override;
  void BlockRead(uint64_t block, size_t bytes) override { writer_.BlockRead(block, bytes); }

 private:
  LocalConnection(std::shared_ptr<IoLoop> loop, UniqueFd socket, std::shared_ptr<Owner> owner,
                  const Options& options);

  void SayWhy(const absl::Status& why);
  absl::Status ReadSome();
  std::shared_ptr<Owner> OwnerUntilTheEnd() const;
  bool Give(proto::LocalFrame frame, Payload payload);
  void End(const absl::Status& why);

  // Shared: the last of loop, connections and transport takes the thread down.
  const std::shared_ptr<IoLoop> loop_;
  const UniqueFd socket_;
  const std::string peer_;
  const FrameSums sums_;
  LocalReader reader_;  // of the loop's thread
  LocalWriter writer_;

  mutable Mutex mutex_;
  std::shared_ptr<Owner> owner_ ABSL_GUARDED_BY(mutex_);  // null after the end
};

}  // namespace cohort
