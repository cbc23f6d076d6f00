// Writes made-up click-log rows, those that the embedding bench trains on, for peers to train on.

#include <cstdio>

#include "common/base/status.h"
#include "tests/bench/bench.h"
#include "tests/support/click_row_text.h"
#include "worker/data/click_log.h"

namespace cohort::bench {

namespace {

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int seed, options.Number("seed"));
  ASSIGN_OR_RETURN(const int rows, options.Number("rows"));
  for (int i = 0; i < rows; ++i) {
    const ClickRow row = MakeClickRow(static_cast<uint64_t>(seed), static_cast<uint64_t>(i));
    std::puts(ClickRowText(row).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

Command ClickLogText() {
  return {"click_log",
          "Writes made-up rows in the format of Criteo's click logs (not a measurement)",
          {{"seed", "1", "of the rows"}, {"rows", "4096", "to write"}},
          Run};
}

}  // namespace cohort::bench
