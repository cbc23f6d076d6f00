#pragma once

// The kernels of update rules that need numbers of the whole variable (UpdateRuleSpec::whole):
// adafactor, lamb and muon. An update takes all elements of the variable, because a sum over a part
// of them would give another update without a sign of it. The formulas are those of Keras
// (keras/src/optimizers/{adafactor,lamb,muon}.py, `update_step`); sums are in double, as a
// variable may have many elements.
//
// Adafactor, t from 1: rho = min(lr, 1 / sqrt(t));  alpha = max(epsilon_2, rms(v)) rho;
// q = g^2 + epsilon_1;  b = 1 - t^beta_2_decay;  for each matrix of the last two dimensions:
// r = b r + (1 - b) (mean of q over the last);  c = b c + (1 - b) (mean of q over the one before);
// s = r c / (mean of r), or without two dimensions: s = r = b r + (1 - b) q;
// u = g / sqrt(s);  v -= alpha u / max(1, rms(u) / clip_threshold)
//
// Lamb: m and u change as in Adam;  d = m / (1 - beta_1^t) / (sqrt(u / (1 - beta_2^t)) + epsilon);
// v -= lr d |v| / |d|, or lr d if a norm is 0.
//
// Muon: m = momentum m + g;  x = m, or with Nesterov: x = g + momentum m;  x is divided by its norm
// and then, ns_steps times, x = a x + (b y + c y y) x with y = x x^T, on the transposed matrix if
// it has more rows than columns;  v -= lr rms_rate sqrt(max(rows, columns)) x

#include <memory>

#include "common/runtime/update/optimizer_kernel.h"

namespace cohort {

// Returns the kernel of the rule, or null if the rule does not need the whole variable. The kernel
// computes on the processor.
std::unique_ptr<UpdateKernel> MakeWholeKernel(const KernelOptions& options);

}  // namespace cohort
