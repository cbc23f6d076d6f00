#pragma once

// One connection through a FaultProxy: two sockets and, for each direction, the bytes between them.

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"

namespace cohort {

using ProxyTime = std::chrono::steady_clock::time_point;

// What happens to bytes in one direction.
enum class ProxyFlow {
  kPass,
  kHold,  // nothing arrives until they may pass: a network that loses packets, seen from TCP
  kDrop,  // they are lost; a connection that lost any stays silent in this direction for good
};

struct ProxyRule {
  ProxyFlow flow = ProxyFlow::kPass;
  std::chrono::nanoseconds delay{0};
};
// To the server, to the client.
using ProxyRules = std::array<ProxyRule, 2>;

// Of one direction.
struct ProxyBytes {
  uint64_t passed = 0;
  uint64_t held = 0;  // now, delayed ones too
  uint64_t dropped = 0;
};

// Lives on the proxy's thread.
class ProxyConnection {
 public:
  // `server` is connecting.
  ProxyConnection(UniqueFd client, UniqueFd server);

  // What to wait for, for at most the returned time: two entries are added.
  ProxyTime Watch(const ProxyRules& rules, ProxyTime now, std::vector<pollfd>& watched) const;
  // What happened to the two entries, and what may move besides.
  void Move(const ProxyRules& rules, ProxyTime now, const pollfd* watched);
  // False when nothing can move any more.
  bool IsOpen() const { return open_; }

  // The receiver of the direction reads an end, and what is sent later is lost.
  void HalfClose(size_t direction);
  // Both ends see a reset.
  void Reset();

  const ProxyBytes& bytes(size_t direction) const { return pipes_[direction].bytes; }

 private:
  struct Chunk {
    ProxyTime ready;
    std::string bytes;
  };
  // One direction: from sockets_[i] to the other.
  struct Pipe {
    std::deque<Chunk> chunks;
    ProxyBytes bytes;
    bool damaged = false;  // bytes were dropped
    bool closing = false;  // what is sent is lost from here on, and the receiver told so
    bool ended = false;    // the sender has nothing more
    bool reset = false;    // it ended by a reset
    bool told = false;     // the receiver knows of the end
  };

  void Read(size_t from, const ProxyRule& rule, ProxyTime now);
  void Write(size_t from, const ProxyRule& rule, ProxyTime now);
  void Drop(Pipe& pipe);
  void TellEnd(size_t from, const ProxyRule& rule);

  std::array<UniqueFd, 2> sockets_;  // client, server
  bool connecting_ = true;
  bool open_ = true;
  std::array<Pipe, 2> pipes_;
};

}  // namespace cohort
