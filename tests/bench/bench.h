#pragma once

// cohort_bench measures one thing per sub-command and prints JSON lines. A line has bench, case,
// value and unit, and where there is a limit or a peer measured in the same run also reference,
// reference_value and ratio (value over reference_value). Figures of one run may be compared,
// figures of two runs hardly: other load on the machine moves both value and reference.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cohort::bench {

struct Option {
  std::string name;  // "repeats" is --repeats
  std::string value;
  std::string help;
  size_t words = 1;  // that follow its name; they are one value, with spaces between them
};

// Option values by name; all that the command declares are there. Thread-compatible.
class Options {
 public:
  explicit Options(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  const std::string& Text(const std::string& name) const { return values_.at(name); }
  // Errors: INVALID_ARGUMENT naming the option.
  absl::StatusOr<int> Number(const std::string& name) const;

 private:
  std::map<std::string, std::string> values_;
};

struct Command {
  std::string name;
  std::string help;  // empty: not shown, a process that a bench starts itself
  std::vector<Option> options;
  std::function<absl::Status(const Options&)> run;
};

Command TransportBench();
Command TransportPeer();
Command EmptyCallPeer();
Command KvBench();
Command KvPeer();
Command ScheduleBench();
Command StepBench();
Command ComputeBench();
Command CheckpointBench();
Command OverloadBench();
Command StandstillBench();
Command RecoveryBench();
Command ReformBench();
Command StopBench();
Command InputBench();
Command OptimizerBench();
Command TableBench();
Command EmbeddingBench();
Command AssignAddBench();
Command ClickLogText();
Command CollectiveBench();
Command CollectiveRank();
Command OverlapBench();
Command RecoveryCoordinator();

// One line of output.
struct Figure {
  std::string bench;
  std::string name;  // the case: "tcp/pull/64MiB"
  double value = 0;
  std::string unit;
  std::string reference = "";  // empty: none, and no ratio
  double reference_value = 0;
  std::map<std::string, double> more = {};
};

void Print(const Figure& figure);

double Median(std::vector<double> values);

// "64MiB".
std::string SizeName(size_t bytes);

// Starts this program again with `arguments`; it ends at the latest when the object does, or when
// this process dies. Thread-compatible.
class Peer {
 public:
  static absl::StatusOr<Peer> Start(const std::vector<std::string>& arguments);
  // Another program, whose path is the first argument.
  static absl::StatusOr<Peer> StartProgram(const std::vector<std::string>& arguments);
  Peer(Peer&& other) noexcept;
  Peer& operator=(Peer&&) = delete;
  ~Peer();

  // The next line that it prints. Errors: UNAVAILABLE when it ended.
  absl::StatusOr<std::string> ReadLine();

 private:
  Peer(int pid, int input, int output) : pid_(pid), input_(input), output_(output) {}
  int pid_;
  int input_;  // its standard input: closed when this process dies
  int output_;
};

// For a peer: returns when its starter closed its standard input or died.
void WaitForStarter();

}  // namespace cohort::bench
