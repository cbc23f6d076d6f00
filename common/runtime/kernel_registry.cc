#include "common/runtime/kernel_registry.h"

#include "common/base/check.h"

namespace cohort {

void KernelRegistry::Add(const std::string& domain, const std::string& op, KernelFactory factory) {
  const bool added = factories_.emplace(std::make_pair(domain, op), std::move(factory)).second;
  COHORT_CHECK(added, "one kernel per operator");
}

const KernelFactory* KernelRegistry::Find(const std::string& domain, const std::string& op) const {
  const auto it = factories_.find({domain, op});
  return it == factories_.end() ? nullptr : &it->second;
}

std::vector<std::pair<std::string, std::string>> KernelRegistry::Names() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

}  // namespace cohort
