#include "tests/unit/common/runtime/golden_updates.h"

#include <fstream>

#include "common/program/update_rule.h"

namespace cohort {

namespace {

template <typename T>
std::vector<T> ReadNumbers(std::istream& in, size_t count) {
  std::vector<T> numbers(count);
  for (T& number : numbers) {
    double value = 0;
    in >> value;
    number = static_cast<T>(value);
  }
  return numbers;
}

}  // namespace

Golden ReadGolden() {
  std::ifstream in(COHORT_SOURCE_DIR "/tests/golden/optimizers/optimizers.txt");
  Golden golden;
  size_t rows = 0;
  size_t steps = 0;
  in >> rows >> golden.width >> steps;
  const size_t elements = rows * golden.width;
  golden.start = ReadNumbers<float>(in, elements);
  for (size_t i = 0; i < steps; ++i) golden.gradients.push_back(ReadNumbers<float>(in, elements));
  std::string word;
  while (in >> word) {
    if (word == "case") {
      GoldenCase next;
      std::string op;
      int parameters = 0;
      in >> op >> next.learning_rate >> parameters;
      next.rule.set_op(op);
      next.label = op;
      for (int i = 0; i < parameters; ++i) {
        proto::HyperParameter& parameter = *next.rule.add_parameters();
        double value = 0;
        in >> *parameter.mutable_name() >> value;
        parameter.set_value(value);
        next.label += " " + parameter.name();
      }
      golden.cases.push_back(next);
    } else {
      uint64_t step = 0;
      in >> step;
      golden.cases.back().values.emplace_back(step, ReadNumbers<double>(in, elements));
    }
  }
  return golden;
}

Slots MakeSlots(const proto::UpdateRule& rule, const std::vector<float>& start, size_t width) {
  Slots slots;
  const absl::StatusOr<UpdateRuleSpec> spec = DescribeUpdateRule(rule);
  for (const SlotSpec& slot : spec->slots) {
    slots.emplace_back(start.size() / (slot.per_row ? width : 1), slot.initial_value);
    if (slot.starts_as_value) slots.back() = start;
  }
  return slots;
}

}  // namespace cohort
