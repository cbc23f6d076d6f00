#include "common/runtime/kernel/kernel_signature.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cohort {

namespace {

// Returns the name of the value's element type if the set lacks that type, else "". A type that
// tensors of this runtime cannot have (int16, a sequence) is in no set.
std::string LackingType(const std::string& value, const DTypeSet& set, const ValueTypes& types) {
  const std::string name = value.empty() ? "" : types.ElementTypeName(value);
  return set.Contains(types.dtype(value)) ? "" : name;
}

}  // namespace

std::string DTypeSet::ToString() const {
  std::vector<std::string> names;
  for (int32_t number = 0; number < 32; ++number) {
    const auto dtype = DTypeFromNumber(number);
    if (dtype.ok() && Contains(*dtype)) names.emplace_back(DTypeName(*dtype));
  }
  return absl::StrJoin(names, ", ");
}

absl::Status CheckArity(const onnx::NodeProto& node, const Signature& signature) {
  const int min = signature.min_inputs;
  if (node.input_size() < min || node.input_size() > signature.max_inputs) {
    return absl::InvalidArgumentError(absl::StrCat("has ", node.input_size(), " inputs, needs ",
                                                   min, " to ", signature.max_inputs));
  }
  for (int i = 0; i < min; ++i) {
    if (node.input(i).empty()) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
    }
  }
  if (node.output_size() < 1 || node.output_size() > signature.max_outputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", node.output_size(), " outputs, needs 1 to ", signature.max_outputs));
  }
  return absl::OkStatus();
}

std::vector<std::string> LackingTypes(const onnx::NodeProto& node, const Signature& signature,
                                      const ValueTypes& types) {
  std::vector<std::string> reasons;
  std::vector<std::string> seen;  // sentences so far, so that inputs of one type give one sentence
  for (int i = 0; i < node.input_size() && !signature.inputs.empty(); ++i) {
    const size_t last = signature.inputs.size() - 1;
    const DTypeSet& set = signature.inputs[std::min(static_cast<size_t>(i), last)];
    const std::string type = LackingType(node.input(i), set, types);
    if (type.empty()) continue;
    const std::string rest = absl::StrCat(" is ", type, ", but its kernel has ", set.ToString());
    if (std::find(seen.begin(), seen.end(), rest) != seen.end()) continue;
    seen.push_back(rest);
    reasons.push_back(absl::StrCat("input ", i, " '", node.input(i), "'", rest));
  }
  // Outputs are reported only if all inputs fit: the type of an output usually follows from the
  // inputs.
  for (int i = 0; i < node.output_size() && reasons.empty(); ++i) {
    const std::string type = LackingType(node.output(i), signature.outputs, types);
    if (type.empty()) continue;
    reasons.push_back(absl::StrCat("output ", i, " '", node.output(i), "' is ", type,
                                   ", but its kernel makes ", signature.outputs.ToString()));
  }
  return reasons;
}

}  // namespace cohort
