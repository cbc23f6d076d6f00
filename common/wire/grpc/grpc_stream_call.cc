#include "common/wire/grpc/grpc_stream_call.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame.h"
#include "common/wire/frame_limits.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/method_table.h"
#include "common/wire/typed_call.h"
#include "proto/wire.pb.h"

namespace cohort {

namespace {

constexpr absl::string_view kCancelled = "the caller cancelled the call";

// A caller's handle of a call on a stream. The handle may outlive the stream.
class StreamedCall final : public Call {
 public:
  StreamedCall(std::weak_ptr<GrpcCallStream> stream, uint64_t id)
      : stream_(std::move(stream)), id_(id) {}
  void Cancel() override {
    if (const auto stream = stream_.lock()) stream->Cancel(id_);
  }

 private:
  const std::weak_ptr<GrpcCallStream> stream_;
  const uint64_t id_;
};

// Returns the error of an answer, with its ErrorDetail if that can be parsed.
absl::Status StatusOf(const proto::StreamedAnswer& answer) {
  const absl::Status status(static_cast<absl::StatusCode>(answer.code()), answer.error());
  proto::ErrorDetail detail;
  if (answer.detail().empty() || !detail.ParseFromString(answer.detail())) return status;
  return WithDetail(status, detail);
}

}  // namespace

// Starts the stream. A hold (AddHold) keeps OnDone from running while a thread may still write,
// that is, until reading has ended and nobody writes.
std::shared_ptr<GrpcCallStream> GrpcCallStream::Start(grpc::GenericStub& stub, Options options) {
  std::shared_ptr<GrpcCallStream> stream(new GrpcCallStream(std::move(options)));
  stream->self_ = stream;
  const auto context = std::make_shared<grpc::ClientContext>();
  {
    MutexLock lock(stream->mutex_);
    stream->context_ = context;
  }
  stream->AddHold();
  stream->StartCall(stub, *context, kCallsMethod);
  return stream;
}

std::unique_ptr<Call> GrpcCallStream::Begin(absl::string_view method, Message& request,
                                            Reply& done) {
  Unsent next;
  bool writes = false;
  uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    if (ended_) return nullptr;
    id = ++last_id_;
    next = {id, std::string(method), std::move(request)};
    calls_[id] = {std::move(done), next.method};
    // One thread writes at a time; that thread also sends the requests that wait in `unsent_`.
    writes = !std::exchange(writing_, true);
    if (!writes) unsent_.push_back(std::move(next));
  }
  auto call = std::make_unique<StreamedCall>(weak_from_this(), id);
  if (writes) Write(std::move(next), /*more=*/false);
  return call;
}

void GrpcCallStream::Write(Unsent next, bool more) {
  Envelope<proto::StreamedCall> call;
  call.header.set_id(next.id);
  call.header.set_method(std::move(next.method));
  call.header.set_header(std::move(next.request.header));
  call.payload = std::move(next.request.payload);
  const absl::StatusOr<Payload> frame = EncodeCheckedFrame(Pack(std::move(call)), kMessageBytesMax);
  COHORT_CHECK(frame.ok(), "the size of the request was checked");
  // With the buffer hint, gRPC takes the next message before this message has been sent, so that
  // one system call sends both.
  grpc::WriteOptions options;
  if (more) options.set_buffer_hint();
  StartWrite(ToByteBuffer(*frame), options);
}

void GrpcCallStream::OnWriteDone(bool ok) {
  Unsent next;
  bool more = false;
  {
    MutexLock lock(mutex_);
    if (ok && reading_ && !unsent_.empty()) {
      next = std::move(unsent_.front());
      unsent_.pop_front();
      more = !unsent_.empty();
    } else {
      writing_ = false;
      ended_ |= !ok;
      // If reading has ended already, OnReadEnd has left it to this thread, the last to write, to
      // remove the stream's hold (AddHold).
      if (reading_) return;
    }
  }
  if (next.id != 0) return Write(std::move(next), more);
  RemoveHold();
}

bool GrpcCallStream::OnMessage(const grpc::ByteBuffer& message) {
  malformed_ = TakeAnswers(message);
  // A malformed answer may belong to any call, so the whole stream ends.
  if (!malformed_.ok()) CancelStream();
  return malformed_.ok();
}

void GrpcCallStream::OnReadEnd() {
  {
    MutexLock lock(mutex_);
    reading_ = false;
    ended_ = true;
    // The thread that is writing removes the stream's hold (AddHold) when it is done.
    if (writing_) return;
  }
  RemoveHold();
}

absl::Status GrpcCallStream::TakeAnswers(const grpc::ByteBuffer& message) {
  ASSIGN_OR_RETURN(Message decoded, DecodeFrame(FromByteBuffer(message), kMessageBytesMax));
  ASSIGN_OR_RETURN(auto answers, Unpack<proto::StreamedAnswers>(std::move(decoded)));
  const int count = answers.header.answers_size();
  for (int i = 0; i < count; ++i) {
    proto::StreamedAnswer& answer = *answers.header.mutable_answers(i);
    if (answer.code() != 0) {
      EndCall(answer.id(), StatusOf(answer));
      continue;
    }
    // Only the last answer of a message may have a payload.
    Message result{std::move(*answer.mutable_header()), {}};
    if (i == count - 1) result.payload = std::move(answers.payload);
    const absl::Status fits = CheckSize(result, options_.message_bytes_max);
    EndCall(answer.id(), fits.ok() ? absl::StatusOr<Message>(std::move(result)) : fits);
  }
  return absl::OkStatus();
}

// Ends one call. An answer to a call that has ended already is ignored.
void GrpcCallStream::EndCall(uint64_t id, absl::StatusOr<Message> result) {
  OpenCall call;
  {
    MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    call = std::move(found->second);
    calls_.erase(found);
  }
  // The completion runs outside the lock, because it may begin another call.
  call.done(std::move(result));
  call.done = nullptr;
  EndIfIdle();
}

void GrpcCallStream::EndWhenIdle() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  EndIfIdle();
}

void GrpcCallStream::EndIfIdle() {
  {
    MutexLock lock(mutex_);
    if (!ended_ || !calls_.empty()) return;
  }
  // No call is under way on the stream, so cancelling the stream loses nothing.
  CancelStream();
}

void GrpcCallStream::CancelStream() {
  std::shared_ptr<grpc::ClientContext> context;
  {
    MutexLock lock(mutex_);
    context = context_;
  }
  if (context != nullptr) context->TryCancel();
}

void GrpcCallStream::Cancel(uint64_t id) {
  {
    MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    found->second.cancelled = true;
    ended_ = true;
  }
  CancelStream();
}

void GrpcCallStream::OnDone(const grpc::Status& status) {
  const std::shared_ptr<GrpcCallStream> self = std::exchange(self_, nullptr);
  std::map<uint64_t, OpenCall> calls;
  std::deque<Unsent> unsent;
  // The stream's context, destroyed before the calls are completed.
  std::shared_ptr<grpc::ClientContext> context;
  {
    MutexLock lock(mutex_);
    context.swap(context_);
    calls.swap(calls_);
    unsent.swap(unsent_);
  }
  // The memory of unsent requests is freed before their callers learn of the end.
  context.reset();
  unsent.clear();
  const absl::Status ended = malformed_.ok() ? FromGrpcStatus(status) : malformed_;
  // The calls report these two codes unchanged. Any other code comes from the connection, and the
  // calls report UNAVAILABLE.
  const bool tells = ended.code() == absl::StatusCode::kResourceExhausted ||
                     ended.code() == absl::StatusCode::kUnimplemented;
  const absl::StatusCode code = tells ? ended.code() : absl::StatusCode::kUnavailable;
  const std::string why = ended.ok() ? "the stream of calls ended" : std::string(ended.message());
  for (auto& [id, call] : calls) {
    // Malformed answers keep their error, so that RenewedChannel opens another connection.
    if (IsMalformed(ended) && !call.cancelled) {
      call.done(ended);
      continue;
    }
    call.done(call.cancelled ? Failure(absl::StatusCode::kCancelled, call.method, kCancelled)
                             : Failure(code, call.method, why));
  }
}

absl::Status GrpcCallStream::Failure(absl::StatusCode code, absl::string_view method,
                                     absl::string_view why) const {
  return absl::Status(code, absl::StrCat("call of ", method, " at ", options_.address, ": ", why));
}

}  // namespace cohort
