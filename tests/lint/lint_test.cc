// First the rules on the repository, then each rule on something that breaks it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/lint/measures.h"
#include "tests/lint/rules.h"

namespace cohort::lint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The least median of the lines of a header and its source. With less, a reader who follows one
// thought opens too many files. The number of files has no limit: it grows with what the product
// does, and the report tells it.
constexpr size_t kPairLinesMin = 150;

// The repository. Thread-compatible.
class House : public ::testing::Test {
 protected:
  House() : files_(ReadTree(COHORT_SOURCE_DIR)) {}

  const SourceFile& File(const std::string& path) const {
    static const SourceFile none;
    for (const SourceFile& file : files_) {
      if (file.path == path) return file;
    }
    ADD_FAILURE() << path << " is missing";
    return none;
  }
  void ExpectNone(Findings (*check)(const SourceFile&)) {
    EXPECT_GT(files_.size(), 50u);
    for (const SourceFile& file : files_) {
      for (const std::string& finding : check(file)) ADD_FAILURE() << finding;
    }
  }

  const std::vector<SourceFile> files_;
};

TEST_F(House, SizesAreInBounds) {
  std::vector<Excess> excesses;
  for (const SourceFile& file : files_) {
    for (Excess& excess : MeasureSizes(file)) excesses.push_back(std::move(excess));
  }
  for (const std::string& finding : JudgeSizes(excesses, File("tests/lint/exceptions.txt").text)) {
    ADD_FAILURE() << finding;
  }
}

TEST_F(House, CodeFollowsTheRules) { ExpectNone(CheckCode); }
TEST_F(House, FilesSpeak) { ExpectNone(CheckComments); }
TEST_F(House, NothingBelongsToOneMachine) { ExpectNone(CheckPortable); }
TEST_F(House, IncludesFollowThePlan) { ExpectNone(CheckIncludes); }

TEST_F(House, TheApiHidesWhatStandsBehindIt) {
  for (const std::string& header : BehindTheApi()) EXPECT_FALSE(File(header).text.empty());
  const Findings findings = CheckApi(files_);
  EXPECT_THAT(findings, IsEmpty()) << absl::StrJoin(findings, "\n");
}

TEST_F(House, EveryTypeHasANameOfItsOwn) {
  const Findings findings = CheckTypeNames(files_);
  EXPECT_THAT(findings, IsEmpty()) << absl::StrJoin(findings, "\n");
}

TEST_F(House, WhatChangesAnObjectChecksItsInvariants) {
  const Findings findings = CheckInvariantsAfter(files_);
  EXPECT_THAT(findings, IsEmpty()) << absl::StrJoin(findings, "\n");
}

TEST_F(House, EveryClassHasOneSource) {
  const Findings findings = CheckSourcesOfClasses(files_);
  EXPECT_THAT(findings, IsEmpty()) << absl::StrJoin(findings, "\n");
}

TEST_F(House, HasNoCirclesAndNoCrowdedRooms) {
  const Measures measures = MeasureHouse(files_);
  std::cout << measures.report;
  EXPECT_THAT(measures.folder_circles, IsEmpty());
  EXPECT_THAT(measures.pair_circles, IsEmpty());
  EXPECT_THAT(measures.crowded_folders, IsEmpty());
  EXPECT_GE(measures.median_pair_lines, kPairLinesMin);
}

// Rules 38 to 40 of docs/STYLE.md in numbers.
TEST_F(House, CommentsBeginWithTheirSubject) {
  const Measures measures = MeasureHouse(files_);
  EXPECT_LE(measures.open_with_fragment, measures.comment_blocks * 2 / 100);
  EXPECT_GE(measures.open_with_verb, measures.comment_blocks * 18 / 100);
  EXPECT_EQ(measures.trailing_of, 0);
}

TEST_F(House, TopLevelIsFixed) {
  EXPECT_THAT(UnknownTopLevelEntries(COHORT_SOURCE_DIR), IsEmpty());
}

TEST_F(House, FilesAreSmall) {
  for (const SourceFile& file : files_) EXPECT_LE(file.text.size(), 1u << 20) << file.path;
}

TEST_F(House, CompatibilityTableIsTrue) {
  const Findings findings = CheckCompatibility(File("docs/COMPATIBILITY.md").text,
                                               File("tests/lint/requirement_ids.txt").text, files_);
  EXPECT_THAT(findings, IsEmpty()) << absl::StrJoin(findings, "\n");
}

TEST_F(House, DocumentsNameWhatIsThere) {
  Findings findings = CheckQuotedPaths(files_);
  const Findings names =
      CheckQuotedNames({"docs/ARCHITECTURE.md", "docs/COMPATIBILITY.md", "docs/CONTRIBUTING.md",
                        "docs/INVARIANTS.md", "docs/SECURITY.md", "docs/TESTING.md"},
                       files_);
  findings.insert(findings.end(), names.begin(), names.end());
  EXPECT_THAT(findings, IsEmpty()) << absl::StrJoin(findings, "\n");
}

TEST_F(House, EveryDecisionIsInItsIndex) {
  EXPECT_THAT(CheckDecisions(File("docs/DECISIONS.md")), IsEmpty());
}

TEST(CheckDecisions, FindsWhatAnIndexDoesNotList) {
  const auto check = [](const std::string& count, const std::string& index) {
    return CheckDecisions(
        MakeFile("docs/D.md",
                 absl::StrCat("# Decisions\n\n- [A, b](#a-b) (`common`): ", count, "\n\n# A, b\n",
                              index, "\n## One: x\nWhy: y.\n\n## Two\nWhy: z.\n")));
  };
  const std::string index = "- [One: x](#one-x)\n- [Two](#two)\n";
  EXPECT_THAT(check("2", index), IsEmpty());
  EXPECT_THAT(check("1", index), ElementsAre(HasSubstr("first index is not '- [A, b](#a-b) ...")));
  EXPECT_THAT(check("2", "- [One: x](#one-x)\n"), ElementsAre(HasSubstr("the index of 'A, b'")));
  EXPECT_THAT(check("2", "- [Two](#two)\n- [One: x](#one-x)\n"),
              ElementsAre(HasSubstr("in their order")));
}

TEST(CheckQuotes, FindsPathsAndNamesThatAreNotThere) {
  const std::vector<SourceFile> files = {
      MakeFile("worker/gang/gang_line.h", "class GangLine { void TakeTurn(); };"),
      MakeFile("docs/A.md",
               "`worker/gang`, `worker/gang/gang_line`, `worker/gang/gang_line.h`\n"
               "`worker/gone.h`, `GangLine::TakeTurn`, `GangLane.*`, `PS`, `gone/x`")};
  EXPECT_THAT(CheckQuotedPaths(files), ElementsAre("docs/A.md:2: there is no worker/gone.h"));
  EXPECT_THAT(CheckQuotedNames({"docs/A.md"}, files),
              ElementsAre("docs/A.md:2: nothing is called GangLane, of GangLane.*"));
}

TEST(CodeOnly, BlanksCommentsLiteralsAndDirectives) {
  EXPECT_EQ(CodeOnly("a // b\nc /* d\n */ e"), "a     \nc     \n    e");
  EXPECT_EQ(CodeOnly("f(\"x\\\"y\", 'z');"), "f(      ,    );");
  EXPECT_EQ(CodeOnly("#define A {\\\n }\nb"), "            \n  \nb");
  EXPECT_EQ(CodeOnly("x = R\"(a\"b)\";"), "x =         ;");
  EXPECT_EQ(CodeOnly("1'000 + 'c'"), "1'000 +    ");
}

std::string Lines(int count) { return absl::StrJoin(std::vector<int>(count, 1), ";\n") + ";\n"; }

std::vector<std::string> Rules(const SourceFile& file) {
  std::vector<std::string> rules;
  for (const Excess& excess : MeasureSizes(file)) {
    rules.push_back(absl::StrCat(excess.rule, " ", excess.size));
  }
  return rules;
}

TEST(MeasureSizes, FindsWhatIsTooLong) {
  EXPECT_THAT(Rules(MakeFile("a.cc", Lines(600))), IsEmpty());
  EXPECT_THAT(Rules(MakeFile("a.cc", Lines(601))), ElementsAre("file_lines 601"));
  EXPECT_THAT(Rules(MakeFile("a.h", Lines(301))), ElementsAre("file_lines 301"));
  EXPECT_THAT(Rules(MakeFile("a.h", Lines(300) + "\n// Why.\n\n")), IsEmpty());
  EXPECT_THAT(Rules(MakeFile("a.md", Lines(5000))), IsEmpty());
  EXPECT_THAT(Rules(MakeFile("a.cc", std::string(100, 'x'))), IsEmpty());
  EXPECT_THAT(Rules(MakeFile("a.cc", std::string(101, 'x') + "\n" + std::string(103, 'x'))),
              ElementsAre("line_columns 103"));
}

TEST(MeasureSizes, FindsLongFunctionsWhereverTheyAre) {
  const std::string body = "{\n" + Lines(60) + "}\n";
  for (const std::string head :
       {"int F(int a)", "namespace n {\nvoid C::F() const", "class C {\n void F()", "TEST(A, B)",
        "struct S { int x = 1; };\nC::C(int a) : a_(a)", "template <class T>\nvoid F(T t)"}) {
    EXPECT_THAT(Rules(MakeFile("a.cc", head + body)), ElementsAre(HasSubstr("function_lines 6")))
        << head;
  }
  EXPECT_THAT(Rules(MakeFile("a.cc", "int F() {\n" + Lines(57) + "}\n")), IsEmpty());
  EXPECT_THAT(Rules(MakeFile("a.cc", "namespace {\n" + Lines(90) + "}\n")), IsEmpty());
  EXPECT_THAT(Rules(MakeFile("a.cc", "class C {\n" + Lines(90) + "};\n")), IsEmpty());
}

TEST(MeasureHouse, FindsCirclesOfFoldersAndPairs) {
  const auto measure = [](const char* back) {
    return MeasureHouse({MakeFile("worker/a/x.h", "#include \"worker/b/y.h\"\n"),
                         MakeFile("worker/a/x.cc", "#include \"worker/a/x.h\"\n"),
                         MakeFile("worker/b/y.h", ""), MakeFile("worker/b/y.cc", back)});
  };
  EXPECT_THAT(measure("").folder_circles, IsEmpty());
  EXPECT_THAT(measure("").pair_circles, IsEmpty());
  EXPECT_EQ(measure("\n\n").median_pair_lines, 2u) << "x has 2 lines, y has 2";
  const Measures circle = measure("#include \"worker/a/x.h\"\n");
  EXPECT_THAT(circle.folder_circles, ElementsAre("worker/a worker/b"));
  EXPECT_THAT(circle.pair_circles, ElementsAre("worker/a/x worker/b/y"));
}

TEST(MeasureHouse, CountsStemsAndComments) {
  std::vector<SourceFile> files;
  for (int i = 0; i < 31; ++i) files.push_back(MakeFile(absl::StrCat("worker/a/f", i, ".h"), ""));
  EXPECT_THAT(MeasureHouse(files).crowded_folders, ElementsAre("worker/a: 31 stems, over 30"));
  files.pop_back();
  EXPECT_THAT(MeasureHouse(files).crowded_folders, IsEmpty());
  const Measures spoken = MeasureHouse(
      {MakeFile("worker/a.h", "// Returns x.\nint X();\n\n// Of two.\n// More.\nint Y();\n"),
       MakeFile("worker/a.cc", "#include \"worker/a.h\"\nint z;  // of y\nF(1,   // of x\n")});
  EXPECT_EQ(spoken.comment_blocks, 2u);
  EXPECT_EQ(spoken.open_with_verb, 1u);
  EXPECT_EQ(spoken.open_with_fragment, 1u);
  EXPECT_EQ(spoken.trailing_of, 2u);
}

TEST(JudgeSizes, ExceptionsOnlyShrink) {
  const std::vector<Excess> excess = {{"file_lines", "a.cc", 420, "too long"}};
  EXPECT_THAT(JudgeSizes(excess, ""), ElementsAre("too long"));
  EXPECT_THAT(JudgeSizes(excess, "# why\nfile_lines a.cc 420\n"), IsEmpty());
  EXPECT_THAT(JudgeSizes(excess, "file_lines a.cc 410\n"), ElementsAre("too long"));
  EXPECT_THAT(JudgeSizes(excess, "file_lines a.cc 430\n"), ElementsAre(HasSubstr("lower")));
  EXPECT_THAT(JudgeSizes({}, "file_lines a.cc 430\n"), ElementsAre(HasSubstr("remove")));
  EXPECT_THAT(JudgeSizes({}, "nonsense\n"), ElementsAre(HasSubstr("nonsense")));
}

TEST(CheckCode, FindsWhatIsForbidden) {
  const auto check = [](const char* path, const std::string& text) {
    return CheckCode(MakeFile(path, text));
  };
  EXPECT_THAT(check("worker/a.cc", "std::this_thread::sleep_for(x);"),
              ElementsAre(HasSubstr("time goes through Clock")));
  EXPECT_THAT(check("worker/a.cc", "\nabsl::SleepFor(x);"), ElementsAre(HasSubstr("a.cc:2:")));
  EXPECT_THAT(check("worker/a.cc", "// sleep_for(x)\nf(\"usleep(\");"), IsEmpty());
  EXPECT_THAT(check("worker/a.cc", "getenv(x);"), ElementsAre(HasSubstr("common/cluster only")));
  EXPECT_THAT(check("common/cluster/a.cc", "getenv(x);"), IsEmpty());
  EXPECT_THAT(check("worker/a.cc", "std::mutex m;"), ElementsAre(HasSubstr("the only lock")));
  EXPECT_THAT(check("worker/CamelCase.cc", ""), ElementsAre(HasSubstr("snake_case")));
  EXPECT_THAT(check("worker/a.h", "int x;"), ElementsAre(HasSubstr("#pragma once")));
}

TEST(CheckCode, ClassesSayWhereTheyMayBeUsed) {
  const auto check = [](const std::string& text) {
    return CheckCode(MakeFile("worker/a.h", "#pragma once\n" + text));
  };
  EXPECT_THAT(check("// A thing.\nclass A {\n};\n"), ElementsAre(HasSubstr("class A")));
  EXPECT_THAT(check("class A final : public B {\n};\n"), ElementsAre(HasSubstr("class A")));
  EXPECT_THAT(check("// A thing. Thread-safe.\nclass A {\n};\n"), IsEmpty());
  EXPECT_THAT(check("// Lives on strand x.\ntemplate <class T>\nclass A {\n};\n"), IsEmpty());
  EXPECT_THAT(check("class A;\n"), IsEmpty());
}

TEST(CheckComments, HeadersOpenWithOneAndLongSourcesHaveOne) {
  const auto check = [](const char* path, const std::string& text) {
    return CheckComments(MakeFile(path, text));
  };
  const std::string head = "#pragma once\n\n";
  EXPECT_THAT(check("worker/a.h", head + "#include <map>\n\n// A thing.\nstruct A;\n"),
              ElementsAre(HasSubstr("a.h:2: a header opens")));
  EXPECT_THAT(check("worker/a.h", head + "// Things.\n\n#include <map>\n"), IsEmpty());
  EXPECT_THAT(check("tests/a.h", head + "struct A;\n"), IsEmpty());
  EXPECT_THAT(check("worker/a.cc", Lines(60)), IsEmpty());
  EXPECT_THAT(check("worker/a.cc", Lines(61)), ElementsAre(HasSubstr("a.cc:1: no comment")));
  EXPECT_THAT(check("worker/a.cc", Lines(61) + "  // Why.\n"), IsEmpty());
}

TEST(CheckCode, WhatChangesAnObjectChecksItsInvariants) {
  const auto check = [](const std::string& text) {
    return CheckCode(MakeFile("worker/a.h", "#pragma once\n" + text));
  };
  const std::string method = "  void Set(int a) { a_ = a; }\n";
  EXPECT_THAT(check("  void CheckInvariants() const;\n" + method),
              ElementsAre(HasSubstr("a.h:3: Set changes")));
  EXPECT_THAT(check("  void CheckInvariants() const;\n  void Set(int a);\n"), IsEmpty());
  EXPECT_THAT(check(method), IsEmpty());
}

TEST(CheckInvariantsAfter, SeesBodiesInSources) {
  const std::string header = R"(#pragma once

class Able final : public B,
                   public C {
 public:
  explicit Able(int b);
  int size() const { return b_; }
  bool Has(const B& b) const;
  void Set(int b, F f = [](int) {});

 private:
  void CheckInvariants() const;
  void Move();
  int b_;
};
)";
  const auto check = [&](const std::string& body) {
    const std::string source = absl::StrCat(R"(
Able::Able(int b) : b_(b) { Move(); }

bool Able::Has(const B& b) const {
  return true;
}

void Able::Set(int b, F f) {
)",
                                            body, R"(}

void Able::Move() {
  const InvariantsAfter check(*this);
}
)");
    return CheckInvariantsAfter(
        {MakeFile("worker/a.h", header), MakeFile("worker/a_more.cc", source)});
  };
  EXPECT_THAT(check("  b_ = b;\n"),
              ElementsAre(HasSubstr("a.h:4: Able::Set changes the object and has no")));
  EXPECT_THAT(check("  // InvariantsAfter\n"), ElementsAre(HasSubstr("Able::Set")));
  EXPECT_THAT(check("  const InvariantsAfter check(*this);\n  b_ = b;\n"), IsEmpty());
  EXPECT_THAT(check("  strand_.Post([self] { self->Move(); });\n"), IsEmpty());
  EXPECT_THAT(check("  strand_.Post([self] { self->Has(1); });\n"),
              ElementsAre(HasSubstr("Able::Set")));
}

TEST(CheckSourcesOfClasses, AClassHasOneSourceOrIsAServiceByVerb) {
  const auto check = [](const char* one, const char* other, const std::string& type) {
    const std::string method =
        absl::StrCat("\nabsl::StatusOr<", type, "::B> ", type, "::Get(int b) {\n  return b;\n}\n");
    Findings findings = CheckSourcesOfClasses({MakeFile(one, method), MakeFile(other, method)});
    EXPECT_THAT(findings.back(), HasSubstr("remove VariableSlice")) << "no file has its methods";
    findings.resize(findings.size() - 3);  // the exceptions, all of which are unused here
    return findings;
  };
  EXPECT_THAT(
      check("worker/a.cc", "worker/a_more.cc", "A"),
      ElementsAre(HasSubstr("A has its methods in worker/a.cc, worker/a_more.cc: a class")));
  EXPECT_THAT(check("worker/a.cc", "tests/a.cc", "A"), IsEmpty());
  EXPECT_THAT(check("worker/service_pull.cc", "worker/a_service.cc", "AService"), IsEmpty());
  EXPECT_THAT(check("worker/service_pull.cc", "worker/more.cc", "AService"),
              ElementsAre(HasSubstr("AService has")));
  const SourceFile local = MakeFile("worker/b.cc", "\nclass B {\n};\n\nint B::Get() {\n}\n");
  const SourceFile also = MakeFile("worker/c.cc", "\nclass B {\n};\n\nint B::Get() {\n}\n");
  EXPECT_EQ(CheckSourcesOfClasses({local, also}).size(), 3u) << "each has a B of its own";
}

TEST(CheckTypeNames, ANameBelongsToOneType) {
  const auto check = [](const std::string& one, const std::string& other) {
    return CheckTypeNames({MakeFile("worker/a.h", one), MakeFile("common/b.cc", other)});
  };
  const std::string type = "namespace cohort {\nstruct A {\n};\n}\n";
  EXPECT_THAT(check(type, "// Thread-safe.\nclass A final : public B {\n};\n"),
              ElementsAre("common/b.cc:2: A is a type at worker/a.h:2 too: what links both has "
                          "one of them at random"));
  EXPECT_THAT(check(type, "namespace {\nstruct A {\n};\n}  // namespace\n"), IsEmpty());
  EXPECT_THAT(check(type, "struct A;\nstruct B {\n  struct A {\n  };\n};\nclass B::A {\n};\n"),
              IsEmpty());
}

TEST(CheckPortable, FindsOpenEndsAndMachines) {
  const auto check = [](const std::string& text) { return CheckPortable(MakeFile("a.sh", text)); };
  EXPECT_THAT(check(absl::StrCat("x TO", "DO y")), ElementsAre(HasSubstr("open ends")));
  EXPECT_THAT(check(absl::StrCat("see /wo", "rk/main")), ElementsAre(HasSubstr("one machine")));
  EXPECT_THAT(check(absl::StrCat("https://py", "pi.org/x")), ElementsAre(HasSubstr("registry")));
  EXPECT_THAT(check("a network/of/workers"), IsEmpty());
  EXPECT_THAT(CheckPortable(MakeFile("docs/STYLE.md", absl::StrCat("TO", "DO only with"))),
              IsEmpty());
}

TEST(CheckIncludes, FollowsTheArrows) {
  const auto check = [](const char* path, const char* include) {
    return CheckIncludes(MakeFile(path, absl::StrCat("#include ", include, "\n")));
  };
  EXPECT_THAT(check("common/wire/frames/a.cc", "\"common/cluster/b.h\""), IsEmpty());
  EXPECT_THAT(check("common/runtime/run/a.cc", "\"common/wire/b.h\""),
              ElementsAre(HasSubstr("common/runtime/run does not build on common/wire")));
  EXPECT_THAT(check("coordinator/api/a.cc", "\"common/runtime/run/b.h\""),
              ElementsAre(HasSubstr("not")));
  EXPECT_THAT(check("worker/ops/a.cc", "\"ps_server/slice/b.h\""), ElementsAre(HasSubstr("not")));
  EXPECT_THAT(check("worker/step/a.cc", "\"worker/gang/b.h\""), IsEmpty()) << "two rooms below";
  EXPECT_THAT(check("worker/gang/a.cc", "\"worker/step/b.h\""), ElementsAre(HasSubstr("not")));
  EXPECT_THAT(check("worker/gang/a.cc", "\"tests/b.h\""), ElementsAre(HasSubstr("but tests")));
  EXPECT_THAT(check("worker/collective/a.cc", "\"worker/collective/plan/b.h\""),
              ElementsAre(HasSubstr("not")));
  EXPECT_THAT(check("worker/elsewhere/a.cc", "\"worker/gang/b.h\""), IsEmpty())
      << "belongs to the room above, which is all of the worker";
  EXPECT_THAT(check("tests/a.cc", "\"ps_server/slice/b.h\""), IsEmpty());
  EXPECT_THAT(check("common/tensor/a.h", "\"proto/tensor.pb.h\""), ElementsAre(HasSubstr("not")));
  EXPECT_THAT(check("common/wire/a.cc", "<grpcpp/grpcpp.h>"), ElementsAre(HasSubstr("grpcpp/")));
  EXPECT_THAT(check("common/wire/grpc/a.cc", "<grpcpp/grpcpp.h>"), IsEmpty());
  EXPECT_THAT(check("common/cluster/a.h", "<CLI/CLI.hpp>"), ElementsAre(HasSubstr(".cc files")));
  EXPECT_THAT(check("common/cluster/a.cc", "<nlohmann/json.hpp>"), IsEmpty());
  EXPECT_THAT(check("coordinator/job/a.h", "<nlohmann/json.hpp>"),
              ElementsAre(HasSubstr(".cc files")));
  EXPECT_THAT(check("coordinator/job/a.h", "<nlohmann/json_fwd.hpp>"), IsEmpty());
  const std::string module = "worker/collective/nccl/backend/a";
  EXPECT_THAT(check((module + ".cc").c_str(), "<cuda_runtime_api.h>"), IsEmpty());
  EXPECT_THAT(check((module + ".cc").c_str(), "<nccl.h>"), IsEmpty());
  EXPECT_THAT(check((module + ".h").c_str(), "<nccl.h>"), ElementsAre(HasSubstr(".cc files")));
  EXPECT_THAT(check((module + ".cc").c_str(), "\"common/base/b.h\""),
              ElementsAre(HasSubstr("not")));
  EXPECT_THAT(check("worker/collective/nccl/a.cc", "<nccl.h>"), ElementsAre(HasSubstr("nccl.h")));
  EXPECT_THAT(check("worker/gang/a.cc", "<cuda_runtime_api.h>"), ElementsAre(HasSubstr("cuda")));
}

TEST(CheckApi, FindsWhatIsReachedByWayOfOtherHeaders) {
  const SourceFile api =
      MakeFile("coordinator/api/cohort.h", "#pragma once\n#include \"coordinator/api/a.h\"\n");
  const auto check = [&](const std::string& include) {
    return CheckApi({api, MakeFile("coordinator/api/a.h", absl::StrCat("\n#include ", include))});
  };
  EXPECT_THAT(check("\"coordinator/schedule/scheduler.h\"\n"),
              ElementsAre(HasSubstr("coordinator/api/a.h:2: includes")));
  EXPECT_THAT(check("\"coordinator/schedule/cut.h\"\n"), IsEmpty());
}

TEST(CheckCompatibility, EveryIdHasATrueRow) {
  const std::vector<SourceFile> files = {MakeFile("tests/a_test.cc", "TEST_P(Suite, Name) {}"),
                                         MakeFile("deploy/smoke.sh", "")};
  const auto check = [&](const std::string& table) {
    return CheckCompatibility(table, "AB-01\nAB-02\n", files);
  };
  const std::string second = "| AB-02 | y | not yet | |\n";
  const std::string first = "| AB-01 | x | works | RFC |\n";
  const std::string tests = "| AB-01 | Suite.Name, `deploy/smoke.sh` |\n";
  EXPECT_THAT(check(second + first + tests), IsEmpty());
  EXPECT_THAT(check(second), ElementsAre("AB-01: has no row"));
  EXPECT_THAT(check(second + first + "| AB-01 | Suite.Other |\n"),
              ElementsAre("AB-01: there is no test Suite.Other"));
  EXPECT_THAT(check(second + first), ElementsAre("AB-01: names no test"));
  EXPECT_THAT(check(second + first + "| AB-01 | |\n"), ElementsAre("AB-01: names no test"));
  EXPECT_THAT(check(second + first + tests + tests), ElementsAre("AB-01: has two rows of tests"));
  EXPECT_THAT(check(second + first + tests + "| AB-02 | Suite.Name |\n"),
              ElementsAre("AB-02: has tests, but no requirement that holds"));
  EXPECT_THAT(check(second + "| AB-01 | x | better | |\n" + tests),
              ElementsAre(HasSubstr("where its expectation")));
  EXPECT_THAT(check(second + "| AB-01 | x | maybe | |\n"), ElementsAre(HasSubstr("'maybe'")));
  EXPECT_THAT(check(second + "| AB-01 | x | not yet | |\n" + second),
              ElementsAre(HasSubstr("AB-02: is not in")));
  EXPECT_THAT(check(second + "| AB-01 | x | works |\n"),
              ElementsAre(HasSubstr("neither the four cells"), HasSubstr("no row")));
}

}  // namespace
}  // namespace cohort::lint
