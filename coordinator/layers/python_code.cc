#include "coordinator/layers/python_code.h"

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "coordinator/json/json_reader.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

std::string TextAt(const json& form, const char* key) {
  const auto found = form.find(key);
  return found != form.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string PythonCodeOf(const json& form) {
  if (!form.is_object()) return "";
  const std::string class_name = TextAt(form, "class_name");
  if (class_name == "Lambda") return "is a Lambda";
  if (const std::string module = TextAt(form, "module"); !IsKerasModule(module)) {
    return absl::StrCat("is '", Excerpt(class_name), "' of the module '", Excerpt(module), "'");
  }
  // Keras 2 writes a registered name as the class, and Keras 3 beside it.
  for (const std::string& name : {TextAt(form, "registered_name"), class_name}) {
    if (IsOfOtherPackage(name))
      return absl::StrCat("is the registered class '", Excerpt(name), "'");
  }
  return "";
}

}  // namespace cohort
