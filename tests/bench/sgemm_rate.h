#pragma once

// What a core can do at best with the matrix products of a step.

namespace cohort::bench {

struct Product {
  int m = 0;
  int n = 0;
  int k = 0;
};

// FLOP/s of oneDNN's SGEMM on one thread for this product.
double SgemmRate(const Product& product);

}  // namespace cohort::bench
