#include "common/wire/auto_transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/grpc_channel.h"
#include "common/wire/grpc_log.h"
#include "common/wire/grpc_server.h"
#include "common/wire/io_loop.h"
#include "common/wire/local_channel.h"
#include "common/wire/local_only_channel.h"
#include "common/wire/local_server.h"
#include "common/wire/local_socket.h"
#include "common/wire/shared_block.h"

namespace cohort {

namespace {

class AutoServer final : public Server {
 public:
  AutoServer(std::unique_ptr<Server> grpc, std::unique_ptr<Server> local)
      : local_(std::move(local)), grpc_(std::move(grpc)) {}

  std::string address() const override { return grpc_->address(); }

  void Drain(absl::Duration grace) override {
    const absl::Time end = absl::Now() + grace;
    if (local_ != nullptr) local_->Drain(grace);
    grpc_->Drain(std::max(end - absl::Now(), absl::ZeroDuration()));
  }

 private:
  const std::unique_ptr<Server> local_;  // null where the host gave no socket
  const std::unique_ptr<Server> grpc_;
};

class AutoChannel final : public Channel, public std::enable_shared_from_this<AutoChannel> {
 public:
  AutoChannel(LocalLoops loops, std::string address, size_t message_bytes_max)
      : loops_(std::move(loops)),
        address_(std::move(address)),
        message_bytes_max_(message_bytes_max),
        grpc_(MakeGrpcChannel({address_, Lane::kData, message_bytes_max})) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    if (const std::shared_ptr<LocalChannel> local = OpenLocal()) {
      return local->Start(method, std::move(request), timeout, std::move(done));
    }
    return grpc_->StartAsking(
        method, std::move(request), timeout,
        [weak = weak_from_this()](std::string name) {
          if (const auto self = weak.lock()) self->TryLocal(std::move(name));
        },
        std::move(done));
  }

 private:
  std::shared_ptr<LocalChannel> OpenLocal() {
    MutexLock lock(mutex_);
    if (local_ != nullptr && !local_->open()) local_.reset();
    return local_;
  }

  void TryLocal(std::string name) {
    MutexLock lock(mutex_);
    if (local_ != nullptr || name == refused_) return;
    auto local = std::make_shared<LocalChannel>(
        loops_, LocalSession::Options{name, address_, message_bytes_max_});
    const absl::Status connected = local->Connect();
    Log(LogLevel::kDebug, "local_connection",
        {{"address", address_}, {"result", connected.ToString()}});
    if (connected.ok()) {
      local_ = std::move(local);
    } else {
      refused_ = std::move(name);
    }
  }

  const LocalLoops loops_;  // shared with the transport and its servers
  const std::string address_;
  const size_t message_bytes_max_;
  const std::shared_ptr<GrpcChannel> grpc_;

  Mutex mutex_;
  std::shared_ptr<LocalChannel> local_ ABSL_GUARDED_BY(mutex_);  // shared with a Start under way
  std::string refused_ ABSL_GUARDED_BY(mutex_);  // a name that no process of this host has
};

}  // namespace

AutoTransport::AutoTransport() : AutoTransport(Options()) {}
AutoTransport::AutoTransport(Options options)
    : options_(options), loops_(std::make_unique<const LocalLoops>()) {
  TakeGrpcLog();
}
AutoTransport::~AutoTransport() = default;

absl::StatusOr<std::unique_ptr<Server>> AutoTransport::Listen(const std::string& address,
                                                              std::vector<Service> services) {
  const bool shared = options_.kind != TransportKind::kUnix;
  const std::string name =
      absl::StrCat(shared ? kSharedNamePrefix : kSocketNamePrefix, NewSocketNumber());
  absl::StatusOr<std::unique_ptr<Server>> local = ListenLocally(name, address, services);
  if (!local.ok()) {
    if (options_.kind != TransportKind::kAuto) return local.status();
    Log(LogLevel::kWarning, "no_local_socket", {{"error", local.status().message()}});
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Server> grpc,
                   StartGrpcServer({address, std::move(services), options_.message_bytes_max,
                                    local.ok() ? name : std::string()}));
  return std::make_unique<AutoServer>(std::move(grpc), local.ok() ? *std::move(local) : nullptr);
}

absl::StatusOr<std::unique_ptr<Server>> AutoTransport::ListenLocally(
    const std::string& name, const std::string& address, const std::vector<Service>& services) {
  if (options_.kind == TransportKind::kShm) {
    RETURN_IF_ERROR(MakeSharedBlock(1).status());
  }
  return StartLocalServer(*loops_, {name, address, services, options_.message_bytes_max,
                                  options_.kind != TransportKind::kUnix});
}

std::shared_ptr<Channel> AutoTransport::Connect(const std::string& address, Lane lane) {
  if (lane == Lane::kControl) {
    return MakeGrpcChannel({address, lane, options_.message_bytes_max});
  }
  if (options_.kind != TransportKind::kAuto) {
    return std::make_shared<LocalOnlyChannel>(
        *loops_, LocalOnlyChannel::Options{options_.kind, address, options_.message_bytes_max},
        MakeGrpcChannel({address, Lane::kControl, options_.message_bytes_max}));
  }
  return std::make_shared<AutoChannel>(*loops_, address, options_.message_bytes_max);
}

}  // namespace cohort
