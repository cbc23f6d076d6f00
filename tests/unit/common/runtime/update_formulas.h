#pragma once

// The optimizers' formulas in double, for one element.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cohort {

constexpr uint64_t kStepMax = 2000;

using Parameters = std::map<std::string, double>;

// One element before the step, and what the formula makes of it.
struct Element {
  double g = 0;
  double v = 0;
  std::vector<double> slots;
  double row_square = 0;  // mean of g^2 in the row
  double scale = 0;       // the largest of what is added up to the next v
};

struct Step {
  Parameters p;
  double lr = 0;
  double t = 1;
};

using Formula = std::function<void(const Step&, Element&)>;

// What a row misses is steps with a gradient of zeros; where update_rule.h says otherwise, there is
// `missed`.
struct RuleFormula {
  const char* op;
  Formula formula;
  double units = 5;  // allowed, in half units of the last place of the largest part of v
  // `times` steps on end; v has not decayed yet.
  std::function<void(const Step&, double times, Element&)> missed = {};
};

// What `times` steps without a gradient do; the element keeps its own for the step that follows.
void MissSteps(const RuleFormula& rule, const Step& s, double times, Element& e);

// Of all optimizers.
std::vector<RuleFormula> RuleFormulas();

}  // namespace cohort
