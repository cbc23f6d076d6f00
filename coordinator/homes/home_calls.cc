#include "coordinator/homes/home_calls.h"

#include <map>

namespace cohort {

std::vector<std::vector<size_t>> CallRounds(absl::Span<const SliceLoad> slices, size_t bytes_max) {
  struct Home {
    size_t round = 0;
    size_t bytes = 0;  // bytes in the call to the home of round `round`
  };
  std::map<size_t, Home> homes;
  std::vector<std::vector<size_t>> rounds(1);
  for (size_t i = 0; i < slices.size(); ++i) {
    Home& home = homes[slices[i].home];
    const size_t bytes = slices[i].bytes;
    // A call carries at least one slice, even if the slice is larger than bytes_max.
    const bool fits = home.bytes == 0 || (bytes <= bytes_max && home.bytes <= bytes_max - bytes);
    if (!fits) home = {home.round + 1, 0};
    home.bytes += bytes;
    // A home's round number grows by one at a time, so the list grows by one round at most.
    if (home.round == rounds.size()) rounds.emplace_back();
    rounds[home.round].push_back(i);
  }
  return rounds;
}

}  // namespace cohort
