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

// A server whose port passes each connection to the server `stream` or to the server `grpc`.
// Thread-safe.
class AutoServer final : public Server {
 public:
  struct Parts {
    // The server on the unix socket; null if there is no such socket.
    std::unique_ptr<LocalServer> local;
    // The server for frames over TCP; null if the server's address is a unix socket, where gRPC
    // listens itself.
    std::unique_ptr<LocalServer> stream;
    std::unique_ptr<GrpcServer> grpc;
  };
  explicit AutoServer(Parts parts) : parts_(std::move(parts)) {}
  // The port passes connections to the servers in parts_, so the port closes before they are
  // destroyed.
  ~AutoServer() override {
    if (port_ != nullptr) port_->Close();
  }

  // Opens the server's port. Runs once, before the server is used.
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
  // The server's port, shared with the loop. Closed before the servers in parts_ are destroyed.
  std::shared_ptr<SharedPort> port_;
};

// Returns the size of the largest request that is sent over TCP without asking the server for room.
size_t FreeBytesMax(Lane lane) {
  return lane == Lane::kFrames ? kFrameBytesMax : kSmallRequestBytesMax;
}

// A channel for kData or kFrames, which sends each call over the best connection that is open: unix
// socket, TCP with frames, or gRPC. Thread-safe.
class AutoChannel final : public Channel, public std::enable_shared_from_this<AutoChannel> {
 public:
  struct Options {
    std::string address;
    size_t message_bytes_max = 0;
    bool local = true;  // true: use the server's unix socket if there is one on this host
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
    // The channel over a unix socket or TCP; null while neither has a connection.
    std::shared_ptr<LocalChannel> frames;
    // The channel over gRPC if `frames` is null, else null.
    std::shared_ptr<GrpcChannel> grpc;
  };
  // Returns the channel for the next call. Opens a gRPC channel if neither a unix socket nor TCP
  // has a connection.
  Ways OpenWays() {
    std::shared_ptr<GrpcChannel> ended;  // the gRPC channel dies after the lock is released
    MutexLock lock(mutex_);
    if (local_ != nullptr && !local_->open()) local_.reset();
    Ways ways;
    ways.frames = local_ != nullptr ? local_ : tcp_->open();
    if (ways.frames != nullptr) {
      // The idle gRPC connection is closed while another connection carries the calls. Whatever
      // breaks that connection would also break the idle one, and the break would be noticed only
      // when a call gets no answer. So calls after the break get a new gRPC connection.
      ended = std::exchange(grpc_, nullptr);
    } else if (grpc_ == nullptr) {
      grpc_ = MakeGrpcChannel(
          {options_.address, options_.lane, options_.message_bytes_max, loops_.pool});
    }
    ways.grpc = grpc_;
    return ways;
  }

  // Connects to the server's unix socket, which is faster than TCP. If that fails, begins to
  // connect over TCP.
  void OnNames(ServerNames names) {
    if (options_.local && TryLocal(std::move(names.local))) return;
    tcp_->Offer({std::move(names.peer), std::move(names.stream)});
  }

  // Connects to the unix socket `name`. Returns false if the socket cannot be reached.
  bool TryLocal(std::string name) {
    MutexLock lock(mutex_);
    if (local_ != nullptr) return true;
    // A name with which connecting has failed is not tried again; a restarted server has a new
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
  // The connections over TCP. Shared with the attempts to open them (dials).
  const std::shared_ptr<TcpRoute> tcp_;

  mutable Mutex mutex_;
  // The gRPC channel; null while frames have a connection. Shared with a call that is being
  // started.
  std::shared_ptr<GrpcChannel> grpc_ ABSL_GUARDED_BY(mutex_);
  // The channel over the unix socket. Shared with a call that is being started.
  std::shared_ptr<LocalChannel> local_ ABSL_GUARDED_BY(mutex_);
  // The name of the last unix socket with which connecting failed.
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

// Opens the unix socket, the port, and the two servers behind the port: one for gRPC and one for
// frames.
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
    // AutoTransport has opened the port itself, so the gRPC server gets its connections through
    // Take.
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

// Opens the server's unix socket and stores its name in `name`. Returns null if the host gives no
// socket and the kind is kAuto, which can do without one.
absl::StatusOr<std::unique_ptr<LocalServer>> AutoTransport::ListenLocally(
    const std::string& address, const std::vector<Service>& services, std::string& name) {
  const bool shared = options_.kind != TransportKind::kUnix;
  // A server of kind kShm fails now if the system gives no shared memory.
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
    // Channels for kControl stay on gRPC, because heartbeats must not depend on the faster
    // connections.
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
