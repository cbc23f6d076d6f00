// run_seeds --from A --count N [--job counters|gangs] [--parts] [--kinds a,b] [--events K]
//           [--keep-going] [--brief]
// Runs seeds of the simulator, each with either job, or with one. A seed that violates something is
// run again with its last events kept, and printed with the command that replays it; with --brief
// it is one line. With --parts nothing strikes but a partition of one pair. At the end: how often
// each fault struck in each phase.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "tests/sim/seed_result.h"

namespace cohort {
namespace {

struct Arguments {
  uint64_t from = 1;
  uint64_t count = 100;
  size_t events = 40;
  bool keep_going = false;
  bool brief = false;
  bool log = false;
  std::string kinds;
  std::vector<SeedJob> jobs = {SeedJob::kCounters, SeedJob::kGangs};
  SeedOptions options;
};

absl::string_view NameOf(SeedJob job) { return job == SeedJob::kGangs ? "gangs" : "counters"; }

absl::StatusOr<Arguments> Parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool last = i + 1 == words.size();
    if (word == "--keep-going") {
      arguments.keep_going = true;
    } else if (word == "--parts") {
      arguments.options.parts = true;
    } else if (word == "--brief") {
      arguments.brief = true;
    } else if (word == "--log") {
      arguments.log = true;
    } else if (word == "--from" && !last && absl::SimpleAtoi(words[i + 1], &arguments.from)) {
      ++i;
    } else if (word == "--count" && !last && absl::SimpleAtoi(words[i + 1], &arguments.count)) {
      ++i;
    } else if (word == "--events" && !last && absl::SimpleAtoi(words[i + 1], &arguments.events)) {
      ++i;
    } else if (word == "--job" && !last &&
               (words[i + 1] == "gangs" || words[i + 1] == "counters")) {
      arguments.jobs = {words[++i] == "gangs" ? SeedJob::kGangs : SeedJob::kCounters};
    } else if (word == "--kinds" && !last) {
      arguments.kinds = words[++i];
      for (const absl::string_view name : absl::StrSplit(arguments.kinds, ',')) {
        ASSIGN_OR_RETURN(const Fault fault, FaultFromName(name));
        arguments.options.faults.push_back(fault);
      }
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("what is '", word,
                       "'? run_seeds --from A --count N [--job counters|gangs] "
                       "[--parts] [--kinds a,b] [--events K] [--keep-going] [--brief] [--log]"));
    }
  }
  return arguments;
}

// Of the seed that runs, for a signal handler.
std::array<char, 96> death_notice{};

void SetDeathNotice(uint64_t seed) {
  std::snprintf(death_notice.data(), death_notice.size(),
                "seed %llu failed: the process died (what it said is on stderr)\n",
                static_cast<unsigned long long>(seed));
}

// A check that failed in production code ends the process; the seed must be known.
extern "C" void OnDeath(int signal) {
  const ssize_t written = write(STDOUT_FILENO, death_notice.data(), strlen(death_notice.data()));
  static_cast<void>(written);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void PrintFailure(uint64_t seed, SeedJob job, const Arguments& arguments,
                  const SeedResult& result) {
  if (arguments.brief) {
    std::printf("seed %llu failed: %s\n", static_cast<unsigned long long>(seed),
                result.violations.front().c_str());
    std::fflush(stdout);
    return;
  }
  SeedOptions options = arguments.options;
  options.job = job;
  options.events_kept = arguments.events;
  const SeedResult again = RunSeed(seed, options);
  std::printf("seed %llu failed; trace hash %016llx\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(again.trace_hash));
  std::printf("  %s\n", again.plan.c_str());
  for (const std::string& event : again.last_events) std::printf("    %s\n", event.c_str());
  for (const std::string& violation : again.violations) std::printf("  ! %s\n", violation.c_str());
  const std::string kinds =
      absl::StrCat(arguments.options.parts ? " --parts" : "",
                   arguments.kinds.empty() ? "" : absl::StrCat(" --kinds ", arguments.kinds));
  std::printf("replay: build/<preset>/bin/run_seeds --from %llu --count 1 --job %s --log%s\n",
              static_cast<unsigned long long>(seed), std::string(NameOf(job)).c_str(),
              kinds.c_str());
  std::fflush(stdout);
}

// What all seeds together came to.
struct Sums {
  std::map<SeedJob, FaultTable> tables;
  uint64_t failures = 0;
  uint64_t events = 0;
  absl::Duration simulated;
};

// False where the seed violates something.
bool RunJob(uint64_t seed, SeedJob job, const Arguments& arguments, Sums& sums) {
  SeedOptions options = arguments.options;
  options.job = job;
  const SeedResult result = RunSeed(seed, options);
  sums.tables[job].Add(result.table);
  sums.events += result.events;
  sums.simulated += result.simulated;
  if (arguments.count == 1) {
    std::printf("seed %llu: trace hash %016llx, %s\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(result.trace_hash), result.plan.c_str());
  }
  if (result.ok()) return true;
  ++sums.failures;
  PrintFailure(seed, job, arguments, result);
  return false;
}

int Run(const Arguments& arguments) {
  ConfigureLog(arguments.log ? LogLevel::kInfo : LogLevel::kError, "sim");
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE}) std::signal(signal, OnDeath);
  Sums sums;
  const auto start = std::chrono::steady_clock::now();
  uint64_t seed = arguments.from;
  for (; seed < arguments.from + arguments.count; ++seed) {
    SetDeathNotice(seed);
    const bool ok = std::all_of(arguments.jobs.begin(), arguments.jobs.end(),
                                [&](SeedJob job) { return RunJob(seed, job, arguments, sums); });
    if (!ok && !arguments.keep_going) break;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const auto& [job, table] : sums.tables) std::printf("%s\n", table.ToString(job).c_str());
  std::printf("%llu seeds, %llu failed, %llu events, %.0f simulated s, %.1f s\n",
              static_cast<unsigned long long>(seed - arguments.from),
              static_cast<unsigned long long>(sums.failures),
              static_cast<unsigned long long>(sums.events), absl::ToDoubleSeconds(sums.simulated),
              seconds);
  return sums.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  const auto arguments = cohort::Parse({argv + 1, argv + argc});
  if (!arguments.ok()) {
    std::fprintf(stderr, "%s\n", std::string(arguments.status().message()).c_str());
    return 2;
  }
  return cohort::Run(*arguments);
}
