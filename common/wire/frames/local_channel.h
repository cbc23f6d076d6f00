#pragma once

// The calling end of a local connection, or of another with its frames. Internal to common/wire.

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/local_connection.h"
#include "common/wire/frames/loop_timer.h"
#include "common/wire/frames/stream_greeting.h"
#include "common/wire/transport.h"

namespace cohort {

// The open calls of one connection: each ends with its answer, its deadline, its cancel or the
// connection, whichever is first. Thread-safe.
class LocalSession final : public LocalConnection::Owner,
                           public std::enable_shared_from_this<LocalSession> {
 public:
  struct Options {
    std::string name;     // the listening socket's
    std::string address;  // the server's, for error texts
    size_t message_bytes_max = 0;
    bool blocks = true;  // see LocalConnection
    FrameSums sums = FrameSums::kNone;
    std::shared_ptr<ReceivePool> pool = nullptr;  // see LocalReader
    // Requests up to this go without asking, do not count as such, and go as a whole.
    size_t free_bytes_max = kSmallRequestBytesMax;
  };

  // Errors: UNAVAILABLE naming address and socket.
  static absl::StatusOr<std::shared_ptr<LocalSession>> Connect(std::shared_ptr<IoLoop> loop,
                                                               Options options);
  // Makes a session over a connection that exists already.
  static std::shared_ptr<LocalSession> Over(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                            Options options);

  // Starts a call like Channel::Start.
  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done);

  bool open() const { return connection_->open(); }

  // Closes once the calls under way have ended; no other may be started.
  void CloseWhenIdle();

  void Cancel(uint64_t id);
  void OnFrame(proto::LocalFrame frame, Payload payload) override;
  void OnEnd(const absl::Status& why) override;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct OpenCall {
    Reply done;
    std::string method;
    Time deadline;
    absl::optional<Message> waits = {};  // waits for room at the server
    ByteBudget::Room unasked = nullptr;  // room for a request that was sent without asking
  };

  LocalSession(std::shared_ptr<IoLoop> loop, Options options)
      : loop_(std::move(loop)), options_(std::move(options)) {}

  uint64_t Add(std::string method, absl::Duration timeout, Reply done);
  // Asks for room or sends at once. Returns false if the connection has ended, like the next two.
  bool AskOrSend(uint64_t id, absl::string_view method, Message request);
  bool Send(uint64_t id, absl::string_view method, Message request);
  bool Ask(uint64_t id, absl::string_view method, size_t bytes);
  void OnRoom(uint64_t id);
  void EndCall(uint64_t id, absl::StatusOr<Message> result);
  void EndLater(uint64_t id, absl::Status status);
  void ExpireCalls();
  absl::Status Failure(absl::StatusCode code, absl::string_view method,
                       absl::string_view why) const;

  // Shared: the last of loop, connections and transport takes the thread down.
  const std::shared_ptr<IoLoop> loop_;
  const Options options_;
  std::shared_ptr<LocalConnection> connection_;  // set once; shared with the loop until its end
  std::shared_ptr<LoopTimer> timer_;             // set once; shared with the loop
  // The budget of requests that are sent unasked. Shared with calls.
  const std::shared_ptr<ByteBudget> unasked_ = std::make_shared<ByteBudget>(kUnaskedBytesMax);

  Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, OpenCall> calls_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<Time, uint64_t>> deadlines_ ABSL_GUARDED_BY(mutex_);
  bool close_when_idle_ ABSL_GUARDED_BY(mutex_) = false;
};

// Connects when a call starts and no connection is open, or uses two that are there and ends with
// them. Calls with large payloads, as far as that is known beforehand, have a connection of their
// own. Thread-safe.
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

  // Errors: UNAVAILABLE naming address and socket.
  absl::Status Connect();
  // Returns whether calls can be made without another Connect.
  bool open();

 private:
  static LocalSession::Options WithPool(LocalSession::Options options, const LocalLoops& loops) {
    options.pool = loops.pool;
    return options;
  }
  absl::StatusOr<std::shared_ptr<LocalSession>> OpenSession(StreamKind kind);

  const LocalLoops loops_;               // see LocalSession
  const LocalSession::Options options_;  // without a name: no other connections are made
  Mutex mutex_;
  // The sessions by kind. Shared with their calls, which may outlive the channel.
  std::array<std::shared_ptr<LocalSession>, 2> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
