// All-reduce of float32 between processes of this host: what the project does, against other
// libraries and against what the machine can do. All ranks of all ways are started first and sleep;
// then the ways take turns, size by size, so that a change of the machine's load meets all of them.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/file_system.h"
#include "common/base/status.h"
#include "common/cluster/environment.h"
#include "common/wire/frames/local_socket.h"
#include "tests/bench/bench.h"
#include "tests/bench/rank_group.h"
#include "tests/bench/rank_work.h"
#include "tests/support/temp_directory.h"
#include "worker/collective/shm/shm_communicator.h"

namespace cohort::bench {

namespace {

// One way of all-reduce with so many ranks.
struct Way {
  std::string name;
  std::unique_ptr<RankGroup> group;
  int times = 1;  // in one measurement at the present size
  std::vector<double> microseconds = {};
};

// What is compared with what. A line says how our way does against one of the others.
struct Comparison {
  std::string ours;
  std::vector<std::string> others;
};

const std::vector<Comparison>& Comparisons() {
  static const std::vector<Comparison> all = {
      {"shm", {"ompi_vader", "ompi_tcp", "raw_tcp", "memcpy"}},
      {"ring", {"gloo", "gloo_bcube", "grpc_stream", "ompi_tcp", "raw_tcp"}},
      {"two_shot", {"gloo", "gloo_bcube", "grpc_stream", "ompi_tcp", "raw_tcp"}},
      {"auto", {"gloo", "gloo_bcube", "ompi_tcp", "raw_tcp"}},
      {"hierarchical", {"two_shot", "gloo"}},
      {"ring_grpc", {"gloo", kStreamKind, kBareRingKind, "ompi_tcp"}},
      {"two_shot_grpc", {"gloo", kStreamKind, kBareRingKind, "ompi_tcp"}},
      {kBareRingKind, {"gloo", kStreamKind}},
  };
  return all;
}

struct Setup {
  int repeats = 0;
  int milliseconds = 0;
  bool bind = false;
  TempDirectory directory{"cohort-collective"};
  std::vector<std::string> kinds;  // of ways; empty: all
};

bool Wanted(const Setup& setup, const std::string& name) {
  return setup.kinds.empty() ||
         std::find(setup.kinds.begin(), setup.kinds.end(), name) != setup.kinds.end();
}

using Programs = std::vector<std::vector<std::string>>;

// On a core of its own, where there are as many: as mpirun has its ranks unless told otherwise.
std::vector<std::string> Bound(const Setup& setup, int rank, int ranks,
                               std::vector<std::string> program) {
  if (!setup.bind || ranks > static_cast<int>(std::thread::hardware_concurrency())) return program;
  program.insert(program.begin(), {"taskset", "-c", absl::StrCat(rank)});
  return program;
}

std::string PathOf(const std::string& program) {
  return JoinPath(DirectoryOf(ExecutablePath()), program);
}

Programs OwnRanks(const Setup& setup, int ranks, const std::string& kind) {
  const std::string group = absl::StrCat("bench:", NewSocketNumber());
  Programs programs;
  for (int rank = 0; rank < ranks; ++rank) {
    programs.push_back(Bound(setup, rank, ranks,
                             {ExecutablePath(), "collective-rank", "--bench", "BENCH", "--rank",
                              absl::StrCat(rank), "--ranks", absl::StrCat(ranks), "--group", group,
                              "--directory", setup.directory.path(), "--kind", kind}));
  }
  return programs;
}

Programs GlooRanks(const Setup& setup, int ranks, const std::string& algorithm) {
  Programs programs;
  const std::string store = JoinPath(setup.directory.path(), NewSocketNumber());
  mkdir(store.c_str(), 0700);
  for (int rank = 0; rank < ranks; ++rank) {
    programs.push_back(Bound(setup, rank, ranks,
                             {PathOf("cohort_gloo_peer"), "BENCH", absl::StrCat(rank),
                              absl::StrCat(ranks), store, algorithm}));
  }
  return programs;
}

Programs OmpiRanks(int ranks, const std::string& btl) {
  return {{"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", absl::StrCat(ranks), "--mca",
           "pml", "ob1", "--mca", "btl", btl + ",self", "--mca", "btl_tcp_if_include", "lo",
           PathOf("cohort_ompi_peer"), "BENCH"}};
}

bool IsBuilt(const std::string& program) { return access(PathOf(program).c_str(), X_OK) == 0; }

// All ways with `ranks` ranks, started.
absl::StatusOr<std::vector<Way>> StartWays(const Setup& setup, int ranks) {
  std::vector<std::pair<std::string, Programs>> programs;
  if (ranks % kRanksOfHost == 0 && ranks > kRanksOfHost) {
    programs.emplace_back("hierarchical", OwnRanks(setup, ranks, "hierarchical"));
  }
  for (const std::string kind :
       {"shm", "ring", "two_shot", "auto", "ring_grpc", "two_shot_grpc", "raw_tcp"}) {
    programs.emplace_back(kind, OwnRanks(setup, ranks, kind));
  }
  for (const std::string kib : {"256", "1024", "4096"}) {
    for (const std::string kind : {kStreamKind, kBareRingKind}) {
      programs.emplace_back(kind + kib, OwnRanks(setup, ranks, kind + kib));
    }
  }
  if (IsBuilt("cohort_gloo_peer")) {
    programs.emplace_back("gloo", GlooRanks(setup, ranks, "ring"));
    programs.emplace_back("gloo_bcube", GlooRanks(setup, ranks, "bcube"));
  }
  if (IsBuilt("cohort_ompi_peer")) {
    programs.emplace_back("ompi_vader", OmpiRanks(ranks, "vader"));
    programs.emplace_back("ompi_tcp", OmpiRanks(ranks, "tcp"));
  }
  std::vector<Way> ways;
  for (const auto& [name, program] : programs) {
    if (!Wanted(setup, name)) continue;
    ASSIGN_OR_RETURN(auto group, RankGroup::Start(ranks, program));
    ways.push_back({name, std::move(group)});
  }
  return ways;
}

// Microseconds of a copy of so many bytes by one thread.
double MeasureCopy(size_t bytes, int milliseconds) {
  static std::vector<char> from, to;
  from.resize(bytes, 1);
  to.resize(bytes, 1);
  const auto start = std::chrono::steady_clock::now();
  double seconds = 0;
  int copies = 0;
  do {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    ++copies;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  } while (seconds * 1000 < milliseconds);
  return seconds * 1e6 / copies;
}

// The fastest of the sizes of messages.
void AddBest(const std::string& kind, std::map<std::string, double>& medians) {
  double best = 0;
  for (const auto& [name, time] : medians) {
    if (absl::StartsWith(name, kind) && (best == 0 || time < best)) best = time;
  }
  if (best > 0) medians[kind] = best;
}

absl::Status MeasureSize(const Setup& setup, std::vector<Way>& ways, size_t bytes, int ranks) {
  for (Way& way : ways) {
    way.microseconds.clear();
    RETURN_IF_ERROR(Annotate(way.group->Prepare(bytes), way.name));
    ASSIGN_OR_RETURN(const double warm, way.group->Measure(3));
    const double fits = setup.milliseconds * 1000.0 / std::max(warm, 0.1);
    way.times = static_cast<int>(std::clamp(fits, 1.0, 20000.0));
  }
  std::vector<double> copies;
  for (int i = 0; i < setup.repeats; ++i) {
    for (Way& way : ways) {
      ASSIGN_OR_RETURN(const double time, way.group->Measure(way.times));
      way.microseconds.push_back(time);
    }
    copies.push_back(MeasureCopy(bytes, setup.milliseconds / 2));
  }
  std::map<std::string, double> medians = {{"memcpy", Median(copies)}};
  for (const Way& way : ways) medians[way.name] = Median(way.microseconds);
  for (const char* kind : {kStreamKind, kBareRingKind}) AddBest(kind, medians);
  const std::string what = absl::StrCat("/allreduce/", SizeName(bytes), "/n", ranks, "/");
  for (const Comparison& comparison : Comparisons()) {
    const auto ours = medians.find(comparison.ours);
    if (ours == medians.end()) continue;
    for (const std::string& other : comparison.others) {
      const auto theirs = medians.find(other);
      if (theirs == medians.end()) continue;
      Print({"collective", comparison.ours + what + other, ours->second, "us", other,
             theirs->second});
    }
  }
  for (const auto& [name, time] : medians) Print({"collective", name + what + "alone", time, "us"});
  return absl::OkStatus();
}

absl::StatusOr<size_t> SizeOf(absl::string_view option, absl::string_view text) {
  size_t unit = 1;
  absl::string_view number = text;
  if (absl::ConsumeSuffix(&number, "KiB")) unit = size_t{1} << 10;
  if (absl::ConsumeSuffix(&number, "MiB")) unit = size_t{1} << 20;
  uint32_t value = 0;
  if (!absl::SimpleAtoi(number, &value) || value == 0 || value * unit % 64 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        option, " has '", text, "'; give sizes such as 1KiB,16MiB, in multiples of 64 bytes"));
  }
  return value * unit;
}

absl::Status RunBench(const Options& options) {
  Setup setup;
  ASSIGN_OR_RETURN(setup.repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(setup.milliseconds, options.Number("milliseconds"));
  ASSIGN_OR_RETURN(const int bind, options.Number("bind"));
  setup.bind = bind != 0;
  if (!options.Text("ways").empty()) setup.kinds = absl::StrSplit(options.Text("ways"), ',');
  std::vector<size_t> sizes;
  for (const absl::string_view text : absl::StrSplit(options.Text("sizes"), ',')) {
    ASSIGN_OR_RETURN(const size_t size, SizeOf("--sizes", text));
    sizes.push_back(size);
  }
  std::vector<int> ranks;
  for (const absl::string_view text : absl::StrSplit(options.Text("ranks"), ',')) {
    ranks.push_back(0);
    if (!absl::SimpleAtoi(text, &ranks.back()) || ranks.back() < 2 || ranks.back() > 16) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ranks has '", text, "'; give numbers of 2 to 16"));
    }
  }
  std::map<int, std::vector<Way>> ways;
  for (const int size : ranks) {
    ASSIGN_OR_RETURN(ways[size], StartWays(setup, size));
  }
  for (const std::string peer : {"cohort_gloo_peer", "cohort_ompi_peer"}) {
    if (!IsBuilt(peer)) {
      std::fprintf(stderr, "%s is not built, so our side stands without it; see %s\n", peer.c_str(),
                   "tests/bench/peers/install_collectives.sh");
    }
  }
  for (const size_t size : sizes) {
    for (auto& [count, of_count] : ways) {
      RETURN_IF_ERROR(MeasureSize(setup, of_count, size, count));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Command CollectiveBench() {
  return {"collective",
          "all-reduce of float32 between processes, against Gloo, Open MPI, raw TCP and memcpy",
          {{"repeats", "7", "turns; a figure is their median"},
           {"milliseconds", "40", "length of one measurement"},
           {"sizes", "1KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB", "bytes per rank"},
           {"ranks", "2,4", "processes"},
           {"bind", "1", "1: each rank on a core of its own where there are as many"},
           {"ways", "", "only these; all when empty"}},
          RunBench};
}

}  // namespace cohort::bench
