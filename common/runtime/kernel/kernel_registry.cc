#include "common/runtime/kernel/kernel_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace cohort {

namespace {

// Returns the name of the value's element type if `set` lacks that type, else "". A type that this
// runtime's tensors cannot have, such as int16 or a sequence, counts as lacking.
std::string LackingType(const std::string& value, const DTypeSet& set, const ValueTypes& types) {
  const std::string name = value.empty() ? "" : types.ElementTypeName(value);
  return set.Contains(types.dtype(value)) ? "" : name;
}

}  // namespace

absl::Status WaitingKernel::Run(KernelContext&) const {
  // A waiting kernel has no Run of its own: runners call Start instead, so a call of Run is an
  // error.
  return absl::FailedPreconditionError("its kernel waits, and is started by a runner alone");
}

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
  // The sentences so far, without the inputs' names: several inputs of one wrong type give only one
  // sentence.
  std::vector<std::string> seen;
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
  // An output of a wrong type is reported only if all inputs fit: the type of an output usually
  // follows from the inputs.
  for (int i = 0; i < node.output_size() && reasons.empty(); ++i) {
    const std::string type = LackingType(node.output(i), signature.outputs, types);
    if (type.empty()) continue;
    reasons.push_back(absl::StrCat("output ", i, " '", node.output(i), "' is ", type,
                                   ", but its kernel makes ", signature.outputs.ToString()));
  }
  return reasons;
}

void KernelRegistry::Add(const std::string& domain, const std::string& op,
                         KernelDefinition definition) {
  const bool added = definitions_.emplace(std::make_pair(domain, op), std::move(definition)).second;
  COHORT_CHECK(added, "one kernel per operator");
}

void KernelRegistry::Replace(const std::string& domain, const std::string& op,
                             KernelDefinition definition) {
  const auto found = definitions_.find({domain, op});
  COHORT_CHECK(found != definitions_.end(), "there is a kernel to replace");
  found->second = std::move(definition);
}

const KernelDefinition* KernelRegistry::Find(const std::string& domain,
                                             const std::string& op) const {
  const auto it = definitions_.find({domain, op});
  return it == definitions_.end() ? nullptr : &it->second;
}

const KernelDefinition* KernelRegistry::FindFor(const onnx::NodeProto& node) const {
  // "ai.onnx" is the long name of ONNX's default domain, which kernels register as "".
  return Find(node.domain() == "ai.onnx" ? "" : node.domain(), node.op_type());
}

std::vector<std::string> KernelRegistry::Problems(const onnx::NodeProto& node,
                                                  const ValueTypes& types) const {
  const KernelDefinition* definition = FindFor(node);
  if (definition == nullptr) return {"has no kernel"};
  return LackingTypes(node, definition->signature, types);
}

std::vector<std::pair<std::string, std::string>> KernelRegistry::Names() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, definition] : definitions_) names.push_back(name);
  return names;
}

}  // namespace cohort
