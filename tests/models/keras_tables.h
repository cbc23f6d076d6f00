#pragma once

// The parts of docs/KERAS.md and docs/KERAS_OPTIONS.md that are made from the tables in the code
// and from the golden cases.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cohort {

// A document of which the part between two marks is made.
struct MadeDocument {
  std::string path;  // below the root of the source tree
  std::string made;  // the part, without the marks
};

// Returns the documents. Takes seconds: every golden case is read once for each of its options.
std::vector<MadeDocument> KerasDocuments();

// Returns "VERSION CLASS.KEY" of each option that a version has and no test covers. Takes seconds,
// too.
std::vector<std::string> OpenOptions();

// Returns `text`, the text of the document, with its made part replaced. Errors: INVALID_ARGUMENT
// if the marks are not there once each, in their order.
absl::StatusOr<std::string> WithMadePart(const MadeDocument& document, const std::string& text);

}  // namespace cohort
