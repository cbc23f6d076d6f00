#pragma once

// The calling end of a connection that carries frames (proto/local.proto), over a unix socket or
// over TCP. Internal to common/wire.

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_connection.h"
#include "common/wire/frames/stream_greeting.h"
#include "common/wire/moved_bytes.h"
#include "common/wire/transport.h"

namespace cohort {

// The open calls of one connection. A call ends with its answer, its deadline, a cancel or the end
// of the connection, whichever comes first. Thread-safe.
class LocalSession final : public FrameConnection::Owner,
                           public std::enable_shared_from_this<LocalSession> {
 public:
  struct Options {
    std::string name;     // name of the unix socket on which the server listens
    std::string address;  // address of the server, for error texts
    size_t message_bytes_max = 0;
    bool blocks = true;  // whether payloads may lie in shared blocks (FrameConnection::Options)
    FrameSums sums = FrameSums::kNone;
    // The pool for received payloads (LocalReader::Options).
    std::shared_ptr<ReceivePool> pool = nullptr;
    // The largest request that is sent without asking the server for room and without counting
    // against the budget `unasked_`. Such a request is sent whole.
    size_t free_bytes_max = kSmallRequestBytesMax;
    // Whether open calls get the MalformedMessage that ended the connection, so that RenewedChannel
    // opens another channel. If false, they get UNAVAILABLE.
    bool tells_malformed = false;
    // The time by which calls end. A test moves it by hand, and then calls ExpireCalls itself.
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  };

  // Connects to the server's unix socket. Errors: UNAVAILABLE naming the server's address and the
  // socket.
  static absl::StatusOr<std::shared_ptr<LocalSession>> Connect(std::shared_ptr<IoLoop> loop,
                                                               Options options);
  // Makes a LocalSession over an existing connection to the server.
  static std::shared_ptr<LocalSession> Over(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                            Options options);
  // Makes a LocalSession over the connection that `connect` makes. `loop` runs only the timer, and
  // the completions of calls that the caller's side ends.
  using MakeConnection = absl::FunctionRef<std::shared_ptr<FrameConnection>(
      std::shared_ptr<FrameConnection::Owner> owner, const FrameConnection::Options& options)>;
  static std::shared_ptr<LocalSession> Over(std::shared_ptr<IoLoop> loop, Options options,
                                            MakeConnection connect);

  // Starts a call. The contract is that of Channel::Start.
  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done);

  bool open() const { return connection_->open(); }

  // Returns how long ago the connection last made progress (moved_bytes.h).
  absl::Duration SinceProgress() const { return moved_->Since(); }

  // Ends the calls whose time is over. Runs on the timer.
  void ExpireCalls();

  // Closes the session once the calls under way have ended. No other call may be started.
  void CloseWhenIdle();

  void Cancel(uint64_t id);
  void OnFrame(proto::LocalFrame frame, Payload payload) override;
  void OnEnd(const absl::Status& why) override;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct OpenCall {
    // Returns the time at which the call ends if the connection makes no progress after `progress`.
    Time EndAfter(Time progress) const;

    Reply done;
    std::string method;
    Time start;
    std::chrono::nanoseconds timeout;
    std::chrono::nanoseconds silence;  // as Message::silence; at least `timeout`: no limit
    Time look;                         // time at which ExpireCalls looks at the call again
    // The call's request, while it waits for room at the server.
    absl::optional<Message> waits = {};
    // The bytes of the budget `unasked_` that the call's request holds; null if the server was
    // asked for room first.
    ByteBudget::Room unasked = nullptr;
  };

  LocalSession(std::shared_ptr<IoLoop> loop, Options options)
      : loop_(std::move(loop)),
        options_(std::move(options)),
        moved_(std::make_shared<MovedBytes>(options_.now)) {}

  // The limits of a call's time: those of Channel::Start and Message::silence.
  struct Limits {
    absl::Duration timeout;
    absl::Duration silence;
  };
  uint64_t Add(std::string method, const Limits& limits, Reply done);
  // Sends the request at once, or first asks the server for room. AskOrSend, Send and Ask return
  // false if the connection has ended.
  bool AskOrSend(uint64_t id, absl::string_view method, Message request);
  bool Send(uint64_t id, absl::string_view method, Message request);
  bool Ask(uint64_t id, absl::string_view method, size_t bytes);
  void OnRoom(uint64_t id);
  // Removes a call from `calls_` and returns it, so that nothing else ends the call. Returns
  // nothing if the call has ended.
  absl::optional<OpenCall> TakeOut(uint64_t id);
  void Complete(OpenCall call, absl::StatusOr<Message> result);
  void EndCall(uint64_t id, absl::StatusOr<Message> result);
  void EndLater(uint64_t id, absl::Status status);
  absl::Status Failure(absl::StatusCode code, absl::string_view method,
                       absl::string_view why) const;

  // The loop that runs the timer and completions. Shared with connections and the transport; the
  // last owner stops the loop's thread.
  const std::shared_ptr<IoLoop> loop_;
  const Options options_;
  // The count of the connection's bytes, shared with the connection.
  const std::shared_ptr<MovedBytes> moved_;
  // The session's connection; set once, shared with the loop until the connection ends.
  std::shared_ptr<FrameConnection> connection_;
  // Fires at the earliest look at a call; set once, shared with the loop.
  std::shared_ptr<LoopTimer> timer_;
  // The budget of the requests that are sent without asking the server for room. Shared with calls
  // under way.
  const std::shared_ptr<ByteBudget> unasked_ = std::make_shared<ByteBudget>(kUnaskedBytesMax);

  Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, OpenCall> calls_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<Time, uint64_t>> looks_ ABSL_GUARDED_BY(mutex_);  // look and id of each call
  bool close_when_idle_ ABSL_GUARDED_BY(mutex_) = false;
};

// A channel of up to two connections: one for small calls, and one for calls that are known
// beforehand to have a large payload. A channel that connects by itself opens a connection when a
// call needs it. A channel that was given two existing connections cannot be used after they have
// ended. Thread-safe.
class LocalChannel final : public Channel {
 public:
  LocalChannel(LocalLoops loops, LocalSession::Options options)
      : loops_(std::move(loops)), options_(WithPool(std::move(options), loops_)) {}
  LocalChannel(LocalLoops loops, std::shared_ptr<LocalSession> calls,
               std::shared_ptr<LocalSession> parts)
      : loops_(std::move(loops)), sessions_({std::move(calls), std::move(parts)}) {}
  ~LocalChannel() override;

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override;

  // Opens the connection for small calls. Errors: UNAVAILABLE naming the server's address and the
  // socket.
  absl::Status Connect();
  absl::Duration SinceProgress() const override;
  // Returns whether calls can be made without calling Connect again.
  bool open();

 private:
  static LocalSession::Options WithPool(LocalSession::Options options, const LocalLoops& loops) {
    options.pool = loops.pool;
    return options;
  }
  absl::StatusOr<std::shared_ptr<LocalSession>> OpenSession(StreamKind kind);

  const LocalLoops loops_;  // threads of the connections; shared with each LocalSession
  // The options of each LocalSession that the channel opens. Without a socket name, the channel
  // opens no connections of its own.
  const LocalSession::Options options_;
  mutable Mutex mutex_;
  // The sessions by StreamKind. Shared with calls, which may outlive the channel.
  std::array<std::shared_ptr<LocalSession>, 2> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
