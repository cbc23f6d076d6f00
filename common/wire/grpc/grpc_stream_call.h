#pragma once

// Calls that share one stream of gRPC (proto/wire.proto, WireService.Calls): each is a message of
// it, and so are the answers, several in one where they were given meanwhile. A call of its own
// costs gRPC several times what a message costs. This is the calling end. Internal to common/wire:
// only its .cc files include it.

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

// A stream, from its start until it breaks or nobody needs it any more. Thread-safe.
class GrpcCallStream final : public GrpcClientStream,
                             public std::enable_shared_from_this<GrpcCallStream> {
 public:
  struct Options {
    std::string address;  // the server's, for texts
    size_t message_bytes_max = 0;
  };
  static std::shared_ptr<GrpcCallStream> Start(grpc::GenericStub& stub, Options options);

  // Starts a call like Channel::Start, without a deadline and with a request whose size was
  // checked. Returns null if the stream has ended; `request` and `done` are unchanged then, and
  // another stream may be started.
  std::unique_ptr<Call> Begin(absl::string_view method, Message& request, Reply& done);

  // Ends once the calls under way have ended; no other may be begun.
  void EndWhenIdle();

  // Cancels a call that has begun. The stream ends, and with it the other calls: only so does gRPC
  // release the memory of what it has not sent.
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
  std::shared_ptr<GrpcCallStream> self_;  // kept until gRPC is done with it
  absl::Status malformed_;                // used by the reading side: what is wrong with what came

  Mutex mutex_;
  // Shared with cancelling callers. Empty when gRPC is done: the context frees what gRPC has not
  // sent, however long the stream is held.
  std::shared_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, OpenCall> calls_ ABSL_GUARDED_BY(mutex_);
  std::deque<Unsent> unsent_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // no call may be begun
};

}  // namespace cohort
