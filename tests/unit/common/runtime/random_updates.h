#pragma once

// Random steps of optimizers, and how near to its formula (update_formulas.h) a kernel has to be.

#include <string>

#include "common/program/update_rule.h"
#include "tests/support/sequence_rng.h"
#include "tests/unit/common/runtime/update_formulas.h"

namespace cohort {

inline constexpr double kUnit = 1.0 / (1 << 24);  // half a unit of the last place of 1 in float32

// Those that the formula needs, in the ranges of use.
Parameters RandomParameters(const std::string& op, SequenceRng& rng);

proto::UpdateRule RuleOf(const std::string& op, const Parameters& parameters);

// Squares of a mean of 0.7 at most of their root; all else of a size around 1.
void RandomState(const UpdateRuleSpec& spec, SequenceRng& rng, Element& e);

// Of the slot number `index`; e is what the formula has made of it.
double SlotTolerance(const RuleFormula& rule, const SlotSpec& slot, const Step& step,
                     const Element& e, size_t index);

}  // namespace cohort
