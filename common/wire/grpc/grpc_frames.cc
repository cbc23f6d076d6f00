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

// Frames that wait are sent in one message up to this size; a larger frame is a message of its own.
constexpr size_t kMessageBytes = kPartBytes;
// The limit of a message: the largest frame, and what the frame has beside header and payload.
constexpr size_t kFrameMessageBytesMax = kMessageBytesMax + (size_t{1} << 20);
// The most calls whose payloads gRPC may read at a time. Above it a message is flushed to the
// socket before the next one.
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

// The part that both ends of a stream share. gRPC takes one message at a time, so there is room
// when the message before was written. While a received message is handled there is none either, so
// that the frames that its handlers send go together. Thread-safe.
class GrpcFrameConnection : public FrameConnection, private FrameBearer {
 protected:
  GrpcFrameConnection(std::shared_ptr<Owner> owner, const Options& options)
      : FrameConnection(static_cast<FrameBearer&>(*this), std::move(owner), options) {}

  // Takes the bytes of a message. Returns false after the end of the connection.
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

  // Goes on when a message was written, or when the stream has begun.
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

  // Stops sending; then, when no message is being written, runs LastStep.
  void StopSending() {
    {
      MutexLock lock(mutex_);
      if (std::exchange(ended_, true) || writing_) return;
    }
    LastStep();
  }

  // Writes a message to the stream.
  virtual void WriteMessage(const grpc::ByteBuffer& message, grpc::WriteOptions options) = 0;
  // Runs once, when nothing is being written and nothing will be.
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
    // With the hint gRPC takes the next message before this message has been sent. A message that
    // fills gRPC's buffer goes at once all the same.
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

  void WaitForRoom(bool) override {}  // MessageWritten and TakeMessage go on in any case

  bool Holds(uint64_t call) override {
    MutexLock lock(mutex_);
    return std::find(held_.begin(), held_.end(), call) != held_.end();
  }

  Mutex mutex_;
  // The message that SendFrames has taken and StartSending will write.
  Payload message_ ABSL_GUARDED_BY(mutex_);
  size_t message_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of the message that is being written
  // The calls whose payloads gRPC may still read.
  std::vector<uint64_t> held_ ABSL_GUARDED_BY(mutex_);
  // Whether a message is being written, or the stream has not begun.
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;
  bool hinted_ ABSL_GUARDED_BY(mutex_) = false;
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // whether no other message may be written
};

// The calling end. Thread-safe.
class ClientFrames final : public GrpcFrameConnection, private GrpcClientStream {
 public:
  ClientFrames(std::shared_ptr<Owner> owner, const Options& options,
               std::function<void(ServerNames)> told)
      : GrpcFrameConnection(std::move(owner), options), told_(std::move(told)) {}

  void Begin(grpc::GenericStub& stub) {
    self_ = shared_from_this();
    const auto context = std::make_shared<grpc::ClientContext>();
    context->AddMetadata(kLocalNameKey, "?");
    {
      MutexLock lock(mutex_);
      context_ = context;
    }
    // The hold keeps OnDone from running while another thread may write. LastStep removes it.
    AddHold();
    StartCall(stub, *context, kFramesMethod);
    MessageWritten(true);
  }

 private:
  bool OnMessage(const grpc::ByteBuffer& message) override {
    if (told_ != nullptr) std::exchange(told_, nullptr)(Names());
    return TakeMessage(message);
  }
  // The connection ends in OnDone, which has the server's reason.
  void OnReadEnd() override { StopSending(); }
  void OnWriteDone(bool ok) override { MessageWritten(ok); }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<FrameConnection> self = std::exchange(self_, nullptr);
    // The context dies first, and with it what gRPC holds of unsent payloads.
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
    // The end of reading, which follows, ends sending too.
    if (context != nullptr) context->TryCancel();
  }

  // Returns the names that the server told with its first message.
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

  // Returns the error of a connection that ended with gRPC's status. Malformed bytes and a server
  // without the method are told as such; anything else means that the connection is gone.
  static absl::Status EndOf(const absl::Status& status) {
    if (IsMalformed(status) || absl::IsUnimplemented(status)) return status;
    return absl::UnavailableError(status.ok() ? "the server ended the stream" : status.message());
  }

  std::shared_ptr<FrameConnection> self_;  // this connection, kept until gRPC is done with it
  std::function<void(ServerNames)> told_;  // for the callbacks about reading
  Mutex mutex_;
  // The context of the stream, shared with StopBearer; null when gRPC is done.
  std::shared_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
};

// The serving end. Thread-safe.
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

  std::shared_ptr<FrameConnection> self_;  // this connection, kept until gRPC is done with it
  Mutex mutex_;
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);  // why the connection ended
};

}  // namespace

std::shared_ptr<FrameConnection> OpenFrames(grpc::GenericStub& stub,
                                            std::shared_ptr<FrameConnection::Owner> owner,
                                            const FrameConnection::Options& options,
                                            std::function<void(ServerNames)> told) {
  auto connection = std::make_shared<ClientFrames>(std::move(owner), options, std::move(told));
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
