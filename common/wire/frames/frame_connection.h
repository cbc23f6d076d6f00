#pragma once

// One end of a connection on which frames travel both ways (proto/local.proto). The connection is a
// unix socket between two processes of one host, TCP, or a stream of gRPC; only a unix socket has
// shared blocks. A derived class for each (local_connection.h, common/wire/grpc/grpc_frames.h) is
// the bearer of the frames, and passes the bytes that it receives to the reader. Shared blocks
// belong to their connection: nobody writes to a block after the connection has ended, so a late
// reader still reads what was sent. Internal to common/wire.

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "common/base/mutex.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/frame_bearer.h"
#include "common/wire/frames/local_reader.h"
#include "common/wire/frames/local_writer.h"
#include "common/wire/message.h"
#include "common/wire/moved_bytes.h"
#include "proto/local.pb.h"

namespace cohort {

// A connection that reads on its bearer's thread and sends on any thread. Thread-safe.
class FrameConnection : public BlockReturn, public std::enable_shared_from_this<FrameConnection> {
 public:
  // The receiver of a connection's frames, called on the bearer's thread. Thread-safe.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Returns memory for the payload of a frame, before the payload is read. Null: any memory will
    // do.
    virtual std::shared_ptr<ReceivePlace> PlaceFor(const proto::LocalFrame&, size_t) {
      return nullptr;
    }
    // Receives a frame and its payload. Only the kind and the header of the frame are used. If the
    // payload lies in a shared block, the block stays reserved until all slices of the payload are
    // gone.
    virtual void OnFrame(proto::LocalFrame frame, Payload payload) = 0;
    // Reports why the connection has ended: the other end is gone (UNAVAILABLE), or one end could
    // not read what the other end sent (MalformedMessage, RESOURCE_EXHAUSTED). Does not run after
    // Close.
    virtual void OnEnd(const absl::Status& why) = 0;
  };

  struct Options {
    // The largest message. A larger frame or block ends the connection.
    size_t message_bytes_max = 0;
    bool blocks = true;                 // false: no payload lies in a shared block
    FrameSums sums = FrameSums::kNone;  // whether frames have checksums; both ends must agree
    std::string peer = "";              // name of the peer in error texts
    std::shared_ptr<ReceivePool> pool = nullptr;  // pool for received payloads (LocalReader)
    size_t whole_bytes_max = kPartBytes;  // largest payload that is sent whole (LocalWriter)
    // The count of the connection's bytes, shared with the owner. Null: nobody asks for it.
    std::shared_ptr<MovedBytes> moved = nullptr;
  };

  // Sends a message: the kind and header of `frame`, and `payload`. Returns false if the connection
  // has ended.
  bool Send(proto::LocalFrame frame, Payload payload) {
    return writer_.Send(std::move(frame), std::move(payload));
  }

  // Forgets a call whose caller no longer waits (LocalWriter::Forget). If the bearer cannot stop
  // reading the memory of the call's request, the bearer is stopped, and the connection soon ends.
  void Forget(uint64_t call);

  // Both methods call the method of LocalWriter that has the same name.
  bool uses_blocks() { return writer_.uses_blocks(); }
  void WaitUntilSent(std::chrono::steady_clock::time_point end) { writer_.WaitUntilSent(end); }

  // Closes the connection. Bytes that the bearer has taken still arrive; frames that wait in the
  // writer are dropped. OnEnd does not run afterwards.
  void Close();

  bool open() const;

  // Counts, once more, the bytes that the other host has confirmed since the last CountLeft. The
  // bearer counts bytes when the system takes them, and on a slow link the system may hold the last
  // of them for long.
  virtual void CountLeft() {}

  void BlockRead(uint64_t block, size_t bytes) override { writer_.BlockRead(block, bytes); }

 protected:
  // Makes a connection whose frames `bearer` carries; `bearer` is the object of the derived class.
  // Holds `owner` until the connection ends.
  FrameConnection(FrameBearer& bearer, std::shared_ptr<Owner> owner, const Options& options);

  LocalWriter& writer() { return writer_; }
  // Counts bytes that have moved in either direction.
  void Count(size_t bytes) {
    if (moved_ != nullptr) moved_->Add(bytes);
  }
  // Lets `read` call the reader with the connection's sinks, on the bearer's thread. Ends the
  // connection after an error, which is returned.
  absl::Status Read(
      absl::FunctionRef<absl::Status(LocalReader& reader, const LocalReader::Sinks& sinks)> read);
  void End(const absl::Status& why);

  // Stops the bearer. A bearer that is stopped soon calls End, unless End has run. Runs once or
  // more.
  virtual void StopBearer(const absl::Status& why) = 0;

 private:
  void SayWhy(const absl::Status& why);
  std::shared_ptr<Owner> OwnerUntilTheEnd() const;
  bool Give(proto::LocalFrame frame, Payload payload);

  const std::string peer_;
  const FrameSums sums_;
  const std::shared_ptr<MovedBytes> moved_;  // shared with the owner; may be null
  LocalReader reader_;  // the reader of the bearer's bytes, used by one thread at a time
  LocalWriter writer_;

  mutable Mutex mutex_;
  // The receiver of the connection's frames; null once the connection has ended or was closed.
  std::shared_ptr<Owner> owner_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
