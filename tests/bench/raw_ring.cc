#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "tests/bench/rank_work.h"

namespace cohort::bench {

namespace {

constexpr size_t kReadBytes = size_t{256} << 10;

// The chunk that a rank sends in step s is the one it received and summed in step s - 1, so both
// directions are streams of 2(n - 1) chunks, and what may be sent ends one chunk after what has
// been received. Thread-compatible.
class RawRing final : public RankWork {
 public:
  RawRing(const RankPlace& place, UniqueFd next, UniqueFd previous)
      : rank_(static_cast<size_t>(place.rank)),
        ranks_(static_cast<size_t>(place.ranks)),
        next_(std::move(next)),
        previous_(std::move(previous)),
        incoming_(kReadBytes / sizeof(float)) {}

  float* Prepare(size_t count) override {
    COHORT_CHECK(count % ranks_ == 0, "chunks of one size");
    values_ = std::vector<float>(count);
    return values_.data();
  }

  bool AllReduce(int times) override {
    for (int i = 0; i < times; ++i) {
      if (!Round(values_)) return false;
    }
    return true;
  }

  bool Barrier() override {
    std::vector<float> nothing(ranks_);
    return Round(nothing);
  }

 private:
  // Where byte `at` of the stream lies that starts with the chunk of `rank`.
  static size_t PlaceOf(size_t at, size_t chunk, size_t rank, size_t ranks) {
    const size_t step = at / chunk;
    return (rank + 2 * ranks - step) % ranks * chunk + at % chunk;
  }

  bool Round(std::vector<float>& values) {
    char* const bytes = reinterpret_cast<char*>(values.data());
    const size_t chunk = values.size() * sizeof(float) / ranks_;
    const size_t total = 2 * (ranks_ - 1) * chunk;
    size_t sent = 0;
    size_t received = 0;
    while (sent < total || received < total) {
      const size_t sendable = std::min(total, received + chunk);
      bool moved = false;
      if (sent < sendable) {
        const size_t run = std::min(sendable - sent, chunk - sent % chunk);
        const ssize_t size =
            send(next_.get(), bytes + PlaceOf(sent, chunk, rank_, ranks_), run, MSG_NOSIGNAL);
        if (size < 0 && errno != EAGAIN && errno != EINTR) return false;
        moved = size > 0;
        sent += static_cast<size_t>(std::max<ssize_t>(size, 0));
      }
      if (received < total) {
        const ssize_t size = Receive(bytes, received, chunk);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return false;
        moved = moved || size > 0;
        received += static_cast<size_t>(std::max<ssize_t>(size, 0));
      }
      if (!moved) Sleep(sent < sendable, received < total);
    }
    return true;
  }

  // Sums, or in the second half of the steps keeps, what has come. Whole floats.
  ssize_t Receive(char* bytes, size_t received, size_t chunk) {
    const size_t run = std::min(kReadBytes, chunk - received % chunk);
    const size_t place = PlaceOf(received, chunk, rank_ + ranks_ - 1, ranks_);
    if (received >= (ranks_ - 1) * chunk) return recv(previous_.get(), bytes + place, run, 0);
    char* const into = reinterpret_cast<char*>(incoming_.data());
    const ssize_t size = recv(previous_.get(), into + torn_, run - torn_, 0);
    if (size <= 0) return size;
    const size_t there = torn_ + static_cast<size_t>(size);
    const size_t whole = there / sizeof(float);
    float* const sum = reinterpret_cast<float*>(bytes + place);
    for (size_t i = 0; i < whole; ++i) sum[i] += incoming_[i];
    torn_ = there % sizeof(float);
    std::copy_n(into + whole * sizeof(float), torn_, into);
    if (whole == 0) {
      errno = EAGAIN;
      return -1;
    }
    return static_cast<ssize_t>(whole * sizeof(float));
  }

  void Sleep(bool sends, bool receives) const {
    pollfd waits[] = {{sends ? next_.get() : -1, POLLOUT, 0},
                      {receives ? previous_.get() : -1, POLLIN, 0}};
    poll(waits, 2, 1000);
  }

  const size_t rank_;
  const size_t ranks_;
  const UniqueFd next_, previous_;
  std::vector<float> values_;
  std::vector<float> incoming_;
  size_t torn_ = 0;  // bytes of a float of which the rest has not come
};

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void MakeQuick(const UniqueFd& socket) {
  const int one = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  fcntl(socket.get(), F_SETFL, O_NONBLOCK);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankWork>> MakeRawRing(const RankPlace& place) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &size) != 0) {
    return ErrnoStatus(errno, "listening for the raw ring");
  }
  RETURN_IF_ERROR(
      LeaveText(place, absl::StrCat(place.rank), absl::StrCat(ntohs(address.sin_port))));
  ASSIGN_OR_RETURN(const std::string text,
                   AwaitText(place, absl::StrCat((place.rank + 1) % place.ranks)));
  int port = 0;
  if (!absl::SimpleAtoi(text, &port)) return absl::InternalError("no port of a raw ring");
  UniqueFd next(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in target = Loopback(port);
  if (connect(next.get(), reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0) {
    return ErrnoStatus(errno, "connecting the raw ring");
  }
  UniqueFd previous(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  MakeQuick(next);
  MakeQuick(previous);
  return std::make_unique<RawRing>(place, std::move(next), std::move(previous));
}

}  // namespace cohort::bench
