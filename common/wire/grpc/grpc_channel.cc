#include "common/wire/grpc/grpc_channel.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame.h"
#include "common/wire/frame_limits.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/grpc/grpc_loop.h"
#include "common/wire/grpc/grpc_parts.h"
#include "common/wire/grpc/grpc_settings.h"
#include "common/wire/grpc/grpc_stream_call.h"
#include "common/wire/method_table.h"

namespace cohort {

namespace {

// Runs `task` soon on a thread of gRPC. Used for completions, which must not run inside Start or
// Cancel.
void RunLater(absl::AnyInvocable<void()> task) {
  struct Pending {
    grpc::Alarm alarm;
    absl::AnyInvocable<void()> task;
  };
  auto* pending = new Pending{grpc::Alarm(), std::move(task)};
  pending->alarm.Set(std::chrono::system_clock::now(), [pending](bool) {
    const std::unique_ptr<Pending> owned(pending);
    owned->task();
  });
}

// The state of one call until its completion. A handle for cancelling may hold the state longer.
struct CallState {
  grpc::ClientContext context;
  grpc::ByteBuffer response;
  Reply done;
  // Receiver of the server's names; null: the server is not asked for them.
  GrpcChannel::NamesTold told;
  std::string method;
  std::atomic<bool> cancelled{false};
  ByteBudget::Room unasked;  // this request's room in the budget `unasked_`, if it needs room
};

class GrpcCall final : public Call {
 public:
  explicit GrpcCall(std::shared_ptr<CallState> state) : state_(std::move(state)) {}
  void Cancel() override {
    state_->cancelled = true;
    state_->context.TryCancel();
  }

 private:
  // The state of the call. Shared: gRPC completes the call on a thread of its own.
  const std::shared_ptr<CallState> state_;
};

// The handle of a call that failed before gRPC saw it.
class EndedCall final : public Call {
 public:
  void Cancel() override {}
};

// Completes a call that cannot be started with `status`, soon.
std::unique_ptr<Call> FailLater(absl::Status status, Reply done) {
  RunLater([done = std::move(done), status = std::move(status)]() mutable {
    std::exchange(done, nullptr)(std::move(status));
  });
  return std::make_unique<EndedCall>();
}

// A call with one message each way. Deletes itself when the call has ended.
class UnaryCaller {
 public:
  using Ended = std::function<void(CallState& state, const grpc::Status& status)>;
  UnaryCaller(std::shared_ptr<CallState> state, Ended ended)
      : state_(std::move(state)), ended_(std::move(ended)) {}

  void Start(grpc::GenericStub& stub, const grpc::ByteBuffer& request) {
    io_ = stub.PrepareUnaryCall(&state_->context, state_->method, request, &GrpcQueue());
    io_->StartCall();
    io_->Finish(&state_->response, &status_, finished_.tag());
  }

 private:
  void Finished(bool) {
    const std::unique_ptr<UnaryCaller> self(this);
    io_.reset();  // gRPC placed the reader in memory that belongs to the call's context
    ended_(*state_, status_);
  }

  GrpcEvent finished_ = GrpcEvent::To<&UnaryCaller::Finished>(*this);
  // The call's state, shared with the handle that may cancel the call.
  const std::shared_ptr<CallState> state_;
  const Ended ended_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> io_;
  grpc::Status status_;
};

// Each GrpcChannel has gRPC channels, and so connections, of its own (ChannelSettings).
std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                          const GrpcChannelOptions& options) {
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   ChannelSettings(options.lane, options.message_bytes_max));
}

// A channel over gRPC for one address and lane. Thread-safe.
class GenericChannel final : public GrpcChannel {
 public:
  explicit GenericChannel(GrpcChannelOptions options)
      : lane_(options.lane),
        address_(std::make_shared<const std::string>(std::move(options.address))),
        message_bytes_max_(options.message_bytes_max),
        pool_(options.pool != nullptr ? options.pool : std::make_shared<ReceivePool>()),
        stub_(NewChannel(*address_, options)),
        parts_stub_(NewChannel(*address_, options)) {}

  ~GenericChannel() override {
    MutexLock lock(mutex_);
    if (stream_ != nullptr) stream_->EndWhenIdle();
  }

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    return StartAsking(method, std::move(request), timeout, nullptr, std::move(done));
  }

  std::unique_ptr<Call> StartAsking(absl::string_view method, Message request,
                                    absl::Duration timeout, NamesTold told, Reply done) override {
    const absl::Status fits = CheckSize(request, message_bytes_max_);
    if (!fits.ok()) return FailLater(fits, std::move(done));
    if (timeout <= absl::ZeroDuration()) return FailLater(NoAnswerInTime(method), std::move(done));
    if (GoesOnStream(request, timeout)) return StartOnStream(method, std::move(request), done);
    auto state = std::make_shared<CallState>();
    state->done = std::move(done);
    state->told = std::move(told);
    if (state->told != nullptr) state->context.AddMetadata(kLocalNameKey, "?");
    state->method.assign(method.data(), method.size());
    state->context.set_deadline(std::chrono::system_clock::now() +
                                absl::ToChronoMicroseconds(BoundedWait(timeout)));
    // A call travels in parts if its request has to wait for room at the server, or if a large
    // answer is expected.
    const bool asks = !GoesUnasked(request, *state);
    if (asks || request.answer_bytes > kWholeBytesMax) {
      StartParts(state, std::move(request), asks);
      return std::make_unique<GrpcCall>(std::move(state));
    }
    const absl::StatusOr<Payload> frame =
        EncodeCheckedFrame(std::move(request), message_bytes_max_);
    if (!frame.ok()) return FailLater(frame.status(), std::move(state->done));
    // gRPC takes references to the slices inside StartCall; nothing in this function holds the
    // slices afterwards.
    const grpc::ByteBuffer buffer = ToByteBuffer(*frame);
    (new UnaryCaller(state, [address = address_, limit = message_bytes_max_](
                                CallState& ended, const grpc::Status& status) {
      Complete(ended, *address, limit, status);
    }))->Start(stub_, buffer);
    return std::make_unique<GrpcCall>(std::move(state));
  }

 private:
  // Returns whether a request is sent on the channel's shared stream. A call with a deadline of its
  // own is not, since ending one call of a stream ends the others.
  bool GoesOnStream(const Message& request, absl::Duration timeout) const {
    return lane_ == Lane::kFrames && timeout == absl::InfiniteDuration() &&
           PayloadBytes(request.payload) <= kFrameBytesMax &&
           request.header.size() <= kFrameBytesMax && request.answer_bytes <= kFrameBytesMax;
  }

  // Starts a call on the shared stream; if the stream has ended, on a new one.
  std::unique_ptr<Call> StartOnStream(absl::string_view method, Message request, Reply& done) {
    while (true) {
      std::shared_ptr<GrpcCallStream> stream;
      {
        MutexLock lock(mutex_);
        // The lock may be held, because gRPC runs no code of this project inside Start.
        if (stream_ == nullptr) {
          stream_ = GrpcCallStream::Start(stub_, {*address_, message_bytes_max_});
        }
        stream = stream_;
      }
      if (auto call = stream->Begin(method, request, done)) return call;
      MutexLock lock(mutex_);
      if (stream_ == stream) stream_ = nullptr;  // the stream has ended
    }
  }

  // Returns whether a request may be sent before the server grants room. A request that is not
  // small needs room in the budget `unasked_`, which is taken here.
  bool GoesUnasked(const Message& request, CallState& state) const {
    const size_t bytes = PayloadBytes(request.payload);
    if (bytes <= kSmallRequestBytesMax) return true;
    if (bytes <= kUnaskedBytesMax) state.unasked = unasked_->TryTake(bytes);
    return state.unasked != nullptr;
  }

  void StartParts(std::shared_ptr<CallState> state, Message request, bool asks) {
    // The pointer shares the call's state, so the state lives while gRPC uses its context.
    const std::shared_ptr<grpc::ClientContext> context(state, &state->context);
    StartPartsCall(
        parts_stub_,
        {state->method, std::move(request), asks, message_bytes_max_, pool_, context,
         [state, address = address_](const grpc::Status& status, absl::StatusOr<Message> answer) {
           Reply done = std::move(state->done);
           // The request's room in the budget `unasked_` is given back before the completion runs,
           // because the completion may start the next call.
           state->unasked.reset();
           TellNames(*state, status);
           if (!status.ok()) return done(Failure(*state, *address, status));
           done(std::move(answer));
         }});
  }

  // Ends a unary call: tells the names, then completes the call with the answer or the failure.
  static void Complete(CallState& state, const std::string& address, size_t message_bytes_max,
                       const grpc::Status& status) {
    Reply done = std::move(state.done);
    state.unasked.reset();
    TellNames(state, status);
    if (!status.ok()) return done(Failure(state, address, status));
    const Payload frame = FromByteBuffer(state.response);
    state.response.Clear();
    done(DecodeFrame(frame, message_bytes_max));
  }

  // Passes the server's names, which came with the answer, to the code that asked for them.
  static void TellNames(CallState& state, const grpc::Status& status) {
    if (state.told == nullptr) return;
    const auto& metadata = state.context.GetServerInitialMetadata();
    const auto value = [&](const char* key) {
      const auto found = metadata.find(key);
      return found == metadata.end() ? std::string()
                                     : std::string(found->second.data(), found->second.size());
    };
    ServerNames names{value(kLocalNameKey), value(kStreamNameKey), state.context.peer()};
    // A connection that failed before the server answered says nothing about the server's names.
    if (!status.ok() && names.local.empty() && names.stream.empty()) return;
    state.told(std::move(names));
  }

  // Translates gRPC's status. A handler's failure passes unchanged; a transport's failure is
  // reduced to the codes that Channel::Start names.
  static absl::Status Failure(const CallState& state, const std::string& address,
                              const grpc::Status& status) {
    const absl::Status failure = FromGrpcStatus(status);
    const bool answered = state.context.GetServerTrailingMetadata().count(kHandlerFailureKey) > 0;
    if (answered || IsMalformed(failure)) return failure;
    absl::StatusCode code = failure.code();
    switch (code) {
      case absl::StatusCode::kDeadlineExceeded:
      case absl::StatusCode::kResourceExhausted:
      case absl::StatusCode::kUnimplemented:
        break;
      case absl::StatusCode::kCancelled:
        if (state.cancelled) break;
        [[fallthrough]];  // a server that stops cancels its calls
      default:
        code = absl::StatusCode::kUnavailable;
    }
    return absl::Status(
        code, absl::StrCat("call of ", state.method, " at ", address, ": ", failure.message()));
  }

  const Lane lane_;
  // The server's address. Shared with calls, which may outlive the channel.
  const std::shared_ptr<const std::string> address_;
  const size_t message_bytes_max_;
  const std::shared_ptr<ReceivePool> pool_;
  // The budget of requests that are sent without asking the server for room. Shared with calls
  // under way.
  const std::shared_ptr<ByteBudget> unasked_ = std::make_shared<ByteBudget>(kUnaskedBytesMax);
  grpc::GenericStub stub_;
  // The stub of a second connection, for calls in parts; the first such call opens the connection.
  // Small calls then do not wait for the parts that are in the socket.
  grpc::GenericStub parts_stub_;
  Mutex mutex_;
  // The stream of a channel for Lane::kFrames, made by its first call. Shared with its calls and
  // with gRPC.
  std::shared_ptr<GrpcCallStream> stream_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<GrpcChannel> MakeGrpcChannel(GrpcChannelOptions options) {
  return std::make_shared<GenericChannel>(std::move(options));
}

}  // namespace cohort
