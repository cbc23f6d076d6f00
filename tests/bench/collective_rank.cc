// A rank of `cohort_bench collective` that this program runs itself.

#include <poll.h>
#include <stdio.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/file_system.h"
#include "common/base/status.h"
#include "tests/bench/bench.h"
#include "tests/bench/rank_work.h"

namespace cohort::bench {

namespace {

constexpr int kAwaitStepMs = 5;
constexpr int kAwaitSteps = 6000;

absl::StatusOr<std::unique_ptr<RankWork>> MakeWork(const std::string& kind,
                                                   const RankPlace& place) {
  if (kind == "shm") return MakeSharedMemory(place);
  const bool grpc = absl::EndsWith(kind, "_grpc");
  const TransportKind transport = grpc ? TransportKind::kGrpc : TransportKind::kTcp;
  const absl::string_view algorithm = absl::StripSuffix(kind, "_grpc");
  if (algorithm == "ring") return MakeLanes(place, CollectiveAlgorithm::kRing, transport);
  if (algorithm == "two_shot") return MakeLanes(place, CollectiveAlgorithm::kTwoShot, transport);
  if (algorithm == "hierarchical") {
    return MakeLanes(place, CollectiveAlgorithm::kHierarchical, transport);
  }
  if (algorithm == "auto") return MakeLanes(place, CollectiveAlgorithm::kAuto, transport);
  if (kind == "raw_tcp") return MakeRawRing(place);
  int kib = 0;
  absl::string_view size = kind;
  if (absl::ConsumePrefix(&size, kStreamKind) && absl::SimpleAtoi(size, &kib)) {
    return MakeGrpcStream(place, static_cast<size_t>(kib) << 10);
  }
  if (absl::ConsumePrefix(&size, kBareRingKind) && absl::SimpleAtoi(size, &kib)) {
    return MakeGrpcRing(place, static_cast<size_t>(kib) << 10);
  }
  return absl::InvalidArgumentError(absl::StrCat("--kind=", kind, " is no way of all-reduce"));
}

absl::Status RunRank(const Options& options) {
  RankPlace place;
  ASSIGN_OR_RETURN(place.rank, options.Number("rank"));
  ASSIGN_OR_RETURN(place.ranks, options.Number("ranks"));
  place.group = options.Text("group");
  place.directory = options.Text("directory");
  ASSIGN_OR_RETURN(const std::unique_ptr<RankWork> work, MakeWork(options.Text("kind"), place));
  if (ServeBench(options.Text("bench"), place.rank, place.ranks, *work) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("the bench cannot be reached");
}

}  // namespace

absl::Status LeaveText(const RankPlace& place, const std::string& key, const std::string& text) {
  const std::string path = JoinPath(place.directory, absl::StrCat(place.group, "-", key));
  std::ofstream(path + ".part") << text;
  if (rename((path + ".part").c_str(), path.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, path);
}

absl::StatusOr<std::string> AwaitText(const RankPlace& place, const std::string& key) {
  const std::string path = JoinPath(place.directory, absl::StrCat(place.group, "-", key));
  for (int i = 0; i < kAwaitSteps; ++i) {
    if (std::ifstream file(path); file.good()) {
      std::ostringstream text;
      text << file.rdbuf();
      return text.str();
    }
    poll(nullptr, 0, kAwaitStepMs);
  }
  return absl::UnavailableError(absl::StrCat(path, " was not written"));
}

Command CollectiveRank() {
  return {"collective-rank",
          "",
          {{"bench", "", "socket of the bench"},
           {"rank", "0", "number of this rank"},
           {"ranks", "1", "how many there are"},
           {"group", "", "a name that no other group has"},
           {"directory", "", "where ranks leave their addresses"},
           {"kind", "shm", "way of all-reduce"}},
          RunRank};
}

}  // namespace cohort::bench
