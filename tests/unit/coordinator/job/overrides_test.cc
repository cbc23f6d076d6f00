#include "coordinator/job/overrides.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json Apply(json job, const std::vector<std::string>& overrides) {
  const absl::Status status = ApplyOverrides(overrides, job);
  EXPECT_TRUE(status.ok()) << status;
  return job;
}

std::string Failure(json job, const std::string& one) {
  return std::string(ApplyOverrides({one}, job).message());
}

TEST(Overrides, ValuesAreJsonWhereTheyParseAndStringsElse) {
  const json job = {{"a", 0}};
  EXPECT_EQ(Apply(job, {"a=3"})["a"], json(3));
  EXPECT_EQ(Apply(job, {"a=0.5"})["a"], json(0.5));
  EXPECT_EQ(Apply(job, {"a=true"})["a"], json(true));
  EXPECT_EQ(Apply(job, {"a=null"})["a"], json(nullptr));
  EXPECT_EQ(Apply(job, {"a=[1,2]"})["a"], json({1, 2}));
  EXPECT_EQ(Apply(job, {"a=\"3\""})["a"], json("3"));
  EXPECT_EQ(Apply(job, {"a=/tmp/x=y"})["a"], json("/tmp/x=y"));
  EXPECT_EQ(Apply(job, {"a="})["a"], json(""));
  EXPECT_EQ(Apply(job, {"a=nan"})["a"], json("nan"));
}

// Such a text would else become a string, and the error of the section that gets it would not say
// what is wrong with it.
TEST(Overrides, AnObjectOrListThatIsNotJsonIsAnError) {
  EXPECT_THAT(Failure({}, R"(a={"b": 1, "b": 2})"),
              testing::AllOf(HasSubstr("--set a="), HasSubstr("b: given twice")));
  EXPECT_THAT(Failure({}, "a=[1,"), HasSubstr("not valid JSON"));
}

TEST(Overrides, PathsGoThroughObjectsAndListsAndMakeWhatIsMissing) {
  const json job = {{"list", {{{"x", 1}}, {{"x", 2}}}}, {"none", nullptr}};
  EXPECT_EQ(Apply(job, {"list.1.x=5"})["list"][1]["x"], json(5));
  EXPECT_EQ(Apply(job, {"new.deep.key=5"})["new"]["deep"]["key"], json(5));
  EXPECT_EQ(Apply(job, {"none.key=5"})["none"]["key"], json(5));
}

TEST(Overrides, LaterOnesWin) { EXPECT_EQ(Apply(json::object(), {"a=1", "a=2"})["a"], json(2)); }

TEST(Overrides, PathsThatLeadNowhereAreErrorsThatQuoteTheOverride) {
  const json job = {{"list", {1, 2}}, {"text", "rmsprop"}};
  EXPECT_THAT(Failure(job, "list.2=5"), HasSubstr("--set list.2=5: 'list' is a list of 2 items"));
  EXPECT_THAT(Failure(job, "list.-1=5"), HasSubstr("'-1'"));
  EXPECT_THAT(Failure(job, "list.x=5"), HasSubstr("'x'"));
  EXPECT_THAT(Failure(job, "text.config=5"),
              HasSubstr("'text' is \"rmsprop\", which has no fields"));
  EXPECT_THAT(Failure(job, "no_equals"), HasSubstr("path=value"));
  EXPECT_THAT(Failure(job, "=5"), HasSubstr("path=value"));
  EXPECT_THAT(Failure(job, "a..b=5"), HasSubstr("empty"));
  std::string long_path = "a";
  for (int i = 0; i < 1000; ++i) long_path += ".a";
  EXPECT_THAT(Failure(job, long_path + "=1"), HasSubstr("parts"));
}

}  // namespace
}  // namespace cohort
