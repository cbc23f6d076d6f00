// Rules about classes and the files that define their methods.

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/lint/rules.h"

namespace cohort::lint {

namespace {

bool IsProduct(const SourceFile& file) {
  return !absl::StartsWith(file.path, "tests/") && !absl::StartsWith(file.path, "docs/");
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Returns the position behind the bracket that closes the one at `open`, or the end of the code.
size_t BehindBracket(const std::string& code, size_t open) {
  const char closing = code[open] == '(' ? ')' : '}';
  int depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    if (code[i] == code[open]) ++depth;
    if (code[i] == closing && --depth == 0) return i + 1;
  }
  return code.size();
}

// A method that a class declares, and whether it may change the object.
struct Method {
  std::string name;
  bool changes = false;
};

// Returns the method that a declaration declares; a name of "" for any other declaration. `text`
// has everything up to the semicolon or the body.
Method MethodOf(const std::string& text) {
  static const std::regex other(
      "\\s*(using|struct|class|enum|static|explicit|friend|~|virtual ~).*");
  static const std::regex name("(\\w+)\\(");
  std::smatch match;
  if (std::regex_match(text, other) || !std::regex_search(text, match, name)) return {};
  const size_t open = static_cast<size_t>(match.position()) + match.length() - 1;
  const std::string behind = text.substr(BehindBracket(text, open));
  return {match[1].str(), !absl::StrContains(behind, "const")};
}

// Returns the public methods of the class whose body is `body`: those that are only declared there.
std::vector<Method> PublicMethods(const std::string& body) {
  std::vector<Method> methods;
  bool is_public = false;
  size_t begin = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] == '(') i = BehindBracket(body, i) - 1;
    if (body[i] == ':' && i > 0) {
      const absl::string_view label =
          absl::StripAsciiWhitespace(absl::string_view(body).substr(begin, i - begin));
      if (label == "public" || label == "private" || label == "protected") {
        is_public = label == "public";
        begin = i + 1;
      }
    } else if (body[i] == ';' || body[i] == '{') {
      std::string text = body.substr(begin, i - begin);
      std::replace(text.begin(), text.end(), '\n', ' ');
      const Method method = MethodOf(text);
      if (is_public && body[i] == ';' && !method.name.empty()) methods.push_back(method);
      if (body[i] == '{') i = BehindBracket(body, i) - 1;
      begin = i + 1;
    }
  }
  return methods;
}

// Returns the bodies of the functions that a source defines, by "Class::Method". A method with
// several overloads has their bodies together.
std::map<std::string, std::string> BodiesIn(const SourceFile& file) {
  static const std::regex head("\n(?:[^\\s#}][^\n;{]*?[\\s*&])?(\\w+::~?\\w+)\\(");
  std::map<std::string, std::string> bodies;
  const std::string code = "\n" + file.code;
  for (auto match = std::sregex_iterator(code.begin(), code.end(), head);
       match != std::sregex_iterator(); ++match) {
    const size_t open = static_cast<size_t>(match->position()) + match->length() - 1;
    const size_t behind = BehindBracket(code, open);
    const size_t brace = code.find_first_of("{;", behind);
    if (brace == std::string::npos || code[brace] == ';') continue;
    bodies[(*match)[1].str()] += code.substr(brace, BehindBracket(code, brace) - brace);
  }
  return bodies;
}

// Methods of which the end is no point at which invariants hold, or that change nothing.
const std::set<std::string>& Unchecked() {
  static const auto* const names = new std::set<std::string>{
      "ValueBuffer::Next",        // Commit ends the change that it begins
      "LaneGroup::OnAskProgress"  // only reads, on the strand
  };
  return *names;
}

// Returns whether the body checks invariants at its end: itself, by the scheduler's Change, or in a
// method of the same object to which it posts.
bool Checks(const std::string& body, const std::string& type,
            const std::map<std::string, std::string>& bodies) {
  if (absl::StrContains(body, "InvariantsAfter")) return true;
  if (absl::StrContains(body, "Change change(*this)")) return true;
  static const std::regex posted("self->(\\w+)\\(");
  for (auto match = std::sregex_iterator(body.begin(), body.end(), posted);
       match != std::sregex_iterator(); ++match) {
    const auto found = bodies.find(absl::StrCat(type, "::", (*match)[1].str()));
    if (found != bodies.end() && absl::StrContains(found->second, "InvariantsAfter")) return true;
  }
  return false;
}

// Classes with more than one source, each with the reason. The list may only shrink.
const std::set<std::string>& ClassesInSeveralSources() {
  static const auto* const names = new std::set<std::string>{
      "Cluster",       // tasks and epochs; members: two files below 600 lines
      "Scheduler",     // the state; calls of workers; restores and cuts
      "VariableSlice"  // changes and slots are read from payloads, which the service knows
  };
  return *names;
}

// Returns whether the class is a service whose handlers have a file for each verb.
bool IsServiceByVerb(const std::string& type, const std::set<std::string>& sources) {
  return absl::EndsWith(type, "Service") &&
         std::all_of(sources.begin(), sources.end(), [&](const std::string& path) {
           return absl::StrContains(path, "/service_") || absl::EndsWith(path, "_service.cc");
         });
}

// Returns the sources that define methods of each class that headers declare. A class that a source
// defines belongs to that source.
std::map<std::string, std::set<std::string>> SourcesOfClasses(
    const std::vector<SourceFile>& files) {
  static const std::regex local("\n(?:class|struct) (?:ABSL_\\w+ )?(\\w+)[^;{]*\\{");
  std::map<std::string, std::set<std::string>> sources;
  for (const SourceFile& file : files) {
    if (!IsCpp(file) || IsHeader(file) || !IsProduct(file)) continue;
    std::set<std::string> own;
    for (auto match = std::sregex_iterator(file.code.begin(), file.code.end(), local);
         match != std::sregex_iterator(); ++match) {
      own.insert((*match)[1].str());
    }
    for (const auto& [name, body] : BodiesIn(file)) {
      const std::string type = name.substr(0, name.find(':'));
      if (own.count(type) == 0) sources[type].insert(file.path);
    }
  }
  return sources;
}

}  // namespace

Findings CheckSourcesOfClasses(const std::vector<SourceFile>& files) {
  Findings findings;
  std::set<std::string> exceptions = ClassesInSeveralSources();
  for (const auto& [type, sources] : SourcesOfClasses(files)) {
    if (sources.size() == 1 || IsServiceByVerb(type, sources)) continue;
    if (exceptions.erase(type) > 0) continue;
    findings.push_back(absl::StrCat(type, " has its methods in ", absl::StrJoin(sources, ", "),
                                    ": a class has one source, or is a service by verb"));
  }
  for (const std::string& type : exceptions) {
    findings.push_back(absl::StrCat("class_rules.cc: remove ", type, ", which has one source now"));
  }
  return findings;
}

Findings CheckInvariantsAfter(const std::vector<SourceFile>& files) {
  static const std::regex type("\nclass (?:ABSL_\\w+ )?(\\w+)[^;{]*\\{");
  Findings findings;
  for (const SourceFile& header : files) {
    if (!IsHeader(header) || !IsProduct(header)) continue;
    if (!absl::StrContains(header.code, " CheckInvariants() const")) continue;
    std::map<std::string, std::string> bodies;
    for (const SourceFile& source : files) {
      if (IsHeader(source) || !IsCpp(source) || FolderOf(source.path) != FolderOf(header.path)) {
        continue;
      }
      for (auto& [name, body] : BodiesIn(source)) bodies[name] += body;
    }
    for (auto match = std::sregex_iterator(header.code.begin(), header.code.end(), type);
         match != std::sregex_iterator(); ++match) {
      const size_t open = static_cast<size_t>(match->position()) + match->length() - 1;
      const std::string body =
          header.code.substr(open + 1, BehindBracket(header.code, open) - open - 2);
      if (!absl::StrContains(body, " CheckInvariants() const")) continue;
      const std::string name = (*match)[1].str();
      for (const Method& method : PublicMethods(body)) {
        if (method.name == name) continue;  // a constructor has nothing to change
        const std::string full = absl::StrCat(name, "::", method.name);
        const auto found = bodies.find(full);
        if (!method.changes || found == bodies.end() || Unchecked().count(full) > 0) continue;
        if (Checks(found->second, name, bodies)) continue;
        findings.push_back(
            At(header, LineOf(header.code, open),
               absl::StrCat(full, " changes the object and has no InvariantsAfter")));
      }
    }
  }
  return findings;
}

}  // namespace cohort::lint
