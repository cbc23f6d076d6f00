#include "coordinator/train/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace cohort {

namespace {
constexpr int kBarWidth = 30;
constexpr absl::Duration kRedraw = absl::Milliseconds(100);
}  // namespace

std::string FormatProgress(const ProgressLine& line) {
  const int64_t steps = std::max<int64_t>(line.steps, 1);
  const int filled = static_cast<int>(kBarWidth * std::min(line.step, steps) / steps);
  std::string bar(static_cast<size_t>(filled), '=');
  // The last position of the bar shows '=' only when all steps are done.
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth, '.');
  const double per_step_ms =
      line.step == 0 ? 0
                     : absl::ToDoubleMilliseconds(line.elapsed) / static_cast<double>(line.step);
  std::string text = absl::StrFormat("%d/%d [%s] - %.1fs %.2fms/step", line.step, line.steps, bar,
                                     absl::ToDoubleSeconds(line.elapsed), per_step_ms);
  for (const auto& [name, value] : line.values) {
    // The sign of a NaN says nothing, and on x86 it depends on the operation.
    absl::StrAppend(&text, " - ", name, ": ",
                    std::isnan(value) ? "nan" : absl::StrFormat("%.4f", value));
  }
  return text;
}

ProgressBar::ProgressBar() : is_terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressBar::Update(const ProgressLine& line) {
  // The bar is not redrawn until some time after the last drawing, so that fast steps do not flood
  // the terminal.
  if (!is_terminal_ || line.elapsed - last_drawn_ < kRedraw) return;
  last_drawn_ = line.elapsed;
  std::fprintf(stderr, "\rEpoch %lld/%lld %s", static_cast<long long>(line.epoch),
               static_cast<long long>(line.epochs), FormatProgress(line).c_str());
}

void ProgressBar::Finish(const ProgressLine& line) {
  // The elapsed time of the next training epoch begins at 0, and its first line must be drawn at
  // once.
  last_drawn_ = -absl::InfiniteDuration();
  std::fprintf(stderr, "%sEpoch %lld/%lld %s\n", is_terminal_ ? "\r" : "",
               static_cast<long long>(line.epoch), static_cast<long long>(line.epochs),
               FormatProgress(line).c_str());
}

}  // namespace cohort
