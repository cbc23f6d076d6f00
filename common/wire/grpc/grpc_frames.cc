#include "common/wire/grpc/grpc_frames.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/frame_session_server.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/grpc/grpc_client_stream.h"

namespace cohort {

namespace {

// The size up to which waiting frames are sent together in one message of the stream. A larger
// frame is a message of its own.
constexpr size_t kMessageBytes = kPartBytes;
// The largest message of the stream: the largest message of a call in its frame, and the bytes that
// the frame adds to it.
constexpr size_t kFrameMessageBytesMax = kMessageBytesMax + (size_t{1} << 20);
// The most calls whose payloads gRPC may read at a time. Above this number, a message of the stream
// is flushed to the socket before the next one.
constexpr size_t kHeldCallsMax = 64;

size_t BytesOf(const UnsentFrame& frame) {
  return frame.head.size() + PayloadBytes(frame.following);
}

// Moves the bytes of a frame to the end of a message.
void Append(UnsentFrame frame, Payload& message) {
  const auto head = std::make_shared<const std::string>(std::move(frame.head));
  message.push_back({head, reinterpret_cast<const std::byte*>(head->data()), head->size()});
  for (ByteSlice& slice : frame.following) message.push_back(std::move(slice));
}

// The code that both ends of a stream share. The stream takes one message at a time, so the bearer
// has room once the message before was written. The bearer has no room while a received message is
// handled, so that the frames that its handlers send go together in one message. Thread-safe.
class GrpcFrameConnection : public FrameConnection, private FrameBearer {
 protected:
  GrpcFrameConnection(std::shared_ptr<Owner> owner, const Options& options)
      : FrameConnection(static_cast<FrameBearer&>(*this), std::move(owner), options) {}

  // Reads the frames in a received message. Returns false if the connection has ended.
  bool TakeMessage(const grpc::ByteBuffer& buffer) {
    {
      MutexLock lock(mutex_);
      handling_ = true;
    }
    const absl::Status read = Read([&](LocalReader& reader, const LocalReader::Sinks& sinks) {
      const absl::Status taken = TakeBytes(buffer, reader, sinks);
      MutexLock lock(mutex_);
      handling_ = false;
      return taken;
    });
    if (!read.ok() || !open()) return false;
    writer().Writable();
    return true;
  }

  // Goes on sending after a message was written, or after the stream has begun. `ok` is false if
  // the write failed.
  void MessageWritten(bool ok) {
    bool last = false;
    size_t written = 0;
    {
      MutexLock lock(mutex_);
      if (!hinted_) held_.clear();
      written = std::exchange(message_bytes_, 0);
      writing_ = false;
      ended_ |= !ok;
      last = ended_;
    }
    if (last) return LastStep();
    Count(written);
    writer().Writable();
  }

  // Stops sending. Calls LastStep as soon as no message is being written.
  void StopSending() {
    {
      MutexLock lock(mutex_);
      if (std::exchange(ended_, true) || writing_) return;
    }
    LastStep();
  }

  // Writes a message to the stream.
  virtual void WriteMessage(const grpc::ByteBuffer& message, grpc::WriteOptions options) = 0;
  // Runs once, when no message is being written and no further message will be.
  virtual void LastStep() = 0;

 private:
  static absl::Status TakeBytes(const grpc::ByteBuffer& buffer, LocalReader& reader,
                                const LocalReader::Sinks& sinks) {
    ASSIGN_OR_RETURN(const Message message,
                     DecodeFrame(FromByteBuffer(buffer), kFrameMessageBytesMax));
    return reader.Take(message.payload, sinks);
  }

  absl::StatusOr<bool> SendFrames(std::deque<UnsentFrame>& frames, std::vector<Payload>&) override {
    MutexLock lock(mutex_);
    if (ended_) return absl::UnavailableError("the stream has ended");
    if (frames.empty() || writing_ || handling_) return false;
    size_t bytes = 0;
    do {
      UnsentFrame& next = frames.front();
      bytes += BytesOf(next);
      if (next.call != 0 && !next.following.empty()) held_.push_back(next.call);
      Append(std::move(next), message_);
      frames.pop_front();
    } while (!frames.empty() && bytes + BytesOf(frames.front()) <= kMessageBytes);
    message_bytes_ = bytes;
    writing_ = true;
    // With the hint, gRPC takes the next message before it has sent this message. A message that
    // fills gRPC's buffer is sent at once despite the hint.
    const bool fills = bytes > kPartBytes && held_.empty();
    hinted_ = (fills || !frames.empty()) && held_.size() < kHeldCallsMax;
    return true;
  }

  void StartSending() override {
    Message message;
    grpc::WriteOptions options;
    {
      MutexLock lock(mutex_);
      message.payload.swap(message_);
      if (hinted_) options.set_buffer_hint();
    }
    const absl::StatusOr<Payload> encoded = EncodeFrame(std::move(message), kFrameMessageBytesMax);
    COHORT_CHECK(encoded.ok(), "the size of each message was checked");
    WriteMessage(ToByteBuffer(*encoded), options);
  }

  void WaitForRoom(bool) override {}  // MessageWritten and TakeMessage always call Writable

  bool Holds(uint64_t call) override {
    MutexLock lock(mutex_);
    return std::find(held_.begin(), held_.end(), call) != held_.end();
  }

  Mutex mutex_;
  // The message that SendFrames has made and that StartSending will write.
  Payload message_ ABSL_GUARDED_BY(mutex_);
  size_t message_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of the message that is being written
  // The calls whose payloads gRPC may still read.
  std::vector<uint64_t> held_ ABSL_GUARDED_BY(mutex_);
  // True while a message is being written, and before the stream has begun.
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;
  bool hinted_ ABSL_GUARDED_BY(mutex_) = false;
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // true if no further message may be written
};

// The calling end of a stream of frames. Thread-safe.
class ClientFrames final : public GrpcFrameConnection, private GrpcClientStream {
 public:
  ClientFrames(std::shared_ptr<Owner> owner, const Options& options,
               std::function<void(ServerNames)> on_names)
      : GrpcFrameConnection(std::move(owner), options), on_names_(std::move(on_names)) {}

  void Begin(grpc::GenericStub& stub) {
    self_ = shared_from_this();
    const auto context = std::make_shared<grpc::ClientContext>();
    context->AddMetadata(kLocalNameKey, "?");
    {
      MutexLock lock(mutex_);
      context_ = context;
    }
    // The hold keeps OnDone from running while another thread may still write. LastStep removes the
    // hold.
    AddHold();
    StartCall(stub, *context, kFramesMethod);
    MessageWritten(true);
  }

 private:
  bool OnMessage(const grpc::ByteBuffer& message) override {
    if (on_names_ != nullptr) std::exchange(on_names_, nullptr)(Names());
    return TakeMessage(message);
  }
  // OnReadEnd does not end the connection: OnDone does, because it gets the server's reason.
  void OnReadEnd() override { StopSending(); }
  void OnWriteDone(bool ok) override { MessageWritten(ok); }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<FrameConnection> self = std::exchange(self_, nullptr);
    // The context is destroyed first, so that gRPC releases the unsent payloads that it holds.
    std::shared_ptr<grpc::ClientContext> context;
    {
      MutexLock lock(mutex_);
      context.swap(context_);
    }
    context.reset();
    End(EndOf(FromGrpcStatus(status)));
  }

  void WriteMessage(const grpc::ByteBuffer& message, grpc::WriteOptions options) override {
    StartWrite(message, options);
  }
  void LastStep() override { RemoveHold(); }

  void StopBearer(const absl::Status&) override {
    std::shared_ptr<grpc::ClientContext> context;
    {
      MutexLock lock(mutex_);
      context = context_;
    }
    // Cancelling the call ends reading, and OnReadEnd then ends sending too.
    if (context != nullptr) context->TryCancel();
  }

  // Returns the server's names, which came with the server's first message.
  ServerNames Names() {
    std::shared_ptr<grpc::ClientContext> context;
    {
      MutexLock lock(mutex_);
      context = context_;
    }
    if (context == nullptr) return {};
    const auto& metadata = context->GetServerInitialMetadata();
    const auto value = [&](const char* key) {
      const auto found = metadata.find(key);
      return found == metadata.end() ? std::string()
                                     : std::string(found->second.data(), found->second.size());
    };
    return {value(kLocalNameKey), value(kStreamNameKey), context->peer()};
  }

  // Returns the error of a connection whose call ended with `status`. An error for malformed bytes,
  // or for a server that does not have the method, is returned unchanged. Any other status means
  // that the connection is gone (UNAVAILABLE).
  static absl::Status EndOf(const absl::Status& status) {
    if (IsMalformed(status) || absl::IsUnimplemented(status)) return status;
    return absl::UnavailableError(status.ok() ? "the server ended the stream" : status.message());
  }

  // A reference to this connection itself, which keeps the connection alive until OnDone runs.
  std::shared_ptr<FrameConnection> self_;
  // The receiver of the server's names; null once it was called. Used only by OnMessage.
  std::function<void(ServerNames)> on_names_;
  Mutex mutex_;
  // The context of the call, shared with StopBearer; null once OnDone has run.
  std::shared_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
};

// The serving end of a stream of frames. Thread-safe.
class ServedFrames final : public GrpcFrameConnection, private GrpcServedCall {
 public:
  ServedFrames(std::shared_ptr<Owner> owner, const Options& options,
               std::unique_ptr<GrpcIncoming> call)
      : GrpcFrameConnection(std::move(owner), options), GrpcServedCall(std::move(call)) {}

  void Begin(const GrpcDispatcher& dispatcher) {
    self_ = shared_from_this();
    dispatcher.TellNames(context());
    StartReading();
    MessageWritten(true);
  }

 private:
  bool OnMessage(const grpc::ByteBuffer& message) override { return TakeMessage(message); }
  void OnReadEnd() override { End(absl::UnavailableError("the client ended the stream")); }
  void OnWriteDone(bool ok) override { MessageWritten(ok); }
  void OnDone() override { std::exchange(self_, nullptr).reset(); }

  void WriteMessage(const grpc::ByteBuffer& message, grpc::WriteOptions options) override {
    StartWrite(message, options);
  }
  void LastStep() override {
    grpc::Status end;
    {
      MutexLock lock(mutex_);
      end = end_;
    }
    StartFinish(end);
  }

  void StopBearer(const absl::Status& why) override {
    {
      MutexLock lock(mutex_);
      if (end_.ok()) end_ = ToGrpcStatus(why);
    }
    StopSending();
  }

  // A reference to this connection itself, which keeps the connection alive until OnDone runs.
  std::shared_ptr<FrameConnection> self_;
  Mutex mutex_;
  // The status that ends the call, and tells the client why the connection has ended.
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<FrameConnection> OpenFrames(grpc::GenericStub& stub,
                                            std::shared_ptr<FrameConnection::Owner> owner,
                                            const FrameConnection::Options& options,
                                            std::function<void(ServerNames)> on_names) {
  auto connection = std::make_shared<ClientFrames>(std::move(owner), options, std::move(on_names));
  connection->Begin(stub);
  return connection;
}

void ServeFrames(std::unique_ptr<GrpcIncoming> call,
                 const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
  FrameConnection::Options options;
  options.message_bytes_max = dispatcher->message_bytes_max;
  options.blocks = false;
  options.sums = FrameSums::kCrc32c;
  options.peer = call->context->peer();
  options.pool = dispatcher->pool;
  std::shared_ptr<ServedFrames> served;
  ServeSession(dispatcher->calls, dispatcher->peers, options.message_bytes_max,
               [&](std::shared_ptr<FrameConnection::Owner> session) {
                 served =
                     std::make_shared<ServedFrames>(std::move(session), options, std::move(call));
                 return served;
               });
  served->Begin(*dispatcher);
}

}  // namespace cohort
