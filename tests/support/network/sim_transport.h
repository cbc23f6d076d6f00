#pragma once

// A simulated network. Hosts are names ("worker:1"); each has a Transport, and listens at addresses
// of its own. A call is a request message and a response message, each a frame that is really
// encoded, travels for a time drawn from the seed, and is really decoded from pieces cut at random.
// Messages of one link may overtake each other, as calls of one gRPC connection may. A large one
// goes in parts, each an event of its own, and is put together as on the real transports; between
// any two of them the stream may be cut, and then the message is lost. A large request to a service
// with a receive budget asks for room first, which is a message each way, and loses its room where
// it is lost itself.
//
// Faults: a lost message makes the caller see UNAVAILABLE some time later, or nothing before its
// deadline, if it has one; which of the two is drawn. A request may be lost before its handler ran,
// or its response after. A killed host neither sends nor receives any more, whatever its objects do
// until the test destroys them; a new Transport under its name is the restarted process. A watcher
// sees every message and decides its fate; it may kill a host before a request is handled, or after
// its effect and before the response.
//
// The bytes of a payload are checked to be the same at arrival as at sending, which catches a
// sender that writes memory that it has given away.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"
#include "tests/support/world/sim_world.h"

namespace cohort {

// Probabilities are per message.
struct FaultPlan {
  double lose_request = 0;
  double lose_response = 0;
  double duplicate_request = 0;  // the handler runs twice; one answer is heard
  double delay = 0;              // travels up to delay_max
  absl::Duration delay_max = absl::Seconds(5);
  double cut_stream = 0;  // per part of a message but its last: no later one comes
  double flip_bit = 0;    // one bit of it comes changed
};

// A message as a watcher sees it. Hosts are names; `to` is empty where nobody listens.
struct SimMessage {
  absl::string_view method;
  const std::string& from;
  const std::string& to;
  const std::string& request;                         // header, also of a response
  const absl::StatusOr<Message>* response = nullptr;  // of a response
};

struct SimFate {
  bool lose = false;
  // Of what is lost: its connection breaks within so long. Not set: whether and when is drawn.
  std::optional<absl::Duration> breaks_within;
  int copies = 1;  // of a request
  absl::Duration delay;
  absl::Duration copy_delay;  // of all copies but the first, on top
};

// Lives on the world's thread. May call SimNetwork::Kill and Cut.
class SimWatcher {
 public:
  virtual ~SimWatcher() = default;
  virtual SimFate OnRequest(const SimMessage& message) = 0;   // it is sent
  virtual void OnArrival(const SimMessage& message) = 0;      // its handler is about to run
  virtual SimFate OnResponse(const SimMessage& message) = 0;  // the handler has answered
};

// Lives on the thread that steps the world.
class SimNetwork {
 public:
  struct Options {
    size_t message_bytes_max = kMessageBytesMax;
    size_t whole_bytes_max = kWholeBytesMax;  // a larger frame goes in parts
    size_t part_bytes = kPartBytes;
    size_t unasked_bytes_max = kUnaskedBytesMax;  // a larger payload waits for room
    absl::Duration latency_min = absl::Microseconds(20);
    absl::Duration latency_max = absl::Milliseconds(2);
    double bytes_per_second = 1e9;
    // A broken connection is noticed within this (the real transport: keepalive).
    absl::Duration detection_max = absl::Seconds(30);
  };

  // The world outlives the network and all that came from it.
  explicit SimNetwork(SimWorld& world);
  SimNetwork(SimWorld& world, Options options);
  ~SimNetwork();

  // The transport of a process start on `host`. "host:0" listens at a free port; any other address
  // is taken as it is.
  std::unique_ptr<Transport> TransportOf(const std::string& host);

  void SetFaults(const FaultPlan& faults);
  // Sets the rate of every link from now on. Messages over kProgressBytes then go in parts.
  void SetRate(double bytes_per_second);
  // Outlives the network or is taken back with nullptr.
  void SetWatcher(SimWatcher* watcher);
  // Messages between the two are lost, also those on their way.
  void Cut(const std::string& host_a, const std::string& host_b);
  void CutOneWay(const std::string& from, const std::string& to);
  void Heal(const std::string& host_a, const std::string& host_b);
  void HealAll();
  // Every process start on `host` so far is dead. Callers with open calls see UNAVAILABLE soon.
  void Kill(const std::string& host);

  class Core;  // internal

 private:
  const std::shared_ptr<Core> core_;  // shared: messages on their way hold it
};

}  // namespace cohort
