#pragma once

// Keras's progress line on stderr: a bar that is redrawn if stderr is a terminal, otherwise one
// line for each training epoch.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace cohort {

struct ProgressLine {
  int64_t epoch = 0;  // number of the training epoch, from 1
  int64_t epochs = 0;
  int64_t step = 0;
  int64_t steps = 0;
  absl::Duration elapsed;
  // Names and values to show, such as ("loss", 0.1234).
  std::vector<std::pair<std::string, double>> values;
};

// Returns the progress as text, such as "120/375 [=====>....] - 3.0s 8.00ms/step - loss: 0.3121 -
// accuracy: 0.9012".
std::string FormatProgress(const ProgressLine& line);

// The progress bar of a training. Thread-compatible.
class ProgressBar {
 public:
  ProgressBar();
  // Redraws the bar, at most every 100 ms and only on a terminal.
  void Update(const ProgressLine& line);
  void Finish(const ProgressLine& line);

 private:
  const bool is_terminal_;
  absl::Duration last_drawn_ = -absl::InfiniteDuration();
};

}  // namespace cohort
