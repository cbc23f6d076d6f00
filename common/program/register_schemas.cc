#include "common/program/register_schemas.h"

#include <exception>
#include <string>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "common/program/cohort_ops.h"
#include "common/program/opset.h"

namespace cohort {
namespace {

absl::Status RegisterAll() {
  auto& domains = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
  if (domains.Map().count(kCohortDomain) == 0) {
    domains.AddDomainToVersion(kCohortDomain, kCohortOpset, kCohortOpset);
  }
  for (onnx::OpSchema& schema : CohortSchemas()) {
    const std::string name = schema.Name();
    try {
      const onnx::OpSchemaRegistry::OpSchemaRegisterOnce once(schema);
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat("schema of cohort.", name, ": ", error.what()));
    }
    // Registration prints some errors and goes on; only a look-up tells.
    if (onnx::OpSchemaRegistry::Schema(name, kCohortOpset, kCohortDomain) == nullptr) {
      return absl::InternalError(
          absl::StrCat("schema of cohort.", name, " was refused by libonnx"));
    }
  }
  return absl::OkStatus();
}

// libonnx's registry belongs to the process, so the once and its outcome do too.
struct Registration {
  absl::once_flag once;
  absl::Status status;
};

Registration& TheRegistration() {
  static auto* const registration = new Registration;
  return *registration;
}

}  // namespace

absl::Status RegisterCohortSchemas() {
  Registration& registration = TheRegistration();
  absl::call_once(registration.once, [&] { registration.status = RegisterAll(); });
  return registration.status;
}

}  // namespace cohort
