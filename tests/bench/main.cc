#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/turns.h"
#include "common/cluster/command_line.h"
#include "common/cluster/process_limits.h"
#include "tests/bench/bench.h"

namespace cohort::bench {
namespace {

std::string Usage(const std::vector<Command>& commands) {
  std::string text =
      "Measurements of Cohort, as JSON lines on standard output\nusage: cohort_bench COMMAND "
      "[--help] [OPTIONS]\n";
  for (const Command& command : commands) {
    if (!command.help.empty()) absl::StrAppend(&text, "  ", command.name, ": ", command.help, "\n");
  }
  return text;
}

// The words of an option's value in one argument.
std::vector<std::string> Joined(const Command& command, const std::vector<std::string>& arguments) {
  std::vector<std::string> joined;
  for (size_t i = 0; i < arguments.size(); ++i) {
    joined.push_back(arguments[i]);
    for (const Option& option : command.options) {
      if (option.words < 2 || arguments[i] != "--" + option.name) continue;
      const size_t end = std::min(i + option.words, arguments.size() - 1);
      if (i == end) continue;
      joined.push_back(arguments[++i]);
      while (i < end) absl::StrAppend(&joined.back(), " ", arguments[++i]);
    }
  }
  return joined;
}

absl::Status Run(const Command& command, const std::vector<std::string>& arguments) {
  FlagParser parser(absl::StrCat("cohort_bench ", command.name), command.help);
  std::map<std::string, std::string> values;
  for (const Option& option : command.options) {
    std::string& value = values[option.name] = option.value;
    parser.Add(option.name, value, absl::StrCat(option.help, " [", option.value, "]"));
  }
  ASSIGN_OR_RETURN(const std::optional<PrintAndExit> help,
                   parser.Parse(Joined(command, arguments)));
  if (!help) return command.run(Options(values));
  std::fputs(help->text.c_str(), stdout);
  return absl::OkStatus();
}

int Main(const std::vector<std::string>& arguments) {
  TuneAllocator();
  SetTurns(Turns::kShort);  // as the daemons do
  const std::vector<Command> commands = {
      TransportBench(),  TransportPeer(),   EmptyCallPeer(),
      KvBench(),         KvPeer(),          ScheduleBench(),
      StepBench(),       ComputeBench(),    CheckpointBench(),
      OverloadBench(),   StandstillBench(), RecoveryBench(),
      ReformBench(),     StopBench(),       OptimizerBench(),
      InputBench(),      TableBench(),      EmbeddingBench(),
      AssignAddBench(),  ClickLogText(),    RecoveryCoordinator(),
      CollectiveBench(), CollectiveRank(),  OverlapBench()};
  for (const Command& command : commands) {
    if (arguments.empty() || arguments[0] != command.name) continue;
    const absl::Status status = Run(command, {arguments.begin() + 1, arguments.end()});
    if (status.ok()) return 0;
    std::fprintf(stderr, "cohort_bench %s: %s\n", command.name.c_str(), status.ToString().c_str());
    return 1;
  }
  std::fputs(Usage(commands).c_str(), stderr);
  return 2;
}

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) {
  return cohort::bench::Main(std::vector<std::string>(argv + 1, argv + argc));
}
