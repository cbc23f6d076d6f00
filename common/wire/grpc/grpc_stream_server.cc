#include "common/wire/grpc/grpc_stream_server.h"

#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame.h"
#include "common/wire/frame_limits.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/grpc/grpc_served_call.h"
#include "common/wire/message.h"
#include "common/wire/method_table.h"
#include "common/wire/typed_call.h"
#include "proto/wire.pb.h"

namespace cohort {

namespace {

// The limit of the bytes of answers in one message of a stream. Answers that wait are sent together
// up to about this number of bytes, and one answer's header has at most this size.
constexpr size_t kAnswersBytesMax = kPartBytes;

Envelope<proto::StreamedAnswer> AnswerOf(uint64_t id, absl::StatusOr<Message> result) {
  Envelope<proto::StreamedAnswer> answer;
  answer.header.set_id(id);
  if (!result.ok()) {
    answer.header.set_code(static_cast<int32_t>(result.status().code()));
    answer.header.set_error(std::string(result.status().message()));
    answer.header.set_detail(DetailOf(result.status()).SerializeAsString());
    return answer;
  }
  answer.header.set_header(std::move(result->header));
  answer.payload = std::move(result->payload);
  return answer;
}

// Returns an error if an answer is too large for the stream.
absl::Status CheckAnswer(const Message& answer, size_t bytes_max) {
  RETURN_IF_ERROR(CheckSize(answer, bytes_max));
  if (answer.header.size() <= kAnswersBytesMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("an answer on a stream of calls with a header of ", answer.header.size(),
                   " bytes; at most ", kAnswersBytesMax));
}

}  // namespace

// A stream of calls on the server. Calls are read one after another and handled as they arrive;
// answers are written as they are given. gRPC runs one callback about reading and one about writing
// at a time, and OnDone last. Thread-safe.
class GrpcServedStream final : public GrpcServedCall,
                               public std::enable_shared_from_this<GrpcServedStream> {
 public:
  GrpcServedStream(std::unique_ptr<GrpcIncoming> call,
                   std::shared_ptr<const GrpcDispatcher> dispatcher)
      : GrpcServedCall(std::move(call)), dispatcher_(std::move(dispatcher)) {}

  static void Start(std::unique_ptr<GrpcIncoming> call,
                    const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
    auto stream = std::make_shared<GrpcServedStream>(std::move(call), dispatcher);
    stream->self_ = stream;
    if (!dispatcher->streams->Add(stream)) {
      stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is stopping"));
    } else {
      stream->StartReading();
    }
  }

  void Answer(uint64_t id, absl::StatusOr<Message> result) {
    Envelope<proto::StreamedAnswer> answer = AnswerOf(id, std::move(result));
    {
      MutexLock lock(mutex_);
      if (ending_) return;  // the stream is ending, so nobody waits for the answer
      unsent_.push_back(std::move(answer));
      // EndHandling, or the thread that is writing, will send the answer.
      if (handling_ || std::exchange(writing_, true)) return;
    }
    WriteNext();
  }

  // Ends the stream once earlier answers have been written. If End runs more than once, the first
  // status counts.
  void End(const grpc::Status& status) {
    {
      MutexLock lock(mutex_);
      if (std::exchange(ending_, true)) return;
      end_ = status;
      if (writing_ || handling_) return;  // EndHandling or OnWriteDone will end the stream
    }
    StartFinish(status);
  }

 private:
  class StreamedOpenCall;

  bool OnMessage(const grpc::ByteBuffer& message) override {
    BeginHandling();
    const absl::Status taken = TakeCall(message);
    EndHandling();
    if (!taken.ok()) End(ToGrpcStatus(taken));
    return taken.ok();
  }

  void OnReadEnd() override { End(grpc::Status::OK); }

  void OnWriteDone(bool ok) override {
    grpc::Status end;
    bool ends = false;
    {
      MutexLock lock(mutex_);
      if (!ok) unsent_.clear();  // the caller is gone, so nobody waits for answers
      writing_ = !unsent_.empty();
      ends = !writing_ && !handling_ && ending_;
      if (!writing_ && !ends) return;
      end = end_;
    }
    if (ends) return StartFinish(end);
    WriteNext();
  }

  void OnDone() override {
    const std::shared_ptr<GrpcServedStream> self = std::exchange(self_, nullptr);
    dispatcher_->streams->Remove(self);
  }

  absl::Status TakeCall(const grpc::ByteBuffer& message);

  // Begins the handling of one call. Until the handling ends, the handler may answer several calls,
  // and their answers are sent together afterwards.
  void BeginHandling() {
    MutexLock lock(mutex_);
    handling_ = !ending_;
  }
  void EndHandling() {
    grpc::Status end;
    bool writes = false;
    {
      MutexLock lock(mutex_);
      // Either no handling was begun, or the thread that is writing will send the answers.
      if (!std::exchange(handling_, false) || writing_) return;
      writes = writing_ = !unsent_.empty();
      if (!writes && !ending_) return;
      end = end_;
    }
    if (writes) return WriteNext();
    StartFinish(end);
  }

  // Sends answers that wait: up to kAnswersBytesMax, and up to the first answer with a payload.
  void WriteNext() {
    Envelope<proto::StreamedAnswers> answers;
    {
      MutexLock lock(mutex_);
      size_t bytes = 0;
      // A message has one payload, so an answer with a payload is the last one of its message.
      while (!unsent_.empty() && answers.payload.empty() && bytes < kAnswersBytesMax) {
        Envelope<proto::StreamedAnswer>& next = unsent_.front();
        bytes += next.header.header().size() + next.header.error().size();
        *answers.header.add_answers() = std::move(next.header);
        answers.payload = std::move(next.payload);
        unsent_.pop_front();
      }
    }
    // The size limit of this message is doubled, because several headers and one payload may share
    // the message.
    const absl::StatusOr<Payload> frame =
        EncodeCheckedFrame(Pack(std::move(answers)), 2 * kMessageBytesMax);
    COHORT_CHECK(frame.ok(), "the size of each answer was checked");
    StartWrite(ToByteBuffer(*frame));
  }

  const std::shared_ptr<const GrpcDispatcher> dispatcher_;  // state shared with the server
  std::shared_ptr<GrpcServedStream> self_;  // this stream, kept until gRPC is done with it
  Mutex mutex_;
  std::deque<Envelope<proto::StreamedAnswer>> unsent_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;  // whether a call that was read is being handled
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
};

// A call whose answer goes over the stream that brought the request. Thread-safe.
class GrpcServedStream::StreamedOpenCall final : public OpenCall {
 public:
  StreamedOpenCall(std::weak_ptr<GrpcServedStream> stream, uint64_t id, size_t message_bytes_max)
      : stream_(std::move(stream)), id_(id), message_bytes_max_(message_bytes_max) {}

  void Finish(absl::StatusOr<Message> result) override {
    const std::shared_ptr<GrpcServedStream> stream = stream_.lock();
    if (stream == nullptr) return;  // the stream is gone, so nobody waits for the answer
    if (result.ok()) {
      absl::Status fits = CheckAnswer(*result, message_bytes_max_);
      if (!fits.ok()) result = std::move(fits);
    }
    stream->Answer(id_, std::move(result));
  }

  void Stop(const std::string& text) override { Finish(absl::UnavailableError(text)); }

 private:
  const std::weak_ptr<GrpcServedStream> stream_;
  const uint64_t id_;
  const size_t message_bytes_max_;
};

// Decodes one call and runs its handler. An error ends the stream, because the next messages cannot
// be trusted.
absl::Status GrpcServedStream::TakeCall(const grpc::ByteBuffer& message) {
  const size_t bytes_max = dispatcher_->message_bytes_max;
  ASSIGN_OR_RETURN(Message decoded, DecodeFrame(FromByteBuffer(message), kMessageBytesMax));
  ASSIGN_OR_RETURN(auto call, Unpack<proto::StreamedCall>(std::move(decoded)));
  Message request{std::move(*call.header.mutable_header()), std::move(call.payload)};
  const absl::Status fits = CheckSize(request, bytes_max);
  auto open = std::make_shared<StreamedOpenCall>(weak_from_this(), call.header.id(), bytes_max);
  // The request has arrived already, so its bytes are charged to the budget without waiting.
  open->SetRoom(dispatcher_->calls->TakeRoom(call.header.method(), PayloadBytes(request.payload)));
  dispatcher_->calls->Handle(std::move(open), call.header.method(),
                             fits.ok() ? absl::StatusOr<Message>(std::move(request)) : fits);
  return absl::OkStatus();
}

bool GrpcServedStreams::Add(std::shared_ptr<GrpcServedStream> stream) {
  MutexLock lock(mutex_);
  if (ended_) return false;
  open_.insert(std::move(stream));
  return true;
}

void GrpcServedStreams::Remove(const std::shared_ptr<GrpcServedStream>& stream) {
  MutexLock lock(mutex_);
  open_.erase(stream);
}

void GrpcServedStreams::EndAll() {
  std::set<std::shared_ptr<GrpcServedStream>> open;
  {
    MutexLock lock(mutex_);
    ended_ = true;
    open.swap(open_);
  }
  // The streams are ended outside the lock, because a stream that ends removes itself.
  for (const std::shared_ptr<GrpcServedStream>& stream : open) {
    stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server stopped"));
  }
}

void ServeCalls(std::unique_ptr<GrpcIncoming> call,
                const std::shared_ptr<const GrpcDispatcher>& dispatcher) {
  GrpcServedStream::Start(std::move(call), dispatcher);
}

}  // namespace cohort
