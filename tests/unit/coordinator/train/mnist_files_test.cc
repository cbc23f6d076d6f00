// Synthetic digits are taken where there is no MNIST and the job says so, and nowhere else.

#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "coordinator/train/data_sources.h"
#include "coordinator/train/train_summary.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kNames[] = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                                  "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};

// Never waits.
class NoWaiter final : public Waiter {
 public:
  bool Wait(const Event&, absl::Duration) override { return false; }
};

class MnistFilesTest : public ::testing::Test {
 protected:
  MnistFilesTest() {
    search_.data_directory = "/data";
    search_.cache_directory = "/cache";
    search_.download = false;
  }

  void Put(const std::string& directory, size_t files) {
    ASSERT_TRUE(files_.MakeDirectories(directory + "/mnist").ok());
    for (size_t i = 0; i < files; ++i) {
      ASSERT_TRUE(
          WriteFileAtomically(files_, absl::StrCat(directory, "/mnist/", kNames[i]), "x").ok());
    }
  }

  absl::StatusOr<DataSources> Find(bool or_synthetic_digits) {
    MnistSpec train;
    train.or_synthetic_digits = or_synthetic_digits;
    MnistSpec test = train;
    test.split = "test";
    DataSpec data;
    data.train = train;
    data.test = test;
    return FindDataSources({sim_, sim_, files_, *transport_}, waiter_, data, search_, 1);
  }
  std::string Refusal(bool or_synthetic_digits) {
    const auto found = Find(or_synthetic_digits);
    EXPECT_FALSE(found.ok());
    return std::string(found.status().message());
  }

  SimWorld sim_{1};
  SimNetwork network_{sim_};
  std::unique_ptr<Transport> transport_ = network_.TransportOf("chief:0");
  MemoryFileSystem files_;
  NoWaiter waiter_;
  MnistSearch search_;
};

TEST_F(MnistFilesTest, AreTakenFromTheDirectoryAndThenFromTheCache) {
  Put("/cache", 4);
  EXPECT_EQ(Find(false)->train.idx().paths(0), std::string("/cache/mnist/") + kNames[0]);
  Put("/data", 4);
  EXPECT_EQ(Find(true)->name, "mnist");
  EXPECT_EQ(Find(false)->test->idx().paths(1), std::string("/data/mnist/") + kNames[3]);
}

TEST_F(MnistFilesTest, WhereThereAreNoneTheJobSaysWhatIsTaken) {
  EXPECT_THAT(Refusal(false), AllOf(HasSubstr("no MNIST: there is none in /data/mnist"),
                                    HasSubstr("\"otherwise\": \"synthetic_digits\"")));
  const auto found = Find(true);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->name, "synthetic_digits");
  EXPECT_TRUE(found->train.has_synthetic_digits());
  EXPECT_TRUE(found->test->has_synthetic_digits());
}

// People see the log line, programs the summary, and who tries deploy/quickstart.sh a sentence.
TEST_F(MnistFilesTest, InWhosePlaceOthersAreTakenAreSaidInLogSummaryAndQuickstart) {
  testing::internal::CaptureStderr();
  const auto found = Find(true);
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(said, AllOf(HasSubstr("level=warning"), HasSubstr("event=synthetic_data"),
                          HasSubstr("no MNIST: there is none in /data/mnist"),
                          HasSubstr("the train data are digits that the program makes"),
                          HasSubstr("the test data are digits that the program makes"),
                          HasSubstr("set COHORT_DATA_DIR")));
  TrainSummary summary;
  summary.data = found->name;
  const std::string in_summary = R"("data":"synthetic_digits")";
  EXPECT_THAT(SummaryToJson(summary), HasSubstr(in_summary));
  PosixFileSystem posix;
  const std::string script = *ReadFile(posix, COHORT_SOURCE_DIR "/deploy/quickstart.sh");
  EXPECT_THAT(script, AllOf(HasSubstr(absl::StrCat("grep -q '", in_summary, "'")),
                            HasSubstr("NOT MNIST: "), HasSubstr("Set COHORT_DATA_DIR")));
  EXPECT_THAT(script, HasSubstr("deploy/jobs/mnist_mlp.json"));
  const std::string job = *ReadFile(posix, COHORT_SOURCE_DIR "/deploy/jobs/mnist_mlp.json");
  EXPECT_THAT(job, HasSubstr("\"otherwise\": \"synthetic_digits\""));

  Put("/data", 4);
  testing::internal::CaptureStderr();
  EXPECT_EQ(Find(true)->name, "mnist");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(MnistFilesTest, ThatAreIncompleteAreAnErrorWhateverTheJobSays) {
  Put("/data", 3);
  for (const bool or_synthetic_digits : {false, true}) {
    EXPECT_THAT(Refusal(or_synthetic_digits),
                AllOf(HasSubstr("MNIST is incomplete: /data/mnist lacks"), HasSubstr(kNames[3])));
  }
}

TEST_F(MnistFilesTest, OfACacheThatAreIncompleteAreAnErrorToo) {
  Put("/cache", 1);
  EXPECT_THAT(Refusal(true), AllOf(HasSubstr("/cache/mnist lacks"), HasSubstr(kNames[1])));
}

// No permission, no descriptor left: each call that looks for a file may be the one.
TEST_F(MnistFilesTest, ThatCannotBeOpenedAreAnErrorWhateverTheJobSays) {
  Put("/data", 4);
  for (int64_t call = 0; call < 4; ++call) {
    for (const absl::Status& cause : {absl::PermissionDeniedError("cannot open it: EACCES"),
                                      absl::ResourceExhaustedError("cannot open it: EMFILE")}) {
      files_.FailAfter(call, cause);
      const auto found = Find(true);
      EXPECT_EQ(found.status().code(), cause.code()) << "call " << call;
      EXPECT_THAT(std::string(found.status().message()), HasSubstr(cause.message()));
    }
  }
}

}  // namespace
}  // namespace cohort
