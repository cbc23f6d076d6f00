#include "common/program/cohort_ops.h"

#include <exception>
#include <string>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "common/program/ops/schemas.h"
#include "onnx/defs/schema.h"

namespace cohort {
namespace {

// Registers the cohort domain and all its schemas with libonnx.
absl::Status RegisterAll() {
  auto& domains = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
  if (domains.Map().count(kCohortDomain) == 0) {
    domains.AddDomainToVersion(kCohortDomain, kCohortOpset, kCohortOpset);
  }
  for (onnx::OpSchema& schema : AllSchemas()) {
    schema.SetDomain(kCohortDomain).SinceVersion(kCohortOpset);
    const std::string name = schema.Name();
    try {
      const onnx::OpSchemaRegistry::OpSchemaRegisterOnce once(schema);
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat("schema of cohort.", name, ": ", error.what()));
    }
    // libonnx prints some registration errors and continues, so success is checked by looking up
    // the schema.
    if (onnx::OpSchemaRegistry::Schema(name, kCohortOpset, kCohortDomain) == nullptr) {
      return absl::InternalError(
          absl::StrCat("schema of cohort.", name, " was refused by libonnx"));
    }
  }
  return absl::OkStatus();
}

// The result of registering the schemas, and the flag that makes the registration happen once. A
// process has one Registration, because it has one registry of libonnx.
struct Registration {
  absl::once_flag once;
  absl::Status status;
};

Registration& TheRegistration() {
  // The Registration is never destroyed, because threads may load models while the process exits.
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
