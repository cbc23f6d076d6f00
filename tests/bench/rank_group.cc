#include "tests/bench/rank_group.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/frames/local_socket.h"
#include "tests/bench/peers/rank_link.h"

namespace cohort::bench {

namespace {

constexpr std::chrono::seconds kStartTimeout{60};

// The next rank that comes, with its number.
absl::StatusOr<std::pair<int, UniqueFd>> AcceptRank(const UniqueFd& listener) {
  const auto end = std::chrono::steady_clock::now() + kStartTimeout;
  while (std::chrono::steady_clock::now() < end) {
    UniqueFd socket = AcceptLocal(listener);
    if (!socket.ok()) {
      pollfd wait = {listener.get(), POLLIN, 0};
      poll(&wait, 1, 1000);
      continue;
    }
    fcntl(socket.get(), F_SETFL, 0);  // blocks
    int32_t rank = 0;
    if (!MoveAll(socket.get(), &rank, sizeof(rank), false)) continue;
    return std::make_pair(static_cast<int>(rank), std::move(socket));
  }
  return absl::UnavailableError("not all ranks have started within a minute");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Start(
    int ranks, const std::vector<std::vector<std::string>>& programs) {
  const std::string bench = absl::StrCat("cohort-bench:", NewSocketNumber());
  ASSIGN_OR_RETURN(const UniqueFd listener, ListenLocal(bench));
  std::unique_ptr<RankGroup> group(new RankGroup);
  for (std::vector<std::string> program : programs) {
    std::replace(program.begin(), program.end(), std::string("BENCH"), bench);
    ASSIGN_OR_RETURN(Peer peer, Peer::StartProgram(program));
    group->peers_.push_back(std::move(peer));
  }
  group->sockets_.resize(static_cast<size_t>(ranks));
  for (int i = 0; i < ranks; ++i) {
    auto next = AcceptRank(listener);
    if (!next.ok()) return Annotate(next.status(), programs[0][0]);
    group->sockets_.at(static_cast<size_t>(next->first)) = std::move(next->second);
  }
  return group;
}

absl::Status RankGroup::Prepare(size_t bytes) {
  bytes_ = bytes;
  return Ask(bytes, 0).status();
}

absl::StatusOr<double> RankGroup::Measure(int times) {
  ASSIGN_OR_RETURN(const double seconds, Ask(bytes_, times));
  return seconds * 1e6 / times;
}

absl::StatusOr<double> RankGroup::Ask(size_t bytes, int times) {
  RankRequest request{bytes, static_cast<uint64_t>(times)};
  for (const UniqueFd& socket : sockets_) {
    if (!MoveAll(socket.get(), &request, sizeof(request), true)) {
      return absl::UnavailableError("a rank has ended");
    }
  }
  double slowest = 0;
  for (size_t rank = 0; rank < sockets_.size(); ++rank) {
    RankAnswer answer;
    if (!MoveAll(sockets_[rank].get(), &answer, sizeof(answer), false)) {
      return absl::UnavailableError(absl::StrCat("rank ", rank, " has ended"));
    }
    if (answer.good == 0) {
      return absl::InternalError(absl::StrCat("rank ", rank, " failed at ", bytes, " bytes"));
    }
    slowest = std::max(slowest, answer.seconds);
  }
  return slowest;
}

}  // namespace cohort::bench
