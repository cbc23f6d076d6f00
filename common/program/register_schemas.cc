#include "common/program/register_schemas.h"

#include <exception>
#include <string>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "common/program/cohort_ops.h"
#include "common/program/opset.h"

namespace cohort {
namespace {

// Registers the cohort domain and all its schemas with libonnx.
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
    // libonnx prints some registration errors and continues, so only looking the schema up shows
    // whether the registration succeeded.
    if (onnx::OpSchemaRegistry::Schema(name, kCohortOpset, kCohortDomain) == nullptr) {
      return absl::InternalError(
          absl::StrCat("schema of cohort.", name, " was refused by libonnx"));
    }
  }
  return absl::OkStatus();
}

// The once flag and the result of the registration. Both belong to the process, because libonnx's
// registry does.
struct Registration {
  absl::once_flag once;
  absl::Status status;
};

Registration& TheRegistration() {
  // The registration is never destroyed, since threads may load models while the process exits.
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
