#pragma once

// Makes one number of per-example losses, with Keras's denominators:
//
//   sum_over_batch_size      sum(w l) / number of l, whatever the weights are; under a mask,
//                            sum(w m l) / sum(m)
//   sum                      sum(w l)
//   mean_with_sample_weight  sum(w l) / sum(w); only in Keras 3
//   none                     the weighted losses themselves; a gradient is that of their sum
//
// The replicas of a step have a part of the batch each. A gradient that a replica computes counts
// by its number of examples, so a number whose denominator is not the number of losses is scaled
// such that the replicas' gradients join to the gradient of the whole batch.

#include <string>

#include "coordinator/losses/loss_table.h"

namespace cohort {

// The weights of the examples, and whether an entry counts; both may be absent. A weight for each
// example holds for all entries of its example.
struct ExampleWeights {
  NodeValue sample_weight;
  NodeValue mask;
};

// Returns the weight brought to the rank of `values`: as in Keras, axes of extent 1 are dropped or
// added at the end.
NodeValue AlignWeight(const NodeValue& weight, const NodeValue& values, FormulaNodes& nodes);

// Returns the loss as Keras's loss object gives it: a float32 scalar, or the weighted losses for
// LossReduction::kNone.
NodeValue ReduceLosses(LossReduction reduction, const ExampleLosses& losses,
                       const ExampleWeights& weights, FormulaNodes& nodes);

// The loss of a batch in a step's graph.
struct BatchLoss {
  std::string mean;  // float32 scalar from which gradients are taken
  std::string sum;   // float32 scalar: the loss of the batch times its number of examples
};

// Adds the loss of a batch. `examples` is the number of examples, a float32 scalar.
BatchLoss AddBatchLoss(LossReduction reduction, const ExampleLosses& losses,
                       const ExampleWeights& weights, const std::string& examples,
                       FormulaNodes& nodes);

}  // namespace cohort
