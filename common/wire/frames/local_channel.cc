#include "common/wire/frames/local_channel.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/local_server.h"
#include "common/wire/frames/local_socket.h"
#include "common/wire/frames/shared_memory.h"
#include "common/wire/method_table.h"

namespace cohort {

namespace {

// How often ExpireCalls looks at a call with a limit of silence, within that limit. What the system
// still holds of a request is only seen by looking, so this is the precision of the limit.
constexpr int kLooksPerSilence = 50;

// A caller's handle of a call on a LocalSession. The handle may outlive the session.
class LocalCall final : public Call {
 public:
  LocalCall(std::weak_ptr<LocalSession> session, uint64_t id)
      : session_(std::move(session)), id_(id) {}
  void Cancel() override {
    if (const auto session = session_.lock()) session->Cancel(id_);
  }

 private:
  const std::weak_ptr<LocalSession> session_;
  const uint64_t id_;
};

// The caller's handle of a call that failed because no connection could be opened.
class EndedCall final : public Call {
 public:
  void Cancel() override {}
};

// Returns the error that a reply carries, with its ErrorDetail if the detail can be parsed.
absl::Status StatusOf(const proto::LocalReply& reply) {
  const absl::Status status(static_cast<absl::StatusCode>(reply.code()), reply.error());
  proto::ErrorDetail detail;
  if (reply.detail().empty() || !detail.ParseFromString(reply.detail())) return status;
  return WithDetail(status, detail);
}

}  // namespace

absl::StatusOr<std::shared_ptr<LocalSession>> LocalSession::Connect(std::shared_ptr<IoLoop> loop,
                                                                    Options options) {
  absl::StatusOr<UniqueFd> socket = ConnectLocal(options.name);
  if (!socket.ok()) {
    return absl::UnavailableError(
        absl::StrCat("no server at ", options.address, ": ", socket.status().message()));
  }
  return Over(std::move(loop), *std::move(socket), std::move(options));
}

std::shared_ptr<LocalSession> LocalSession::Over(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                                 Options options) {
  return Over(loop, std::move(options),
              [&](std::shared_ptr<FrameConnection::Owner> owner,
                  const FrameConnection::Options& connection) {
                return LocalConnection::Start(loop, std::move(socket), std::move(owner),
                                              connection);
              });
}

std::shared_ptr<LocalSession> LocalSession::Over(std::shared_ptr<IoLoop> loop, Options options,
                                                 MakeConnection connect) {
  std::shared_ptr<LocalSession> session(new LocalSession(std::move(loop), std::move(options)));
  session->timer_ = LoopTimer::Make(*session->loop_, [weak = session->weak_from_this()] {
    if (const auto self = weak.lock()) self->ExpireCalls();
  });
  session->connection_ =
      connect(session, {session->options_.message_bytes_max, session->options_.blocks,
                        session->options_.sums, session->options_.address, session->options_.pool,
                        std::max(kPartBytes, session->options_.free_bytes_max), session->moved_});
  return session;
}

absl::Status LocalSession::Failure(absl::StatusCode code, absl::string_view method,
                                   absl::string_view why) const {
  return absl::Status(code, absl::StrCat("call of ", method, " at ", options_.address, ": ", why));
}

std::unique_ptr<Call> LocalSession::Start(absl::string_view method, Message request,
                                          absl::Duration timeout, Reply done) {
  const absl::Status fits = CheckSize(request, options_.message_bytes_max);
  // A call that fails at once is added to `calls_` too, so that every call ends through EndCall.
  const uint64_t id = Add(std::string(method), {timeout, request.silence}, std::move(done));
  if (!fits.ok()) {
    EndLater(id, fits);
  } else if (std::min(timeout, request.silence) <= absl::ZeroDuration()) {
    EndLater(id, NoAnswerInTime(method));
  } else if (!AskOrSend(id, method, std::move(request))) {
    EndLater(id, Failure(absl::StatusCode::kUnavailable, method, "the connection ended"));
  }
  return std::make_unique<LocalCall>(weak_from_this(), id);
}

bool LocalSession::AskOrSend(uint64_t id, absl::string_view method, Message request) {
  const size_t bytes = PayloadBytes(request.payload);
  // A payload that travels in a shared block, or that the server reads in place, occupies memory of
  // this process. The server then need not grant room for the payload.
  const bool free = connection_->uses_blocks() ? BytesToCopy(request.payload) <= kWholeBytesMax
                                               : bytes <= options_.free_bytes_max;
  if (free) return Send(id, method, std::move(request));
  ByteBudget::Room unasked = bytes <= kUnaskedBytesMax ? unasked_->TryTake(bytes) : nullptr;
  const bool asks = unasked == nullptr;
  // The request is stored before the server is asked for room, because the server's answer may come
  // at once.
  {
    MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    if (found == calls_.end()) return true;  // the call has ended already
    found->second.unasked = std::move(unasked);
    if (asks) found->second.waits = std::move(request);
  }
  return asks ? Ask(id, method, bytes) : Send(id, method, std::move(request));
}

bool LocalSession::Send(uint64_t id, absl::string_view method, Message request) {
  proto::LocalFrame frame;
  frame.mutable_call()->set_id(id);
  frame.mutable_call()->set_method(std::string(method));
  frame.set_header(std::move(request.header));
  return connection_->Send(std::move(frame), std::move(request.payload));
}

bool LocalSession::Ask(uint64_t id, absl::string_view method, size_t bytes) {
  // The frame names the call's id, so that the server can charge the later request to the room that
  // it has granted.
  proto::LocalFrame frame;
  frame.mutable_ask()->set_id(id);
  frame.mutable_ask()->set_method(std::string(method));
  frame.mutable_ask()->set_bytes(bytes);
  return connection_->Send(std::move(frame), {});
}

void LocalSession::OnRoom(uint64_t id) {
  absl::optional<Message> request;
  std::string method;
  {
    MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    if (found != calls_.end()) {
      std::swap(request, found->second.waits);
      method = found->second.method;
    }
  }
  // The results of Send and Ask are ignored, because OnEnd completes all calls if the connection
  // has ended. An Ask for 0 bytes gives the granted room of a call that has ended back to the
  // server.
  if (request) {
    Send(id, method, *std::move(request));
  } else {
    Ask(id, method, 0);
  }
}

LocalSession::Time LocalSession::OpenCall::EndAfter(Time progress) const {
  if (silence >= timeout) return start + timeout;
  return std::min(start + timeout, std::max(start, progress) + silence);
}

uint64_t LocalSession::Add(std::string method, const Limits& limits, Reply done) {
  OpenCall call;
  call.done = std::move(done);
  call.method = std::move(method);
  call.timeout = absl::ToChronoNanoseconds(BoundedWait(limits.timeout));
  call.silence = absl::ToChronoNanoseconds(BoundedWait(limits.silence));
  call.start = options_.now();
  call.look = call.start + call.timeout;
  if (call.silence < call.timeout) {
    // What an earlier call has left in the system is no progress of this call.
    connection_->CountLeft();
    call.look = std::min(call.look, call.start + call.silence / kLooksPerSilence);
  }
  MutexLock lock(mutex_);
  const uint64_t id = ++last_id_;
  looks_.emplace(call.look, id);
  timer_->FireBy(call.look);
  calls_[id] = std::move(call);
  return id;
}

absl::optional<LocalSession::OpenCall> LocalSession::TakeOut(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = calls_.find(id);
  if (found == calls_.end()) return absl::nullopt;
  OpenCall call = std::move(found->second);
  looks_.erase({call.look, id});
  calls_.erase(found);
  return call;
}

void LocalSession::Complete(OpenCall call, absl::StatusOr<Message> result) {
  // The request's room in the budget `unasked_` is given back before the completion runs, because
  // the completion may start the next call.
  call.unasked.reset();
  call.done(std::move(result));
  bool close = false;
  {
    MutexLock lock(mutex_);
    close = close_when_idle_ && calls_.empty();
  }
  if (close) CloseWhenIdle();
}

void LocalSession::EndCall(uint64_t id, absl::StatusOr<Message> result) {
  absl::optional<OpenCall> ended = TakeOut(id);
  if (ended) Complete(*std::move(ended), std::move(result));
}

// Ends a call from a task of the loop, because a call's completion must not run inside Start or
// Cancel.
void LocalSession::EndLater(uint64_t id, absl::Status status) {
  loop_->Post([self = shared_from_this(), id, status = std::move(status)]() mutable {
    self->EndCall(id, std::move(status));
  });
}

void LocalSession::Cancel(uint64_t id) {
  // The call is taken out of `calls_` first, because Forget may end the connection, and with it all
  // calls that are in `calls_`.
  absl::optional<OpenCall> cancelled = TakeOut(id);
  if (!cancelled) return;
  // Forget releases the memory of a request's payload that is not sent yet, unless the payload
  // travels in parts.
  connection_->Forget(id);
  loop_->Post([self = shared_from_this(), call = *std::move(cancelled)]() mutable {
    self->Complete(std::move(call), absl::CancelledError("the caller cancelled the call"));
  });
}

void LocalSession::ExpireCalls() {
  connection_->CountLeft();
  std::vector<std::pair<uint64_t, std::string>> expired;
  {
    MutexLock lock(mutex_);
    const Time now = options_.now();
    const Time progress = moved_->last();
    auto next = looks_.begin();
    while (next != looks_.end() && next->first <= now) {
      const uint64_t id = next->second;
      OpenCall& call = calls_.at(id);
      const Time end = call.EndAfter(progress);
      if (end <= now) {
        expired.emplace_back(id, call.method);
        ++next;
        continue;
      }
      // The later look is behind `now`, so this loop does not come to it.
      call.look = std::min(end, now + call.silence / kLooksPerSilence);
      next = looks_.erase(next);
      looks_.emplace(call.look, id);
    }
    const auto later = looks_.upper_bound({now, last_id_});
    if (later != looks_.end()) timer_->FireBy(later->first);
  }
  // Completions run outside the lock, because a completion may start another call.
  for (const auto& [id, method] : expired) {
    absl::optional<OpenCall> call = TakeOut(id);
    if (!call) continue;
    connection_->Forget(id);
    Complete(*std::move(call), NoAnswerInTime(method));
  }
}

void LocalSession::OnFrame(proto::LocalFrame frame, Payload payload) {
  if (frame.has_room()) return OnRoom(frame.room().id());
  if (!frame.has_reply()) return;
  const proto::LocalReply& reply = frame.reply();
  // EndCall ignores a reply to a call that has ended, because the call is no longer in `calls_`.
  if (reply.code() != 0) return EndCall(reply.id(), StatusOf(reply));
  Message message{std::move(*frame.mutable_header()), std::move(payload)};
  if (absl::Status fits = CheckSize(message, options_.message_bytes_max); !fits.ok()) {
    return EndCall(reply.id(), std::move(fits));
  }
  EndCall(reply.id(), std::move(message));
}

void LocalSession::OnEnd(const absl::Status& why) {
  std::map<uint64_t, OpenCall> calls;
  {
    MutexLock lock(mutex_);
    calls.swap(calls_);
    looks_.clear();
  }
  timer_->Stop();
  const std::string text = absl::IsUnavailable(why)
                               ? "the connection ended"
                               : absl::StrCat("the connection ended: ", why.message());
  // Every open call fails with the error that ended the connection. Completions run outside the
  // lock, because they may start other calls.
  for (auto& [id, call] : calls) {
    if (options_.tells_malformed && IsMalformed(why)) {
      call.done(why);
      continue;
    }
    call.done(Failure(absl::IsUnimplemented(why) ? why.code() : absl::StatusCode::kUnavailable,
                      call.method, text));
  }
}

void LocalSession::CloseWhenIdle() {
  {
    MutexLock lock(mutex_);
    close_when_idle_ = true;
    if (!calls_.empty()) return;
  }
  timer_->Stop();
  connection_->Close();
}

LocalChannel::~LocalChannel() {
  MutexLock lock(mutex_);
  for (const std::shared_ptr<LocalSession>& session : sessions_) {
    if (session != nullptr) session->CloseWhenIdle();
  }
}

absl::StatusOr<std::shared_ptr<LocalSession>> LocalChannel::OpenSession(StreamKind kind) {
  MutexLock lock(mutex_);
  std::shared_ptr<LocalSession>& session = sessions_[static_cast<size_t>(kind)];
  const bool connects = !options_.name.empty();
  if (connects && (session == nullptr || !session->open())) {
    const bool parts = kind == StreamKind::kParts;
    LocalSession::Options options = options_;
    if (parts) options.name = NameForParts(options.name);
    ASSIGN_OR_RETURN(
        session, LocalSession::Connect(parts ? loops_.parts : loops_.calls, std::move(options)));
  }
  return session;
}

absl::Status LocalChannel::Connect() { return OpenSession(StreamKind::kCalls).status(); }

bool LocalChannel::open() {
  MutexLock lock(mutex_);
  const auto is_open = [](const std::shared_ptr<LocalSession>& session) {
    return session != nullptr && session->open();
  };
  const bool calls = is_open(sessions_[static_cast<size_t>(StreamKind::kCalls)]);
  const bool parts = is_open(sessions_[static_cast<size_t>(StreamKind::kParts)]);
  // If the connection for large payloads is missing, a later call opens it. A channel that was
  // given its connections opens none, so it needs both.
  return calls && (parts || !options_.name.empty());
}

absl::Duration LocalChannel::SinceProgress() const {
  absl::Duration since = absl::InfiniteDuration();
  MutexLock lock(mutex_);
  for (const std::shared_ptr<LocalSession>& session : sessions_) {
    if (session != nullptr) since = std::min(since, session->SinceProgress());
  }
  return since;
}

std::unique_ptr<Call> LocalChannel::Start(absl::string_view method, Message request,
                                          absl::Duration timeout, Reply done) {
  const Payload& payload = request.payload;
  // The server reads lent memory in place, so bytes in lent memory do not make a call large.
  const size_t sent = options_.blocks ? BytesToCopy(payload) : PayloadBytes(payload);
  const size_t bytes = std::max(sent, request.answer_bytes);
  absl::StatusOr<std::shared_ptr<LocalSession>> session =
      OpenSession(bytes > kWholeBytesMax ? StreamKind::kParts : StreamKind::kCalls);
  if (session.ok()) return (*session)->Start(method, std::move(request), timeout, std::move(done));
  loops_.calls->Post(
      [done = std::move(done), failure = session.status()]() mutable { done(std::move(failure)); });
  return std::make_unique<EndedCall>();
}

}  // namespace cohort
