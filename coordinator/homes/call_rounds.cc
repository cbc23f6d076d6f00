#include "coordinator/homes/call_rounds.h"

#include <map>

namespace cohort {

std::vector<std::vector<size_t>> CallRounds(absl::Span<const SliceLoad> slices, size_t bytes_max) {
  struct Home {
    size_t round = 0;
    size_t bytes = 0;  // bytes of its call in that round
  };
  std::map<size_t, Home> homes;
  std::vector<std::vector<size_t>> rounds(1);
  for (size_t i = 0; i < slices.size(); ++i) {
    Home& home = homes[slices[i].home];
    const size_t bytes = slices[i].bytes;
    const bool fits = home.bytes == 0 || (bytes <= bytes_max && home.bytes <= bytes_max - bytes);
    if (!fits) home = {home.round + 1, 0};
    home.bytes += bytes;
    if (home.round == rounds.size()) rounds.emplace_back();
    rounds[home.round].push_back(i);
  }
  return rounds;
}

}  // namespace cohort
