#include "tests/support/network/sim_transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/method_table.h"
#include "tests/support/network/sim_network_core.h"

namespace cohort {

namespace {

class SimCallHandle final : public Call {
 public:
  explicit SimCallHandle(std::shared_ptr<SimCall> call) : call_(std::move(call)) {}
  void Cancel() override { call_->Finish(absl::CancelledError("the caller cancelled the call")); }

 private:
  const std::shared_ptr<SimCall> call_;  // shared: messages on their way hold it
};

class SimServer final : public Server {
 public:
  SimServer(std::shared_ptr<SimNetwork::Core> core, std::shared_ptr<SimListener> listener)
      : core_(std::move(core)), listener_(std::move(listener)) {}
  ~SimServer() override { core_->StopListening(*listener_); }

  std::string address() const override { return listener_->address; }

  void Drain(absl::Duration grace) override {
    listener_->accepting = false;
    core_->world().RunUntil([this] { return listener_->open.empty(); }, BoundedWait(grace));
  }

 private:
  const std::shared_ptr<SimNetwork::Core> core_;
  const std::shared_ptr<SimListener> listener_;  // shared: replies hold it
};

class SimChannel final : public Channel {
 public:
  SimChannel(std::shared_ptr<SimNetwork::Core> core, std::shared_ptr<SimProcess> process,
             std::string address)
      : core_(std::move(core)), process_(std::move(process)), address_(std::move(address)) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    SimWorld& world = core_->world();
    auto call = std::make_shared<SimCall>(world, process_, std::string(method), std::move(done));
    SimCall::SetTimes(call, timeout, request.silence);
    if (process_->alive) core_->Send(call, address_, std::move(request));
    return std::make_unique<SimCallHandle>(std::move(call));
  }

 private:
  const std::shared_ptr<SimNetwork::Core> core_;
  const std::shared_ptr<SimProcess> process_;
  const std::string address_;
};

class SimTransport final : public Transport {
 public:
  SimTransport(std::shared_ptr<SimNetwork::Core> core, const std::string& host)
      : core_(std::move(core)), process_(core_->Start(host)) {}

  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override {
    auto listener = core_->Listen(process_, address, services);
    if (!listener.ok()) return listener.status();
    return std::make_unique<SimServer>(core_, *std::move(listener));
  }

  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override {
    return std::make_shared<SimChannel>(core_, process_, address);
  }

 private:
  const std::shared_ptr<SimNetwork::Core> core_;
  const std::shared_ptr<SimProcess> process_;  // shared with its calls and servers
};

}  // namespace

SimNetwork::SimNetwork(SimWorld& world) : SimNetwork(world, Options()) {}
SimNetwork::SimNetwork(SimWorld& world, Options options)
    : core_(std::make_shared<Core>(world, options)) {}
SimNetwork::~SimNetwork() { core_->DropCompletions(); }

std::unique_ptr<Transport> SimNetwork::TransportOf(const std::string& host) {
  return std::make_unique<SimTransport>(core_, host);
}

void SimNetwork::SetFaults(const FaultPlan& faults) { core_->SetFaults(faults); }
void SimNetwork::SetRate(double bytes_per_second) { core_->SetRate(bytes_per_second); }
void SimNetwork::SetWatcher(SimWatcher* watcher) { core_->SetWatcher(watcher); }
void SimNetwork::Cut(const std::string& host_a, const std::string& host_b) {
  core_->SetCut(host_a, host_b, true);
  core_->SetCut(host_b, host_a, true);
}
void SimNetwork::CutOneWay(const std::string& from, const std::string& to) {
  core_->SetCut(from, to, true);
}
void SimNetwork::Heal(const std::string& host_a, const std::string& host_b) {
  core_->SetCut(host_a, host_b, false);
  core_->SetCut(host_b, host_a, false);
}
void SimNetwork::HealAll() { core_->HealAll(); }
void SimNetwork::Kill(const std::string& host) { core_->Kill(host); }

}  // namespace cohort
