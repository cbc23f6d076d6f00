#pragma once

// What is expected of the golden cases. refused.txt lists what is outside the layers, losses and
// optimizers that are supported, and a word that the refusal must contain. not_yet/FAMILY.txt lists
// the cases of a family that do not pass yet. The lists of not_yet may only shrink: a listed case
// that passes is an error, as is a case outside the lists that does not.

#include <map>
#include <set>
#include <string>

#include "tests/models/run_case.h"

namespace cohort {

// The lists for one family. Immutable after construction; thread-compatible.
class CaseExpectations {
 public:
  explicit CaseExpectations(const std::string& family);

  // Returns whether the case is to be refused.
  bool IsRefused(const ModelCase& one) const;
  // Returns "" if the verdict is the one that the project aims at: passed, or refused with the word
  // of refused.txt. Else returns what is wrong.
  std::string Wrong(const ModelCase& one, const Verdict& verdict) const;
  bool IsNotYet(const ModelCase& one) const;
  // Returns the lines of not_yet for which there is no case among `names`, each a version and a
  // name.
  std::set<std::string> LinesWithoutCase(const std::set<std::string>& names) const;

 private:
  // Returns the word for the case, or null if the case is not to be refused.
  const std::string* WordOf(const ModelCase& one) const;

  std::map<std::string, std::string> refused_;  // words by class or case
  std::set<std::string> not_yet_;               // "VERSION CASE"
};

}  // namespace cohort
