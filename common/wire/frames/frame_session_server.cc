#include "common/wire/frames/frame_session_server.h"

#include <chrono>
#include <map>
#include <utility>

#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// The most time that a stopping server spends on sending the answers that it has given.
constexpr std::chrono::milliseconds kFlushTimeMax{500};

// A call whose answer goes over the connection that brought the request. Thread-safe.
class LocalOpenCall final : public OpenCall {
 public:
  LocalOpenCall(std::weak_ptr<FrameConnection> connection, uint64_t id, size_t message_bytes_max)
      : connection_(std::move(connection)), id_(id), message_bytes_max_(message_bytes_max) {}

  void Finish(absl::StatusOr<Message> result) override {
    const absl::Status failure =
        result.ok() ? CheckSize(*result, message_bytes_max_) : result.status();
    // If the answer is too large, the client gets an error instead.
    if (!failure.ok()) return Fail(failure);
    proto::LocalFrame frame;
    frame.mutable_reply()->set_id(id_);
    frame.set_header(std::move(result->header));
    Send(std::move(frame), std::move(result->payload));
  }

  void Stop(const std::string& text) override { Fail(absl::UnavailableError(text)); }

 private:
  void Fail(const absl::Status& status) {
    proto::LocalFrame frame;
    frame.mutable_reply()->set_id(id_);
    frame.mutable_reply()->set_code(static_cast<int32_t>(status.code()));
    frame.mutable_reply()->set_error(std::string(status.message()));
    frame.mutable_reply()->set_detail(DetailOf(status).SerializeAsString());
    Send(std::move(frame), {});
  }

  // Sends the frame of an answer. Drops the frame if the connection is gone, because then nobody
  // waits for the answer.
  void Send(proto::LocalFrame frame, Payload payload) {
    if (const auto connection = connection_.lock()) {
      connection->Send(std::move(frame), std::move(payload));
    }
  }

  const std::weak_ptr<FrameConnection> connection_;
  const uint64_t id_;
  const size_t message_bytes_max_;
};

// Passes the calls of one client, which arrive on one connection, to the handlers. Thread-safe.
class ServerSession final : public FrameConnection::Owner,
                            public std::enable_shared_from_this<ServerSession> {
 public:
  ServerSession(std::shared_ptr<ServerCalls> calls, std::shared_ptr<FramePeers> peers,
                size_t message_bytes_max)
      : calls_(std::move(calls)), peers_(std::move(peers)), message_bytes_max_(message_bytes_max) {}

  // Sets the connection of this ServerSession. Runs once, on the thread of the loop on which
  // OnFrame also runs.
  void SetConnection(std::weak_ptr<FrameConnection> connection) {
    connection_ = std::move(connection);
  }

  std::shared_ptr<ReceivePlace> PlaceFor(const proto::LocalFrame& frame, size_t bytes) override {
    if (!frame.has_call()) return nullptr;
    return calls_->PlaceFor(frame.call().method(), frame.header(), bytes);
  }

  void OnFrame(proto::LocalFrame frame, Payload payload) override {
    if (frame.has_ask()) return OnAsk(frame.ask());
    if (!frame.has_call()) return;
    ByteBudget::Room room = TakeRoomOf(frame.call().id());
    // A payload in a shared block occupies memory of the client's process, so it is not charged to
    // this server's budget.
    if (room == nullptr && frame.block() == 0 && frame.ranges_size() == 0) {
      room = calls_->TakeRoom(frame.call().method(), PayloadBytes(payload));
    }
    Message message{std::move(*frame.mutable_header()), std::move(payload)};
    const absl::Status fits = CheckSize(message, message_bytes_max_);
    absl::StatusOr<Message> request =
        fits.ok() ? absl::StatusOr<Message>(std::move(message)) : fits;
    auto call = std::make_shared<LocalOpenCall>(connection_, frame.call().id(), message_bytes_max_);
    call->SetRoom(std::move(room));
    calls_->Handle(std::move(call), frame.call().method(), std::move(request));
  }

  void OnEnd(const absl::Status&) override {
    if (const auto connection = connection_.lock()) peers_->Remove(connection);
  }

 private:
  void OnAsk(const proto::LocalAsk& ask) {
    // An Ask for 0 bytes says that its call has ended, so the room that was granted to the call is
    // given back.
    if (ask.bytes() == 0) {
      TakeRoomOf(ask.id());
      return;
    }
    calls_->AskForRoom(ask.method(), ask.bytes(),
                       [weak = weak_from_this(), id = ask.id()](ByteBudget::Room room) {
                         // The client may be gone by the time the budget has room for its request.
                         if (const auto self = weak.lock()) self->TellRoom(id, std::move(room));
                       });
  }

  void TellRoom(uint64_t id, ByteBudget::Room room) {
    const auto connection = connection_.lock();
    if (connection == nullptr) return;
    if (room != nullptr) {
      MutexLock lock(mutex_);
      // The swap moves any earlier Lease of this call id to `room`, which dies outside the lock: a
      // Lease's destructor runs the callbacks of callers that wait for room.
      std::swap(rooms_[id], room);
    }
    proto::LocalFrame frame;
    frame.mutable_room()->set_id(id);
    connection->Send(std::move(frame), {});
  }

  ByteBudget::Room TakeRoomOf(uint64_t id) {
    MutexLock lock(mutex_);
    const auto found = rooms_.find(id);
    if (found == rooms_.end()) return nullptr;
    ByteBudget::Room room = std::move(found->second);
    rooms_.erase(found);
    return room;
  }

  const std::shared_ptr<ServerCalls> calls_;  // the server's open calls, shared with the server
  const std::shared_ptr<FramePeers> peers_;   // its connections, shared with the server
  const size_t message_bytes_max_;
  std::weak_ptr<FrameConnection> connection_;
  Mutex mutex_;
  // The room that was granted to requests that have not arrived yet, by the ids of their calls.
  std::map<uint64_t, ByteBudget::Room> rooms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void FramePeers::Add(std::shared_ptr<FrameConnection> connection) {
  {
    MutexLock lock(mutex_);
    if (!closed_) {
      open_.insert(std::move(connection));
      return;
    }
  }
  // CloseAll has run, so the new connection is closed. Close is called outside the lock.
  connection->Close();
}

void FramePeers::Remove(const std::shared_ptr<FrameConnection>& connection) {
  MutexLock lock(mutex_);
  open_.erase(connection);
}

void FramePeers::CloseAll() {
  std::set<std::shared_ptr<FrameConnection>> open;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    open.swap(open_);
  }
  // All connections share one deadline for sending the answers that were given, so that a stopping
  // server does not wait for one client after another.
  const auto end = std::chrono::steady_clock::now() + kFlushTimeMax;
  for (const std::shared_ptr<FrameConnection>& connection : open) connection->WaitUntilSent(end);
  for (const std::shared_ptr<FrameConnection>& connection : open) connection->Close();
}

void ServeSession(
    const std::shared_ptr<ServerCalls>& calls, const std::shared_ptr<FramePeers>& peers,
    size_t message_bytes_max,
    absl::FunctionRef<std::shared_ptr<FrameConnection>(std::shared_ptr<FrameConnection::Owner>)>
        connect) {
  auto session = std::make_shared<ServerSession>(calls, peers, message_bytes_max);
  auto connection = connect(session);
  session->SetConnection(connection);
  peers->Add(std::move(connection));
}

}  // namespace cohort
