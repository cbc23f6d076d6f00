#pragma once

// The environment is read in this folder only, and through a getter, so that tests give their own;
// and where the running program lies.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

// The value of a variable; nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// Returns the variables of this process.
Environment ProcessEnvironment();

// Returns "NAME=value" of every variable that a child process inherits, with those of `changes`
// replaced or added.
std::vector<std::string> ChildEnvironment(const std::map<std::string, std::string>& changes);

// Returns the file that this process runs, or "" without /proc. A file that was replaced or removed
// meanwhile has a name that does not exist.
std::string ExecutablePath();

}  // namespace cohort
