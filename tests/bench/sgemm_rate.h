#pragma once

// What cores can do at best with the matrix products of a step.

namespace cohort::bench {

struct Product {
  int m = 0;
  int n = 0;
  int k = 0;
};

// FLOP/s of oneDNN's SGEMM for this product on one thread.
double SgemmRate(const Product& product);

// The same on `threads` threads at once, together: cores that share what they compute with do less
// than one does times their number.
double SgemmRate(const Product& product, int threads);

}  // namespace cohort::bench
