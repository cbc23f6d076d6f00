#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "common/wire/allocator.h"
#include "tests/bench/bench.h"

int main(int argc, char** argv) {
  using cohort::bench::Command, cohort::bench::Option, cohort::bench::Options;
  cohort::TuneAllocator();
  const std::vector<Command> commands = {cohort::bench::TransportBench(),
                                         cohort::bench::TransportPeer(),
                                         cohort::bench::ScheduleBench(),
                                         cohort::bench::StepBench()};
  CLI::App app("Measurements of Cohort, as JSON lines on standard output");
  app.require_subcommand(1);
  std::map<std::string, std::map<std::string, std::string>> values;
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    if (command.help.empty()) sub->group("");
    for (const Option& option : command.options) {
      std::string& value = values[command.name][option.name];
      value = option.value;
      sub->add_option("--" + option.name, value, option.help)->capture_default_str();
    }
  }
  CLI11_PARSE(app, argc, argv);
  for (const Command& command : commands) {
    if (!app.got_subcommand(command.name)) continue;
    const absl::Status status = command.run(Options(values[command.name]));
    if (status.ok()) continue;
    std::fprintf(stderr, "cohort_bench %s: %s\n", command.name.c_str(), status.ToString().c_str());
    return 1;
  }
  return 0;
}
