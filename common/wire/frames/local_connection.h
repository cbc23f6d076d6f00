#pragma once

// One end of a socket on which frames travel both ways (proto/local.proto). The socket is a unix
// socket between two processes of one host, or TCP, which has no shared blocks. On a unix socket a
// payload is copied once, into a block that both processes map. The other end reads the payload
// there and then gives the block back with a later frame. Blocks belong to their connection: nobody
// writes to a block after the connection has ended, so a late reader still reads what was sent.
// Internal to common/wire.

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

// A connection that reads on its loop's thread and sends on any thread. Thread-safe.
class LocalConnection final : public IoLoop::Source,
                              public BlockReturn,
                              public std::enable_shared_from_this<LocalConnection> {
 public:
  // The receiver of a connection's frames, called on the loop's thread. Thread-safe.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Returns memory into which to receive a payload that is still on the socket. Null: any memory
    // will do.
    virtual std::shared_ptr<ReceivePlace> PlaceFor(const proto::LocalFrame&, size_t) {
      return nullptr;
    }
    // Receives a frame, of which only kind and header are used, with its payload. A shared block
    // stays reserved as long as any slice of a payload in the block lives.
    virtual void OnFrame(proto::LocalFrame frame, Payload payload) = 0;
    // Reports why the connection ended: the other end is gone (UNAVAILABLE), or one end could not
    // read what the other end sent (MalformedMessage, RESOURCE_EXHAUSTED). Does not run after
    // Close.
    virtual void OnEnd(const absl::Status& why) = 0;
  };

  struct Options {
    // Limit of a message; a larger frame or block ends the connection.
    size_t message_bytes_max = 0;
    bool blocks = true;                 // false: payloads of both ends travel on the socket
    FrameSums sums = FrameSums::kNone;  // whether frames have checksums; must equal the other end's
    std::string peer = "";              // name of the peer in error texts
    std::shared_ptr<ReceivePool> pool = nullptr;  // pool for received payloads (LocalReader)
    size_t whole_bytes_max = kPartBytes;  // largest payload that is sent whole (LocalWriter)
  };

  // Starts to read from the socket. Holds `owner` until the connection ends.
  static std::shared_ptr<LocalConnection> Start(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                                std::shared_ptr<Owner> owner,
                                                const Options& options);

  // Sends a message: the kind and header of `frame`, and `payload`. Returns false if the connection
  // has ended.
  bool Send(proto::LocalFrame frame, Payload payload);

  // Forget and uses_blocks forward to LocalWriter.
  void Forget(uint64_t call) { writer_.Forget(call); }
  bool uses_blocks() { return writer_.uses_blocks(); }

  // Forwards to LocalWriter::WaitUntilSent.
  void WaitUntilSent(std::chrono::steady_clock::time_point end) { writer_.WaitUntilSent(end); }

  // Closes the connection. Bytes that the socket has taken still arrive; frames that wait for room
  // in the socket are dropped.
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

  // The loop, shared by its users, such as connections and the transport. Its last owner stops the
  // loop's thread.
  const std::shared_ptr<IoLoop> loop_;
  const UniqueFd socket_;
  const std::string peer_;
  const FrameSums sums_;
  LocalReader reader_;  // the reader of the socket, used by the loop's thread alone
  LocalWriter writer_;

  mutable Mutex mutex_;
  // The receiver of the connection's frames; null once the connection has ended.
  std::shared_ptr<Owner> owner_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
