#pragma once

// What a fuzz program of one format defines. fuzz_main.cc has the rest.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cohort {

// Returns inputs of the format from which the search begins.
std::vector<std::string> FuzzSeeds();

// Reads an input and everything in it. Any input may give any values or errors, as long as the
// process does not end, takes no more memory than the input is worth, and comes back soon.
void FuzzOne(absl::string_view input);

}  // namespace cohort
