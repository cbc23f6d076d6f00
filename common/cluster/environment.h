#pragma once

// The environment is read in this folder only, and through a getter, so that tests give their own.

#include <functional>
#include <optional>
#include <string>

namespace cohort {

// The value of a variable; nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// The variables of this process.
Environment ProcessEnvironment();

}  // namespace cohort
