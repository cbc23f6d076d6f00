#pragma once

// How a rank of `cohort_bench collective` is driven, whoever's all-reduce it runs. It connects to
// the bench over a local socket and says its number; then each request is a size and how often, and
// the answer is the time of that, taken after a barrier. Between requests a rank sleeps in a read,
// so that it costs the others nothing. Nothing but the C++ library, since programs of several
// libraries include this.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace cohort::bench {

struct RankRequest {
  uint64_t bytes = 0;
  uint64_t times = 0;  // 0: only prepare, and check one sum
};

struct RankAnswer {
  double seconds = 0;
  uint64_t good = 0;  // the sums are right
};

// One rank's end of one way of all-reduce. Thread-compatible.
class RankWork {
 public:
  virtual ~RankWork() = default;
  // `count` floats to be reduced from now on; what lay there before is lost.
  virtual float* Prepare(size_t count) = 0;
  // Sums them in place on all ranks, so many times one after the other. False: it failed.
  virtual bool AllReduce(int times) = 0;
  virtual bool Barrier() = 0;
  // False of one that only moves the bytes.
  virtual bool sums() const { return true; }
};

inline bool MoveAll(int socket, void* data, size_t size, bool out) {
  char* next = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t moved =
        out ? send(socket, next, size, MSG_NOSIGNAL) : recv(socket, next, size, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    next += moved;
    size -= static_cast<size_t>(moved);
  }
  return true;
}

// -1 when nobody listens. `name` is of the abstract kind.
inline int ConnectToBench(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return -1;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), size) == 0) {
    return connection;
  }
  close(connection);
  return -1;
}

// The sum of rank + 1 over all ranks, everywhere.
inline bool CheckSums(RankWork& work, float* values, size_t count, int rank, int ranks) {
  std::fill(values, values + count, static_cast<float>(rank + 1));
  if (!work.AllReduce(1)) return false;
  const auto expected = static_cast<float>(ranks * (ranks + 1) / 2);
  const bool good =
      !work.sums() || std::all_of(values, values + count, [&](float v) { return v == expected; });
  if (!good) std::fprintf(stderr, "rank %d of %d: a wrong sum of %zu floats\n", rank, ranks, count);
  std::fill(values, values + count, 0.0F);  // sums of zeros stay as they are
  return good && work.Barrier();
}

// Until the bench closes the connection.
inline int ServeBench(const std::string& bench, int rank, int ranks, RankWork& work) {
  const int connection = ConnectToBench(bench);
  int32_t number = rank;
  if (connection < 0 || !MoveAll(connection, &number, sizeof(number), true)) return 1;
  size_t count = 0;
  float* values = nullptr;
  RankRequest request;
  while (MoveAll(connection, &request, sizeof(request), false)) {
    RankAnswer answer;
    if (request.bytes / sizeof(float) != count) {
      count = request.bytes / sizeof(float);
      values = work.Prepare(count);
    }
    if (request.times == 0) {
      answer.good = CheckSums(work, values, count, rank, ranks) ? 1 : 0;
    } else if (work.Barrier()) {
      const auto start = std::chrono::steady_clock::now();
      answer.good = work.AllReduce(static_cast<int>(request.times)) ? 1 : 0;
      answer.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    if (!MoveAll(connection, &answer, sizeof(answer), true)) break;
  }
  close(connection);
  return 0;
}

}  // namespace cohort::bench
