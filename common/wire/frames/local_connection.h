#pragma once

// One end of a socket on which frames travel both ways (proto/local.proto): a unix socket between
// two processes of one host, or TCP, on which nothing lies in blocks. On a unix socket a payload is
// copied once, into a block that both processes map; the other end reads it there and then gives
// the block back with a later frame. Blocks belong to their connection: after its end nobody writes
// to them, so a late reader still reads what was sent. Internal to common/wire.

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
  // The receiver of what arrives, on the loop's thread. Thread-safe.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Returns memory for a payload that is still on the socket. Null: any memory.
    virtual std::shared_ptr<ReceivePlace> PlaceFor(const proto::LocalFrame&, size_t) {
      return nullptr;
    }
    // Takes the frame's kind and header; the payload's memory is the block's while a slice lives.
    virtual void OnFrame(proto::LocalFrame frame, Payload payload) = 0;
    // Tells why the connection ended: the other end is gone (UNAVAILABLE), or one of the two sent
    // what the other could not read (MalformedMessage, RESOURCE_EXHAUSTED). Does not run after
    // Close.
    virtual void OnEnd(const absl::Status& why) = 0;
  };

  struct Options {
    size_t message_bytes_max = 0;                 // a larger frame or block ends the connection
    bool blocks = true;                           // else payloads travel on the socket, both ways
    FrameSums sums = FrameSums::kNone;            // must equal the other end's
    std::string peer = "";                        // names the peer in texts
    std::shared_ptr<ReceivePool> pool = nullptr;  // see LocalReader
    size_t whole_bytes_max = kPartBytes;          // see LocalWriter
  };

  // Holds `owner` until the end.
  static std::shared_ptr<LocalConnection> Start(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                                std::shared_ptr<Owner> owner,
                                                const Options& options);

  // Takes kind and header from `frame`. False when the connection has ended.
  bool Send(proto::LocalFrame frame, Payload payload);

  // Forwards to LocalWriter.
  void Forget(uint64_t call) { writer_.Forget(call); }
  bool uses_blocks() { return writer_.uses_blocks(); }

  // Forwards to LocalWriter::WaitUntilSent.
  void WaitUntilSent(std::chrono::steady_clock::time_point end) { writer_.WaitUntilSent(end); }

  // Closes the connection. What was sent still arrives, unless the other end has no room for it
  // now.
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
  LocalReader reader_;  // used by the loop's thread alone
  LocalWriter writer_;

  mutable Mutex mutex_;
  std::shared_ptr<Owner> owner_ ABSL_GUARDED_BY(mutex_);  // null after the end
};

}  // namespace cohort
