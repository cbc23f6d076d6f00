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
#include "common/wire/grpc/grpc_process.h"
#include "common/wire/grpc/grpc_server.h"
#include "common/wire/payload_assembler.h"
#include "common/wire/route/local_only_channel.h"
#include "common/wire/route/shared_port.h"
#include "common/wire/route/tcp_route.h"

namespace cohort {

namespace {

// A server whose port hands connections to `stream` or to `grpc`. Thread-safe.
class AutoServer final : public Server {
 public:
  struct Parts {
    std::unique_ptr<LocalServer> local;   // null where the host gave no socket
    std::unique_ptr<LocalServer> stream;  // null on a port that gRPC has for itself
    std::unique_ptr<GrpcServer> grpc;
  };
  explicit AutoServer(Parts parts) : parts_(std::move(parts)) {}
  ~AutoServer() override {
    if (port_ != nullptr) port_->Close();
  }

  // Opens the port, once, before the server is used.
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
    const absl::Time end = absl::Now() + grace;
    for (Server* const server : std::initializer_list<Server*>{
             parts_.local.get(), parts_.stream.get(), parts_.grpc.get()}) {
      if (server != nullptr) server->Drain(std::max(end - absl::Now(), absl::ZeroDuration()));
    }
  }

 private:
  const Parts parts_;
  std::shared_ptr<SharedPort> port_;  // shared with its loop; it is closed before the others end
};

// Returns the bytes of requests over TCP that go without asking.
size_t FreeBytesMax(Lane lane) {
  return lane == Lane::kFrames ? kFrameBytesMax : kSmallRequestBytesMax;
}

class AutoChannel final : public Channel, public std::enable_shared_from_this<AutoChannel> {
 public:
  struct Options {
    std::string address;
    size_t message_bytes_max = 0;
    bool local = true;  // uses a socket of this host too
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
    // gRPC keeps the memory of a call of its own until the answer.
    if (options_.lane == Lane::kFrames) request.payload = CopyOf(request.payload);
    return ways.grpc->StartAsking(
        method, std::move(request), timeout,
        [weak = weak_from_this()](ServerNames names) {
          if (const auto self = weak.lock()) self->OnNames(std::move(names));
        },
        std::move(done));
  }

 private:
  struct Ways {
    std::shared_ptr<LocalChannel> frames;  // null while there is no connection for frames
    std::shared_ptr<GrpcChannel> grpc;     // null if the others are not
  };
  Ways OpenWays() {
    std::shared_ptr<GrpcChannel> ended;  // dies after the lock
    MutexLock lock(mutex_);
    if (local_ != nullptr && !local_->open()) local_.reset();
    Ways ways;
    ways.frames = local_ != nullptr ? local_ : tcp_->open();
    if (ways.frames != nullptr) {
      // A break of that connection also breaks an idle one beside it, which would only find out
      // when its first call is not answered. So later calls get a new connection.
      ended = std::exchange(grpc_, nullptr);
    } else if (grpc_ == nullptr) {
      grpc_ =
          MakeGrpcChannel({options_.address, Lane::kData, options_.message_bytes_max, loops_.pool});
    }
    ways.grpc = grpc_;
    return ways;
  }

  void OnNames(ServerNames names) {
    if (options_.local && TryLocal(std::move(names.local))) return;
    tcp_->Offer({std::move(names.peer), std::move(names.stream)});
  }

  bool TryLocal(std::string name) {
    MutexLock lock(mutex_);
    if (local_ != nullptr) return true;
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

  const LocalLoops loops_;  // shared with the transport and its servers
  const Options options_;
  const std::shared_ptr<TcpRoute> tcp_;  // shared with what it waits for

  Mutex mutex_;
  // Null while frames have a connection. Shared with a Start under way.
  std::shared_ptr<GrpcChannel> grpc_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<LocalChannel> local_ ABSL_GUARDED_BY(mutex_);  // shared with a Start under way
  std::string refused_ ABSL_GUARDED_BY(mutex_);  // a name that no process of this host has
};

bool IsUnixAddress(const std::string& address) { return absl::StartsWith(address, "unix:"); }

}  // namespace

AutoTransport::AutoTransport() : AutoTransport(Options()) {}
AutoTransport::AutoTransport(Options options)
    : options_(options), loops_(std::make_unique<const LocalLoops>()) {
  SetUpGrpc();
}
AutoTransport::~AutoTransport() = default;

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

// Null where there is none and none has to be.
absl::StatusOr<std::unique_ptr<LocalServer>> AutoTransport::ListenLocally(
    const std::string& address, const std::vector<Service>& services, std::string& name) {
  const bool shared = options_.kind != TransportKind::kUnix;
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
