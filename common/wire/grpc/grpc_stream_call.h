#pragma once

// The calling end of calls that share one gRPC stream (proto/wire.proto, WireService.Calls). Each
// request is a message of the stream. Answers are messages too, and answers that were given while
// an earlier message was being written share the next message. A gRPC call costs several times as
// much as a message of a stream. Internal to common/wire: only its .cc files include this header.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/wire/grpc/grpc_client_stream.h"
#include "common/wire/transport.h"

namespace cohort {

inline constexpr char kCallsMethod[] = "/cohort.proto.WireService/Calls";

// A stream of calls, from its start until it breaks or nobody needs it any more. Thread-safe.
class GrpcCallStream final : public GrpcClientStream,
                             public std::enable_shared_from_this<GrpcCallStream> {
 public:
  struct Options {
    std::string address;  // address of the server, for texts
    size_t message_bytes_max = 0;
  };
  static std::shared_ptr<GrpcCallStream> Start(grpc::GenericStub& stub, Options options);

  // Starts a call like Channel::Start, but without a deadline and with a request whose size was
  // checked. Returns null if the stream has ended: `request` and `done` are unchanged then, and the
  // caller may start another stream.
  std::unique_ptr<Call> Begin(absl::string_view method, Message& request, Reply& done);

  // Ends the stream once the calls under way have ended. No other call may be begun.
  void EndWhenIdle();

  // Cancels a call that has begun. The stream ends, and with it the other calls, because gRPC
  // releases the memory of unsent messages only when their stream ends.
  void Cancel(uint64_t id);

 private:
  struct OpenCall {
    Reply done;
    std::string method;
    bool cancelled = false;
  };
  struct Unsent {
    uint64_t id = 0;
    std::string method;
    Message request;
  };

  explicit GrpcCallStream(Options options) : options_(std::move(options)) {}
  bool OnMessage(const grpc::ByteBuffer& message) override;
  void OnReadEnd() override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void Write(Unsent next, bool more);
  absl::Status TakeAnswers(const grpc::ByteBuffer& message);
  void EndCall(uint64_t id, absl::StatusOr<Message> result);
  void EndIfIdle();
  void CancelStream();
  absl::Status Failure(absl::StatusCode code, absl::string_view method,
                       absl::string_view why) const;

  const Options options_;
  std::shared_ptr<GrpcCallStream> self_;  // this stream, kept until gRPC is done with it
  absl::Status malformed_;  // the error in a received message; set by the callbacks about reading

  Mutex mutex_;
  // The context of the stream. Shared with cancelling callers. Null when gRPC is done: destroying
  // the context frees what gRPC has not sent, however long the stream object lives.
  std::shared_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, OpenCall> calls_ ABSL_GUARDED_BY(mutex_);
  std::deque<Unsent> unsent_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // whether no other call may be begun on the stream
};

}  // namespace cohort
