#pragma once

// Access to environment variables, and to the path of the running executable. Only common/cluster
// reads environment variables. Code there reads them through a getter (Environment), so that tests
// can pass variables of their own.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

// A getter that returns the value of an environment variable, or nullopt if the variable is not
// set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// Returns a getter for the environment variables of this process.
Environment ProcessEnvironment();

// Returns "NAME=value" for every variable of a child process: the variables of this process, with
// the variables in `changes` replaced or added.
std::vector<std::string> ChildEnvironment(const std::map<std::string, std::string>& changes);

// Returns the path of the executable that this process runs, or "" without /proc. If the file was
// replaced or removed after the start, the returned path does not exist.
std::string ExecutablePath();

}  // namespace cohort
