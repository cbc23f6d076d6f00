#include "common/wire/route/auto_transport.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_channel.h"
#include "common/wire/frames/local_server.h"
#include "common/wire/frames/local_socket.h"
#include "common/wire/frames/shared_block.h"
#include "common/wire/frames/shared_memory.h"
#include "common/wire/frames/tcp_socket.h"
#include "common/wire/grpc/grpc_channel.h"
#include "common/wire/grpc/grpc_server.h"
#include "common/wire/grpc/grpc_settings.h"
#include "common/wire/route/local_only_channel.h"
#include "common/wire/route/shared_port.h"
#include "common/wire/route/tcp_route.h"

namespace cohort {

namespace {

// A server whose port passes connections to `stream` or to `grpc`. Thread-safe.
class AutoServer final : public Server {
 public:
  struct Parts {
    std::unique_ptr<LocalServer> local;  // serves the unix socket; null if the host gave no socket
    // Serves frames over TCP; null if gRPC has the port for itself.
    std::unique_ptr<LocalServer> stream;
    std::unique_ptr<GrpcServer> grpc;
  };
  explicit AutoServer(Parts parts) : parts_(std::move(parts)) {}
  // The port passes connections to the servers in parts_, so the port closes first.
  ~AutoServer() override {
    if (port_ != nullptr) port_->Close();
  }

  // Opens the port. Runs once, before the server is used.
  void Open(const std::shared_ptr<IoLoop>& loop, TcpListeners listeners, std::string name) {
    port_ = SharedPort::Start(
        loop, std::move(listeners),
        {std::move(name),
         [this](UniqueFd socket, StreamKind kind) { parts_.stream->Take(std::move(socket), kind); },
         [this](UniqueFd socket, const std::string& first_bytes) {
           parts_.grpc->Take(std::move(socket), first_bytes);
         }});
  }

  std::string address() const override { return parts_.grpc->address(); }

  void Drain(absl::Duration grace) override {
    // The three servers share one grace period, which starts now.
    const absl::Time end = absl::Now() + grace;
    for (Server* const server : std::initializer_list<Server*>{
             parts_.local.get(), parts_.stream.get(), parts_.grpc.get()}) {
      if (server != nullptr) server->Drain(std::max(end - absl::Now(), absl::ZeroDuration()));
    }
  }

 private:
  const Parts parts_;
  // The server's port, shared with its loop; closed before the servers end.
  std::shared_ptr<SharedPort> port_;
};

// Returns the size up to which a request over TCP is sent without asking the server for room.
size_t FreeBytesMax(Lane lane) {
  return lane == Lane::kFrames ? kFrameBytesMax : kSmallRequestBytesMax;
}

// A channel of a data lane, which sends each call over the best open connection: unix socket,
// frames over TCP, or gRPC. Thread-safe.
class AutoChannel final : public Channel, public std::enable_shared_from_this<AutoChannel> {
 public:
  struct Options {
    std::string address;
    size_t message_bytes_max = 0;
    bool local = true;  // whether to use a unix socket of this host too
    Lane lane = Lane::kData;
  };
  AutoChannel(LocalLoops loops, Options options)
      : loops_(std::move(loops)),
        options_(std::move(options)),
        tcp_(std::make_shared<TcpRoute>(
            loops_, TcpRoute::Options{options_.address, options_.message_bytes_max,
                                      FreeBytesMax(options_.lane)})) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    const Ways ways = OpenWays();
    if (const auto& open = ways.frames; open != nullptr) {
      return open->Start(method, std::move(request), timeout, std::move(done));
    }
    return ways.grpc->StartAsking(
        method, std::move(request), timeout,
        [weak = weak_from_this()](ServerNames names) {
          if (const auto self = weak.lock()) self->OnNames(std::move(names));
        },
        std::move(done));
  }

  absl::Duration SinceProgress() const override {
    const std::shared_ptr<LocalChannel> tcp = tcp_->open();
    absl::Duration since = tcp != nullptr ? tcp->SinceProgress() : absl::InfiniteDuration();
    MutexLock lock(mutex_);
    if (local_ != nullptr) since = std::min(since, local_->SinceProgress());
    if (grpc_ != nullptr) since = std::min(since, grpc_->SinceProgress());
    return since;
  }

 private:
  struct Ways {
    std::shared_ptr<LocalChannel> frames;  // null while there is no connection for frames
    std::shared_ptr<GrpcChannel> grpc;  // the channel for calls while `frames` is null, else null
  };
  // Returns the channel for the next call. Opens a gRPC channel if there is no connection for
  // frames.
  Ways OpenWays() {
    std::shared_ptr<GrpcChannel> ended;  // the gRPC channel dies after the lock is released
    MutexLock lock(mutex_);
    if (local_ != nullptr && !local_->open()) local_.reset();
    Ways ways;
    ways.frames = local_ != nullptr ? local_ : tcp_->open();
    if (ways.frames != nullptr) {
      // While frames have a connection, the idle gRPC connection is closed. A break of the frames'
      // connection would also break the idle connection, which would only be noticed when a call
      // gets no answer. So calls after the break get a new gRPC connection.
      ended = std::exchange(grpc_, nullptr);
    } else if (grpc_ == nullptr) {
      grpc_ = MakeGrpcChannel(
          {options_.address, options_.lane, options_.message_bytes_max, loops_.pool});
    }
    ways.grpc = grpc_;
    return ways;
  }

  // Tries to connect to the server's local socket, which is faster than TCP, and over TCP only if
  // the local socket fails.
  void OnNames(ServerNames names) {
    if (options_.local && TryLocal(std::move(names.local))) return;
    tcp_->Offer({std::move(names.peer), std::move(names.stream)});
  }

  // Connects to the server's local socket. Returns false if connecting is not possible.
  bool TryLocal(std::string name) {
    MutexLock lock(mutex_);
    if (local_ != nullptr) return true;
    // A socket name with which connecting failed is not tried again; a restarted server has a new
    // name.
    if (name.empty() || name == refused_) return false;
    auto local = std::make_shared<LocalChannel>(
        loops_, LocalSession::Options{name, options_.address, options_.message_bytes_max});
    const absl::Status connected = local->Connect();
    Log(LogLevel::kDebug, "local_connection",
        {{"address", options_.address}, {"result", connected.ToString()}});
    if (connected.ok()) {
      local_ = std::move(local);
    } else {
      refused_ = std::move(name);
    }
    return connected.ok();
  }

  const LocalLoops loops_;  // threads and memory, shared with the transport and its servers
  const Options options_;
  // The connections over TCP, shared with the attempts to open them (dials).
  const std::shared_ptr<TcpRoute> tcp_;

  mutable Mutex mutex_;
  // The gRPC channel; null while frames have a connection. Shared with a call that is being
  // started.
  std::shared_ptr<GrpcChannel> grpc_ ABSL_GUARDED_BY(mutex_);
  // The channel over the local socket. Shared with a call that is being started.
  std::shared_ptr<LocalChannel> local_ ABSL_GUARDED_BY(mutex_);
  // The last socket name that no process of this host had.
  std::string refused_ ABSL_GUARDED_BY(mutex_);
};

bool IsUnixAddress(const std::string& address) { return absl::StartsWith(address, "unix:"); }

}  // namespace

AutoTransport::AutoTransport() : AutoTransport(Options()) {}
AutoTransport::AutoTransport(Options options)
    : options_(options), loops_(std::make_unique<const LocalLoops>()) {
  SetUpGrpc();
}
AutoTransport::~AutoTransport() = default;

// Opens the local socket, the port, and the servers of both protocols behind the port.
absl::StatusOr<std::unique_ptr<Server>> AutoTransport::Listen(const std::string& address,
                                                              std::vector<Service> services) {
  AutoServer::Parts parts;
  GrpcServerOptions grpc;
  grpc.address = address;
  grpc.services = services;
  grpc.message_bytes_max = options_.message_bytes_max;
  if (options_.kind != TransportKind::kTcp) {
    ASSIGN_OR_RETURN(parts.local, ListenLocally(address, services, grpc.local_name));
  }
  TcpListeners listeners;
  if (!IsUnixAddress(address)) {
    ASSIGN_OR_RETURN(listeners, ListenTcp(address));
    // AutoTransport has opened the port itself, so gRPC gets its connections through Take.
    grpc.address = absl::StrCat(address.substr(0, address.rfind(':')), ":", listeners.port);
    grpc.stream_name = NewSocketNumber();
    grpc.listens = false;
    ASSIGN_OR_RETURN(parts.stream,
                     StartLocalServer(*loops_, {"", grpc.address, std::move(services),
                                                options_.message_bytes_max, /*blocks=*/false}));
  }
  std::string name = grpc.stream_name;
  ASSIGN_OR_RETURN(parts.grpc, StartGrpcServer(std::move(grpc)));
  auto server = std::make_unique<AutoServer>(std::move(parts));
  if (!name.empty()) server->Open(loops_->calls, std::move(listeners), std::move(name));
  return server;
}

// Opens the local socket and sets its name. Returns null if the host gives no socket and kind kAuto
// can do without one.
absl::StatusOr<std::unique_ptr<LocalServer>> AutoTransport::ListenLocally(
    const std::string& address, const std::vector<Service>& services, std::string& name) {
  const bool shared = options_.kind != TransportKind::kUnix;
  // kShm fails early if the system gives no shared memory.
  if (options_.kind == TransportKind::kShm) RETURN_IF_ERROR(MakeSharedBlock(1).status());
  const std::string own =
      absl::StrCat(shared ? kSharedNamePrefix : kSocketNamePrefix, NewSocketNumber());
  auto local = StartLocalServer(
      *loops_, {own, address, services, options_.message_bytes_max, /*blocks=*/shared});
  if (local.ok()) {
    name = own;
    return local;
  }
  if (options_.kind != TransportKind::kAuto) return local.status();
  Log(LogLevel::kWarning, "no_local_socket", {{"error", local.status().message()}});
  return std::unique_ptr<LocalServer>();
}

std::shared_ptr<Channel> AutoTransport::Connect(const std::string& address, Lane lane) {
  if (lane == Lane::kControl) {
    // The control lane stays on gRPC: heartbeats must not depend on the faster connections.
    return MakeGrpcChannel({address, lane, options_.message_bytes_max});
  }
  if (options_.kind == TransportKind::kUnix || options_.kind == TransportKind::kShm) {
    return std::make_shared<LocalOnlyChannel>(
        *loops_, LocalOnlyChannel::Options{options_.kind, address, options_.message_bytes_max},
        MakeGrpcChannel({address, Lane::kControl, options_.message_bytes_max}));
  }
  return std::make_shared<AutoChannel>(
      *loops_, AutoChannel::Options{address, options_.message_bytes_max,
                                    /*local=*/options_.kind == TransportKind::kAuto, lane});
}

AllocateBuffer AutoTransport::MemoryToSend() const {
  if (options_.kind == TransportKind::kUnix) return Buffer::Allocate;
  return SharedMemoryMaker();
}

}  // namespace cohort
