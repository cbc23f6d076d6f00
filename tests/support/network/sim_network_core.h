#pragma once

// What the simulated network knows: who is alive, who listens, which links are cut. Internal to
// common/wire.

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "common/wire/method_table.h"
#include "common/wire/payload_assembler.h"
#include "tests/support/network/sim_transport.h"

namespace cohort {

class SimCall;

// One process start on a host.
struct SimProcess {
  std::string host;
  bool alive = true;
  std::set<SimCall*> waiting;  // calls that it has begun and not heard of; the order is unused
};

// One call, from Start to its completion. Lives on the world's thread.
class SimCall {
 public:
  SimCall(SimWorld& world, std::shared_ptr<SimProcess> caller, std::string method, Reply done)
      : world_(world),
        caller_(std::move(caller)),
        method_(std::move(method)),
        done_(std::move(done)) {
    caller_->waiting.insert(this);
  }
  ~SimCall() { caller_->waiting.erase(this); }
  SimCall(const SimCall&) = delete;
  SimCall& operator=(const SimCall&) = delete;

  const std::string& method() const { return method_; }
  const SimProcess& caller() const { return *caller_; }
  bool finished() const { return done_ == nullptr; }
  // Sets the timer of a call that starts now: the first of time-out and silence ends it.
  static void SetTimes(const std::shared_ptr<SimCall>& call, absl::Duration timeout,
                       absl::Duration silence);
  // Notes that bytes of one of its messages have moved (moved_bytes.h).
  static void Moved(const std::shared_ptr<SimCall>& call, size_t bytes);
  // No deadline ends it: what is lost of it shows as a broken connection.
  bool endless() const { return endless_; }
  // The first end counts. The completion is an event of its own; a dead caller hears nothing.
  void Finish(absl::StatusOr<Message> result);
  // What would be told the end of the call, which never comes.
  Reply TakeCompletion() { return std::exchange(done_, nullptr); }

 private:
  SimWorld& world_;
  const std::shared_ptr<SimProcess> caller_;
  const std::string method_;
  Reply done_;
  static void SetTimer(const std::shared_ptr<SimCall>& call);

  TimerId timer_;
  absl::Time end_;  // of the time-out
  absl::Duration silence_;
  size_t moved_ = 0;  // bytes since the last progress
  bool endless_ = false;
};

// What listens at one address. Lives on the world's thread.
struct SimListener {
  SimListener(std::string address_in, std::shared_ptr<SimProcess> process_in,
              const std::vector<Service>& services)
      : address(std::move(address_in)), process(std::move(process_in)), methods(services) {}

  const std::string address;
  const std::shared_ptr<SimProcess> process;
  const MethodTable methods;
  bool accepting = true;
  std::map<uint64_t, std::shared_ptr<SimCall>> open;  // arrived and not answered
  uint64_t last_id = 0;
};

// Lives on the world's thread.
class SimNetwork::Core : public std::enable_shared_from_this<SimNetwork::Core> {
 public:
  Core(SimWorld& world, Options options) : world_(world), options_(options) {}

  SimWorld& world() { return world_; }
  size_t message_bytes_max() const { return options_.message_bytes_max; }
  size_t FrameBytesMax() const { return options_.message_bytes_max + 64; }

  std::shared_ptr<SimProcess> Start(const std::string& host);
  absl::StatusOr<std::shared_ptr<SimListener>> Listen(const std::shared_ptr<SimProcess>& process,
                                                      std::string address,
                                                      const std::vector<Service>& services);
  void StopListening(SimListener& listener);
  void Send(const std::shared_ptr<SimCall>& call, const std::string& address, Message request);

  void SetFaults(const FaultPlan& faults) { faults_ = faults; }
  void SetRate(double bytes_per_second);
  void SetWatcher(SimWatcher* watcher) { watcher_ = watcher; }
  void SetCut(const std::string& from, const std::string& to, bool cut);
  void HealAll() { cut_.clear(); }
  void Kill(const std::string& host);
  // Completions that have not run go. Who waits for them often owns the call that keeps them: in
  // a process that is dead, or whose world has ended, that would last for ever.
  void DropCompletions();

 private:
  // A frame on its way.
  struct Packet {
    Payload frame;
    uint32_t crc = 0;  // of the bytes at sending
  };

  // A packet that travels in parts.
  struct Stream {
    std::shared_ptr<SimCall> call;
    absl::string_view what;                // "request" or "response"
    absl::AnyInvocable<bool()> connected;  // asked when a part arrives
    Packet packet;
    PayloadAssembler parts;  // those that have arrived
    absl::AnyInvocable<void(Packet, ByteBudget::Room)> arrive;
    size_t sent = 0;
    ByteBudget::Room room = nullptr;  // of a request, at its receiver
  };

  // Sends a request when its receiver has room for its payload of so many bytes.
  void AskAndTravel(const std::string& address, size_t payload_bytes, Stream stream,
                    absl::Duration first);
  void AskArrives(const std::string& address, size_t payload_bytes,
                  const std::shared_ptr<Stream>& stream);
  // `stream.arrive` runs when all of the packet has come, after `first`.
  void Travel(Stream stream, absl::Duration first);
  void NextPart(const std::shared_ptr<Stream>& stream);
  absl::StatusOr<Packet> Pack(Message message);
  absl::StatusOr<Message> Unpack(const Packet& packet);
  absl::Duration TravelTime(size_t bytes);
  bool Draw(double probability);
  bool IsCut(const std::string& from, const std::string& to) const;
  std::string HostAt(const std::string& address) const;  // empty: nobody listens
  void FailLater(const std::shared_ptr<SimCall>& call, std::string why, absl::Duration limit);
  void Lose(const std::shared_ptr<SimCall>& call, absl::string_view what,
            std::optional<absl::Duration> breaks_within = std::nullopt);
  void RequestArrives(const std::shared_ptr<SimCall>& call, const std::string& address,
                      const Packet& packet, ByteBudget::Room room);
  void Respond(const std::shared_ptr<SimListener>& listener, const std::shared_ptr<SimCall>& call,
               const std::string& request, absl::StatusOr<Message> result);
  void ResponseArrives(const std::shared_ptr<SimListener>& listener,
                       const std::shared_ptr<SimCall>& call, const absl::StatusOr<Packet>& packet);
  void TraceMessage(absl::string_view kind, const SimCall& call, absl::string_view address,
                    const Message& message);

  SimWorld& world_;
  Options options_;
  const std::shared_ptr<ReceivePool> pool_ = std::make_shared<ReceivePool>();
  FaultPlan faults_;
  std::map<std::string, std::vector<std::shared_ptr<SimProcess>>> processes_;  // alive, by host
  std::vector<std::shared_ptr<SimProcess>> dead_;
  std::map<std::string, std::shared_ptr<SimListener>> listeners_;  // by address
  std::set<std::pair<std::string, std::string>> cut_;              // from, to
  SimWatcher* watcher_ = nullptr;
  int last_port_ = 0;
};

}  // namespace cohort
