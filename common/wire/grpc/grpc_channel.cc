#include "common/wire/grpc/grpc_channel.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_channel.h"
#include "common/wire/frames/stream_greeting.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/grpc/grpc_frames.h"
#include "common/wire/grpc/grpc_loop.h"
#include "common/wire/grpc/grpc_settings.h"
#include "common/wire/method_table.h"

namespace cohort {

namespace {

// Runs `task` on a thread of gRPC as soon as possible. Used for completions of calls, which must
// not run inside Start or Cancel.
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

// The state of one call until its completion. The handle that can cancel the call may hold the
// state longer.
struct CallState {
  grpc::ClientContext context;
  grpc::ByteBuffer response;
  Reply done;
  // The receiver of the server's names. Null: the server is not asked for its names.
  GrpcChannel::OnNames on_names;
  std::string method;
  std::atomic<bool> cancelled{false};
};

class GrpcCall final : public Call {
 public:
  explicit GrpcCall(std::shared_ptr<CallState> state) : state_(std::move(state)) {}
  void Cancel() override {
    state_->cancelled = true;
    state_->context.TryCancel();
  }

 private:
  // The state of the call, shared because gRPC completes the call on a thread of its own.
  const std::shared_ptr<CallState> state_;
};

// The handle of a call that failed before it was given to gRPC.
class EndedCall final : public Call {
 public:
  void Cancel() override {}
};

// Completes a call that cannot be started: `done` soon runs with the error `status`. Returns the
// call's handle.
std::unique_ptr<Call> FailLater(absl::Status status, Reply done) {
  RunLater([done = std::move(done), status = std::move(status)]() mutable {
    std::exchange(done, nullptr)(std::move(status));
  });
  return std::make_unique<EndedCall>();
}

// A gRPC call with one message each way. Deletes itself when the call has ended.
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
    // The reader dies before the call's context, because gRPC has placed the reader in memory of
    // the context.
    io_.reset();
    ended_(*state_, status_);
  }

  GrpcEvent finished_ = GrpcEvent::To<&UnaryCaller::Finished>(*this);
  // The call's state, shared with the handle that may cancel the call.
  const std::shared_ptr<CallState> state_;
  const Ended ended_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> io_;
  grpc::Status status_;
};

// Creates a channel of gRPC. Each has a connection of its own, because ChannelSettings keeps gRPC
// from sharing connections.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                          const GrpcChannelOptions& options) {
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   ChannelSettings(options.lane, options.message_bytes_max));
}

// A channel whose calls are unary calls of gRPC. Thread-safe.
class UnaryChannel final : public GrpcChannel {
 public:
  explicit UnaryChannel(GrpcChannelOptions options)
      : address_(std::make_shared<const std::string>(std::move(options.address))),
        message_bytes_max_(options.message_bytes_max),
        stub_(NewChannel(*address_, options)) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    return StartAsking(method, std::move(request), timeout, nullptr, std::move(done));
  }

  std::unique_ptr<Call> StartAsking(absl::string_view method, Message request,
                                    absl::Duration timeout, OnNames on_names, Reply done) override {
    const absl::Status fits = CheckSize(request, message_bytes_max_);
    if (!fits.ok()) return FailLater(fits, std::move(done));
    // gRPC does not tell which bytes of a unary call have moved.
    timeout = std::min(timeout, request.silence);
    if (timeout <= absl::ZeroDuration()) return FailLater(NoAnswerInTime(method), std::move(done));
    auto state = std::make_shared<CallState>();
    state->done = std::move(done);
    state->on_names = std::move(on_names);
    if (state->on_names != nullptr) state->context.AddMetadata(kLocalNameKey, "?");
    state->method.assign(method.data(), method.size());
    state->context.set_deadline(std::chrono::system_clock::now() +
                                absl::ToChronoMicroseconds(BoundedWait(timeout)));
    const absl::StatusOr<Payload> frame =
        EncodeCheckedFrame(std::move(request), message_bytes_max_);
    if (!frame.ok()) return FailLater(frame.status(), std::move(state->done));
    // gRPC takes references to the frame's slices inside StartCall. This function holds no slices
    // after its return.
    const grpc::ByteBuffer buffer = ToByteBuffer(*frame);
    (new UnaryCaller(state, [address = address_, limit = message_bytes_max_](
                                CallState& ended, const grpc::Status& status) {
      Complete(ended, *address, limit, status);
    }))->Start(stub_, buffer);
    return std::make_unique<GrpcCall>(std::move(state));
  }

 private:
  // Ends a unary call: tells the server's names, and then completes the call with the answer or the
  // failure.
  static void Complete(CallState& state, const std::string& address, size_t message_bytes_max,
                       const grpc::Status& status) {
    Reply done = std::move(state.done);
    TellNames(state, status);
    if (!status.ok()) return done(Failure(state, address, status));
    const Payload frame = FromByteBuffer(state.response);
    state.response.Clear();
    done(DecodeFrame(frame, message_bytes_max));
  }

  // Passes the server's names, which came with the answer, to the code that has asked for them.
  static void TellNames(CallState& state, const grpc::Status& status) {
    if (state.on_names == nullptr) return;
    const auto& metadata = state.context.GetServerInitialMetadata();
    const auto value = [&](const char* key) {
      const auto found = metadata.find(key);
      return found == metadata.end() ? std::string()
                                     : std::string(found->second.data(), found->second.size());
    };
    ServerNames names{value(kLocalNameKey), value(kStreamNameKey), state.context.peer()};
    // A connection that failed before the server answered says nothing about the server's names.
    if (!status.ok() && names.local.empty() && names.stream.empty()) return;
    state.on_names(std::move(names));
  }

  // Returns the error of a failed call. A handler's failure is returned unchanged; a failure of the
  // transport is reduced to the codes that Channel::Start names.
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
        [[fallthrough]];  // a stopping server cancels its calls
      default:
        code = absl::StatusCode::kUnavailable;
    }
    return absl::Status(
        code, absl::StrCat("call of ", state.method, " at ", address, ": ", failure.message()));
  }

  // The server's address. Shared with calls, which may outlive the channel.
  const std::shared_ptr<const std::string> address_;
  const size_t message_bytes_max_;
  grpc::GenericStub stub_;
};

// The names that a server has told on one connection, if it has told them. Thread-safe.
class NamesOfConnection {
 public:
  void Set(ServerNames names) {
    MutexLock lock(mutex_);
    names_ = std::move(names);
  }
  absl::optional<ServerNames> Get() {
    MutexLock lock(mutex_);
    return names_;
  }

 private:
  Mutex mutex_;
  absl::optional<ServerNames> names_ ABSL_GUARDED_BY(mutex_);
};

// Returns the loop that runs the timers of every LocalSession over gRPC.
const std::shared_ptr<IoLoop>& TimerLoop() {
  // The loop is never destroyed, as gRPC's threads are not (grpc_loop.cc): calls on these threads
  // may use the loop until the process ends.
  static const auto* const loop =
      new std::shared_ptr<IoLoop>(std::make_shared<IoLoop>(Turns::kShort));
  return *loop;
}

// A channel whose calls travel as frames: small calls over one connection of gRPC, and calls with
// large payloads over another. Thread-safe.
class FrameChannel final : public GrpcChannel {
 public:
  explicit FrameChannel(const GrpcChannelOptions& options)
      : lane_(options.lane),
        options_(SessionOptions(options)),
        lines_{Line(options), Line(options)} {}

  ~FrameChannel() override {
    MutexLock lock(mutex_);
    for (Line& line : lines_) {
      if (line.session != nullptr) line.session->CloseWhenIdle();
    }
  }

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    return StartAsking(method, std::move(request), timeout, nullptr, std::move(done));
  }

  std::unique_ptr<Call> StartAsking(absl::string_view method, Message request,
                                    absl::Duration timeout, OnNames on_names, Reply done) override {
    std::shared_ptr<LocalSession> session;
    std::shared_ptr<NamesOfConnection> names;
    {
      MutexLock lock(mutex_);
      Line& line = lines_[static_cast<size_t>(KindOf(request))];
      OpenLocked(line);
      session = line.session;
      names = line.names;
    }
    if (on_names == nullptr) {
      return session->Start(method, std::move(request), timeout, std::move(done));
    }
    return session->Start(method, std::move(request), timeout,
                          [names, on_names = std::move(on_names),
                           done = std::move(done)](absl::StatusOr<Message> result) mutable {
                            if (auto heard = names->Get()) on_names(*std::move(heard));
                            std::exchange(done, nullptr)(std::move(result));
                          });
  }

  absl::Duration SinceProgress() const override {
    absl::Duration since = absl::InfiniteDuration();
    MutexLock lock(mutex_);
    for (const Line& line : lines_) {
      if (line.session != nullptr) since = std::min(since, line.session->SinceProgress());
    }
    return since;
  }

 private:
  struct Line {
    explicit Line(const GrpcChannelOptions& options) : stub(NewChannel(options.address, options)) {}
    grpc::GenericStub stub;  // a connection of gRPC, opened by the first call
    // The LocalSession over this connection. Shared with calls, which may outlive the channel.
    std::shared_ptr<LocalSession> session;
    std::shared_ptr<NamesOfConnection> names;  // names that the server told for this `session`
  };

  static LocalSession::Options SessionOptions(const GrpcChannelOptions& options) {
    LocalSession::Options session;
    session.address = options.address;
    session.message_bytes_max = options.message_bytes_max;
    session.blocks = false;
    session.sums = FrameSums::kCrc32c;
    session.pool = options.pool != nullptr ? options.pool : std::make_shared<ReceivePool>();
    session.tells_malformed = true;
    if (options.lane == Lane::kFrames) session.free_bytes_max = kFrameBytesMax;
    return session;
  }

  // Returns which connection carries a request: that for large payloads if the request or its
  // answer is large.
  StreamKind KindOf(const Message& request) const {
    const size_t bytes = PayloadBytes(request.payload);
    const size_t small = lane_ == Lane::kFrames ? kFrameBytesMax : kUnaskedBytesMax;
    const bool parts = bytes > small || request.answer_bytes > kWholeBytesMax;
    return parts ? StreamKind::kParts : StreamKind::kCalls;
  }

  // Opens the LocalSession of a line, if the line has none or its connection has ended.
  void OpenLocked(Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (line.session != nullptr && line.session->open()) return;
    line.names = std::make_shared<NamesOfConnection>();
    line.session = LocalSession::Over(TimerLoop(), options_,
                                      [&](std::shared_ptr<FrameConnection::Owner> owner,
                                          const FrameConnection::Options& connection) {
                                        return OpenFrames(line.stub, std::move(owner), connection,
                                                          [names = line.names](ServerNames heard) {
                                                            names->Set(std::move(heard));
                                                          });
                                      });
  }

  const Lane lane_;
  const LocalSession::Options options_;
  mutable Mutex mutex_;
  std::array<Line, 2> lines_ ABSL_GUARDED_BY(mutex_);  // by StreamKind
};

}  // namespace

std::shared_ptr<GrpcChannel> MakeGrpcChannel(GrpcChannelOptions options) {
  if (options.lane == Lane::kControl) return std::make_shared<UnaryChannel>(std::move(options));
  return std::make_shared<FrameChannel>(options);
}

}  // namespace cohort
