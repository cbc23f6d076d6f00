#pragma once

// Mean and variance of numbers that are read in parts. The sums of a part depend on the order of
// its numbers, and those of all parts on the order in which they are joined, so parts of a fixed
// size, joined in the order of the data, give the same bits wherever they were computed.

#include <cstdint>

namespace cohort {

// Thread-compatible.
struct RunningMoments {
  int64_t count = 0;
  double mean = 0;
  double squares = 0;  // sum of the squared distances from the mean

  // Adds a number (Welford, "Note on a method for calculating corrected sums of squares", 1962).
  void Add(double value) {
    ++count;
    const double distance = value - mean;
    mean += distance / static_cast<double>(count);
    squares += distance * (value - mean);
  }
  // Adds the numbers of the next part (Chan, Golub and LeVeque, 1979).
  void Join(const RunningMoments& next) {
    if (next.count == 0) return;
    const auto here = static_cast<double>(count);
    const auto there = static_cast<double>(next.count);
    const double distance = next.mean - mean;
    count += next.count;
    mean += distance * there / (here + there);
    squares += next.squares + distance * distance * here * there / (here + there);
  }
  // Returns the variance of the population; 0 without numbers.
  double Variance() const { return count == 0 ? 0 : squares / static_cast<double>(count); }
};

}  // namespace cohort
