#include "worker/collective/shm/shm_rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/frames/local_socket.h"

namespace cohort {

namespace {

using Time = std::chrono::steady_clock::time_point;

// The number at the begin of each hello message, by which rank 0 tells a rank from any other
// program that connects to the socket.
constexpr uint64_t kMagic = 0x31'6d68'7374'7263;
// The bytes that name the kinds of messages from rank 0.
constexpr char kMemory = 'm';
constexpr char kLife = 'l';
constexpr char kGo = 'g';
constexpr absl::Duration kRetry = absl::Milliseconds(20);

struct Hello {
  uint64_t magic = kMagic;
  int32_t rank = 0;
  int32_t size = 0;
  uint64_t generation = 0;
};
using Nonce = decltype(ShmHeader::nonce);

// Waits for sockets until a deadline, or until `stop` is readable. Thread-compatible.
class Patience {
 public:
  Patience(absl::Duration timeout, const UniqueFd& stop)
      : end_(std::chrono::steady_clock::now() +
             absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(1)))),
        stop_(stop) {}

  // Waits until `fd` is ready for `events` or `at_most` has passed; with an `fd` of -1, for the
  // time only. Errors: CANCELLED if `stop` is readable, DEADLINE_EXCEEDED after the deadline.
  absl::Status Wait(int fd, short events, absl::Duration at_most) const {
    const Time now = std::chrono::steady_clock::now();
    if (now >= end_) {
      return absl::DeadlineExceededError("the ranks of this host did not meet in time");
    }
    const absl::Duration left = std::min(absl::FromChrono(end_ - now), at_most);
    pollfd waits[] = {{stop_.get(), POLLIN, 0}, {fd, events, 0}};
    poll(waits, 2, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (waits[0].revents != 0) return absl::CancelledError("the group is given up");
    return absl::OkStatus();
  }
  absl::Status WaitFor(const UniqueFd& fd, short events) const {
    return Wait(fd.get(), events, absl::InfiniteDuration());
  }

 private:
  const Time end_;
  const UniqueFd& stop_;
};

// Sends one message of this rank, with the descriptor `passed_fd` unless it is -1. Errors: those of
// the socket and of `patience`.
absl::Status SendAll(const ShmRendezvous& options, const UniqueFd& socket,
                     absl::Span<const char> bytes, int passed_fd, const Patience& patience) {
  if (options.before_message) options.before_message();
  while (!bytes.empty()) {
    ASSIGN_OR_RETURN(const size_t sent, SendSome(socket, bytes, passed_fd));
    // The descriptor travels with the first bytes only.
    if (sent > 0) passed_fd = -1;
    bytes.remove_prefix(sent);
    if (!bytes.empty()) RETURN_IF_ERROR(patience.WaitFor(socket, POLLOUT));
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(const UniqueFd& socket, void* data, size_t size,
                        std::vector<UniqueFd>& passed, const Patience& patience) {
  absl::Span<char> bytes(static_cast<char*>(data), size);
  while (!bytes.empty()) {
    ASSIGN_OR_RETURN(const size_t received, ReceiveSome(socket, bytes, passed));
    bytes.remove_prefix(received);
    if (!bytes.empty()) RETURN_IF_ERROR(patience.WaitFor(socket, POLLIN));
  }
  return absl::OkStatus();
}

// Receives a message that is the byte `kind` and a descriptor, and returns the descriptor. Errors:
// INTERNAL for another message; those of the socket and of `patience`.
absl::StatusOr<UniqueFd> ReceivePassed(const UniqueFd& socket, char kind,
                                       const Patience& patience) {
  char byte = 0;
  std::vector<UniqueFd> passed;
  RETURN_IF_ERROR(ReceiveAll(socket, &byte, 1, passed, patience));
  if (byte != kind || passed.size() != 1) {
    return absl::InternalError("rank 0 of this host shares something else than it should");
  }
  return std::move(passed[0]);
}

// The pipe that shows the life of a rank: its reading end hangs up when the rank's process ends.
struct Life {
  UniqueFd reading;
  UniqueFd writing;
};

absl::StatusOr<Life> NewLife() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "a pipe for the ranks of this host");
  return Life{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Rank 0 in the rendezvous. Thread-compatible.
class Host {
 public:
  Host(const ShmRendezvous& options, const Patience& patience)
      : options_(options),
        patience_(patience),
        sockets_(static_cast<size_t>(options.size)),
        lives_(static_cast<size_t>(options.size)) {}

  absl::StatusOr<ShmShare> Meet() {
    ASSIGN_OR_RETURN(Life own, NewLife());
    lives_[0] = std::move(own.reading);
    RETURN_IF_ERROR(AcceptAll());
    ASSIGN_OR_RETURN(std::shared_ptr<ShmSegment> segment, ShmSegment::Make(options_.plan));
    // Every rank gets the descriptor of the memory, and the reading end of every rank's pipe.
    for (size_t rank = 1; rank < sockets_.size(); ++rank) {
      RETURN_IF_ERROR(Send(rank, kMemory, segment->fd()));
      for (const UniqueFd& life : lives_) {
        RETURN_IF_ERROR(Send(rank, kLife, life.get()));
      }
    }
    // A rank that sends back the nonce in the memory's header has mapped the same memory.
    for (size_t rank = 1; rank < sockets_.size(); ++rank) {
      Nonce nonce = {};
      std::vector<UniqueFd> none;
      RETURN_IF_ERROR(ReceiveAll(sockets_[rank], nonce.data(), sizeof(nonce), none, patience_));
      if (nonce != segment->header().nonce) {
        return absl::UnavailableError(absl::StrCat("rank ", rank, " sees other memory"));
      }
    }
    // All ranks have mapped the memory, so the group has formed. A rank that ends from now on is
    // noticed at the barrier.
    for (size_t rank = 1; rank < sockets_.size(); ++rank) {
      Send(rank, kGo, -1).IgnoreError();
    }
    // No rank holds a reading end of its own pipe.
    lives_[0] = UniqueFd();
    return ShmShare{std::move(segment), std::move(lives_), std::move(own.writing)};
  }

 private:
  absl::Status Send(size_t rank, const char& kind, int passed_fd) const {
    return SendAll(options_, sockets_[rank], {&kind, 1}, passed_fd, patience_);
  }

  absl::Status AcceptAll() {
    ASSIGN_OR_RETURN(const UniqueFd listener, ListenLocal(options_.socket));
    int missing = options_.size - 1;
    while (missing > 0) {
      UniqueFd socket = AcceptLocal(listener);
      if (!socket.ok()) {
        if (const absl::Status status = patience_.WaitFor(listener, POLLIN); !status.ok()) {
          return Annotate(status, absl::StrCat("waiting for ", MissingRanks()));
        }
        continue;
      }
      Hello hello;
      std::vector<UniqueFd> passed;
      RETURN_IF_ERROR(ReceiveAll(socket, &hello, sizeof(hello), passed, patience_));
      const auto rank = static_cast<size_t>(hello.rank);
      // Any program may connect to the socket, so the hello is checked.
      if (hello.magic != kMagic || hello.size != options_.size ||
          hello.generation != options_.generation || hello.rank < 1 || rank >= sockets_.size() ||
          sockets_[rank].ok() || passed.size() != 1) {
        continue;  // not a rank of this group; the socket is closed here
      }
      sockets_[rank] = std::move(socket);
      lives_[rank] = std::move(passed[0]);
      --missing;
    }
    return absl::OkStatus();
  }

  std::string MissingRanks() const {
    std::string text;
    for (size_t rank = 1; rank < sockets_.size(); ++rank) {
      if (!sockets_[rank].ok()) absl::StrAppend(&text, text.empty() ? "rank " : ", ", rank);
    }
    return text;
  }

  const ShmRendezvous& options_;
  const Patience& patience_;
  std::vector<UniqueFd> sockets_;  // rank 0's connection to each other rank
  std::vector<UniqueFd> lives_;    // the reading end of each rank's pipe
};

// Runs the rendezvous on a rank other than rank 0: sends rank 0 the reading end of this rank's
// pipe, and gets the memory and the other ranks' pipes.
absl::StatusOr<ShmShare> Join(const ShmRendezvous& options, const Patience& patience) {
  UniqueFd socket;
  // Rank 0 may not listen yet, so this rank tries again until the deadline of `patience`.
  while (!socket.ok()) {
    auto connected = ConnectLocal(options.socket);
    if (connected.ok()) {
      socket = *std::move(connected);
    } else if (const absl::Status status = patience.Wait(-1, 0, kRetry); !status.ok()) {
      return Annotate(status, absl::StrCat("waiting for rank 0: ", connected.status().message()));
    }
  }
  ASSIGN_OR_RETURN(Life own, NewLife());
  Hello hello;
  hello.rank = options.rank;
  hello.size = options.size;
  hello.generation = options.generation;
  const absl::Span<const char> hello_bytes(reinterpret_cast<const char*>(&hello), sizeof(hello));
  RETURN_IF_ERROR(SendAll(options, socket, hello_bytes, own.reading.get(), patience));
  ASSIGN_OR_RETURN(UniqueFd memory, ReceivePassed(socket, kMemory, patience));
  ShmShare share;
  for (int rank = 0; rank < options.size; ++rank) {
    ASSIGN_OR_RETURN(UniqueFd life, ReceivePassed(socket, kLife, patience));
    share.lives.push_back(rank == options.rank ? UniqueFd() : std::move(life));
  }
  ASSIGN_OR_RETURN(share.segment, ShmSegment::Map(std::move(memory)));
  if (share.segment->ranks() != options.size) {
    return absl::InternalError("rank 0 of this host shares memory of another group");
  }
  // The nonce in the header proves to rank 0 that this rank has mapped the memory that rank 0 made.
  const Nonce nonce = share.segment->header().nonce;
  const absl::Span<const char> proof(reinterpret_cast<const char*>(nonce.data()), sizeof(nonce));
  RETURN_IF_ERROR(SendAll(options, socket, proof, -1, patience));
  char go = 0;
  std::vector<UniqueFd> none;
  RETURN_IF_ERROR(ReceiveAll(socket, &go, 1, none, patience));
  if (go != kGo) return absl::InternalError("rank 0 of this host does not go on");
  share.life = std::move(own.writing);
  return share;
}

}  // namespace

absl::StatusOr<ShmShare> MeetOnHost(const ShmRendezvous& options, const UniqueFd& stop) {
  const Patience patience(options.timeout, stop);
  if (options.size > kHostRanksMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "at most ", kHostRanksMax, " ranks of one host share memory, not ", options.size));
  }
  return options.rank == 0 ? Host(options, patience).Meet() : Join(options, patience);
}

}  // namespace cohort
