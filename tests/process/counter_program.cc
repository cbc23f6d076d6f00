// A coordinator that counts to --increments over local tasks, for tests that kill it and them. It
// says on stderr how far it is, "done 2000", and prints the counter on stdout. Started again with
// the same --state_dir, it goes on.
// Usage: counter_program BINARIES STATE_DIR PS WORKERS INCREMENTS [TRANSPORT]

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/route/real_world.h"
#include "coordinator/local/local_cluster.h"
#include "tests/support/counter_life.h"

namespace cohort {
namespace {

constexpr uint64_t kSaidEvery = 1000;

struct Arguments {
  std::string binaries, state_directory;
  int ps = 0, workers = 0;
  uint64_t increments = 0;
  TransportKind transport = TransportKind::kAuto;
};

absl::StatusOr<float> Count(World world, Waiter& waiter, const std::shared_ptr<LocalCluster>& tasks,
                            const Arguments& arguments) {
  ClusterCoordinator::Options options;
  options.cluster = tasks->spec();
  options.settings = 1;
  options.address = [tasks](TaskId task) { return tasks->Address(task); };
  options.closures_in_flight = 8;
  options.attempts_max = options.quarantine_after = 1000;
  options.recovery_directory = JoinPath(arguments.state_directory, "recovery");
  options.recovery_interval = absl::Milliseconds(200);
  ASSIGN_OR_RETURN(const auto coordinator, ClusterCoordinator::Connect(world, waiter, options));
  CounterLife counter(*coordinator, arguments.increments);
  RETURN_IF_ERROR(counter.Begin());
  RETURN_IF_ERROR(counter.ScheduleWhatIsLeft());
  uint64_t said = 0;
  while (true) {
    const absl::Status joined = coordinator->Join(absl::Milliseconds(5));
    const uint64_t done = counter.done();
    for (; said + kSaidEvery <= done; said += kSaidEvery) {
      std::fprintf(stderr, "done %llu\n", static_cast<unsigned long long>(said + kSaidEvery));
    }
    if (joined.ok()) break;
    if (!absl::IsDeadlineExceeded(joined)) return joined;
  }
  std::fprintf(stderr, "%s\n", coordinator->stats().ToString().c_str());
  ASSIGN_OR_RETURN(const float value, counter.Finish());
  RETURN_IF_ERROR(coordinator->ForgetState());
  return value;
}

absl::Status Run(const Arguments& arguments) {
  RealWorld world(2, arguments.transport);
  BlockingWaiter waiter;
  LocalCluster::Options options;
  options.ps = arguments.ps;
  options.workers = arguments.workers;
  options.binary_directory = arguments.binaries;
  options.state_directory = arguments.state_directory;
  options.transport = arguments.transport;
  ASSIGN_OR_RETURN(const std::shared_ptr<LocalCluster> tasks,
                   LocalCluster::Start(world.world(), waiter, std::move(options)));
  const absl::StatusOr<float> value = Count(world.world(), waiter, tasks, arguments);
  tasks->Stop(waiter, absl::Seconds(10));
  RETURN_IF_ERROR(value.status());
  std::printf("%.0f\n", *value);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::Arguments arguments;
  const auto transport = cohort::TransportKindFromName(argc == 7 ? argv[6] : "auto");
  if (argc < 6 || argc > 7 || !absl::SimpleAtoi(argv[3], &arguments.ps) ||
      !absl::SimpleAtoi(argv[4], &arguments.workers) ||
      !absl::SimpleAtoi(argv[5], &arguments.increments) || !transport.ok()) {
    std::fputs("usage: counter_program BINARIES STATE_DIR PS WORKERS INCREMENTS [TRANSPORT]\n",
               stderr);
    return 2;
  }
  arguments.transport = *transport;
  arguments.binaries = argv[1];
  arguments.state_directory = argv[2];
  const absl::Status status = cohort::Run(arguments);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
