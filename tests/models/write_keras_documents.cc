// Writes the made parts of docs/KERAS.md and docs/KERAS_OPTIONS.md anew: write_keras_documents.

#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/models/keras_tables.h"

namespace cohort {
namespace {

// Replaces the made part of one document. Returns the exit code.
int Write(const MadeDocument& document) {
  const std::string path = absl::StrCat(COHORT_SOURCE_DIR "/", document.path);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const absl::StatusOr<std::string> written = WithMadePart(document, text.str());
  if (!written.ok()) {
    std::cerr << written.status().message() << std::endl;
    return 2;
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << *written;
  file.close();
  if (file.fail()) {
    std::cerr << path << " cannot be written" << std::endl;
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace cohort

int main() {
  for (const cohort::MadeDocument& document : cohort::KerasDocuments()) {
    if (const int code = cohort::Write(document); code != 0) return code;
  }
  return 0;
}
