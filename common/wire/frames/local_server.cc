#include "common/wire/frames/local_server.h"

#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/wire/error_detail.h"
#include "common/wire/frames/acceptor.h"
#include "common/wire/frames/frame_session_server.h"
#include "common/wire/frames/local_connection.h"
#include "common/wire/frames/local_socket.h"
#include "common/wire/frames/tcp_socket.h"
#include "common/wire/server_calls.h"

namespace cohort {

namespace {

// Begins to serve a new connection. Runs on the thread of `loop`, which also reads frames, so no
// frame is read before the connection's ServerSession knows the connection.
void Serve(const std::shared_ptr<IoLoop>& loop, UniqueFd socket,
           const std::shared_ptr<ServerCalls>& calls, const std::shared_ptr<FramePeers>& peers,
           const LocalConnection::Options& options) {
  ServeSession(calls, peers, options.message_bytes_max,
               [&](std::shared_ptr<FrameConnection::Owner> session) {
                 return LocalConnection::Start(loop, std::move(socket), std::move(session),
                                               options);
               });
}

// A LocalServer with one loop for small calls and one loop for large payloads.
class FrameServer final : public LocalServer {
 public:
  FrameServer(LocalLoops loops, LocalServerOptions options)
      : loops_(std::move(loops)),
        options_(std::move(options)),
        calls_(std::make_shared<ServerCalls>(options_.services, options_.address)),
        peers_(std::make_shared<FramePeers>()) {}

  void Listen(StreamKind kind, UniqueFd socket) {
    const std::shared_ptr<IoLoop>& loop = LoopOf(kind);
    acceptors_.push_back(Acceptor::Start(
        loop, std::move(socket),
        {AcceptLocal,
         [loop, calls = calls_, peers = peers_, options = ConnectionOptions()](UniqueFd accepted) {
           Serve(loop, std::move(accepted), calls, peers, options);
         }}));
  }

  ~FrameServer() override {
    // Acceptors close first, so that no new connection arrives. Connections close last, so that the
    // errors of stopped calls are still sent.
    for (const std::shared_ptr<Acceptor>& acceptor : acceptors_) acceptor->Close();
    calls_->Stop();
    peers_->CloseAll();
  }

  void Take(UniqueFd socket, StreamKind kind) override {
    LoopOf(kind)->Post([loop = LoopOf(kind), socket = std::move(socket), calls = calls_,
                        peers = peers_, options = ConnectionOptions()]() mutable {
      options.sums = FrameSums::kCrc32c;
      options.peer = TcpPeerOf(socket);
      Serve(loop, std::move(socket), calls, peers, options);
    });
  }

  std::string address() const override { return options_.address; }
  void Drain(absl::Duration grace) override { calls_->Drain(grace); }

 private:
  const std::shared_ptr<IoLoop>& LoopOf(StreamKind kind) const {
    return kind == StreamKind::kParts ? loops_.parts : loops_.calls;
  }
  LocalConnection::Options ConnectionOptions() const {
    LocalConnection::Options options;
    options.message_bytes_max = options_.message_bytes_max;
    options.blocks = options_.blocks;
    options.peer = "a process of this host";
    options.pool = loops_.pool;
    return options;
  }

  const LocalLoops loops_;  // threads and memory, shared with the transport and its channels
  const LocalServerOptions options_;
  // The open calls, shared with the connections and the acceptors.
  const std::shared_ptr<ServerCalls> calls_;
  const std::shared_ptr<FramePeers> peers_;
  // The acceptors of the unix sockets, shared with their loops. Not changed after the server has
  // started.
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
};

}  // namespace

std::string NameForParts(const std::string& name) { return name + "/parts"; }

absl::StatusOr<std::unique_ptr<LocalServer>> StartLocalServer(const LocalLoops& loops,
                                                              LocalServerOptions options) {
  const std::string name = options.name;
  auto server = std::make_unique<FrameServer>(loops, std::move(options));
  // Without a socket name, the server only serves connections that are passed to Take.
  if (name.empty()) return server;
  absl::StatusOr<UniqueFd> calls = ListenLocal(name);
  absl::StatusOr<UniqueFd> parts = ListenLocal(NameForParts(name));
  for (const absl::Status& status : {calls.status(), parts.status()}) {
    if (status.ok()) continue;
    return absl::Status(status.code(), absl::StrCat("cannot listen on ", server->address(), ": ",
                                                    status.message()));
  }
  server->Listen(StreamKind::kCalls, *std::move(calls));
  server->Listen(StreamKind::kParts, *std::move(parts));
  return server;
}

}  // namespace cohort
