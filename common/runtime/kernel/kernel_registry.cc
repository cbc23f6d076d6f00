#include "common/runtime/kernel/kernel_registry.h"

#include <utility>

#include "common/base/check.h"

namespace cohort {

absl::Status WaitingKernel::Run(KernelContext&) const {
  // A runner never gets here: it calls Start of a waiting kernel instead of Run.
  return absl::FailedPreconditionError("its kernel waits, and is started by a runner alone");
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
