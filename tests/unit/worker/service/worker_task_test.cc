// A worker and real parameter servers in one process, over the in-process transport.

#include "worker/service/worker_task.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "common/wire/error_detail.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

proto::DatasetSpec Spec(const std::string& text) {
  proto::DatasetSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

std::vector<int64_t> Values(const Tensor& tensor) {
  const auto span = tensor.span<int64_t>();
  return {span.begin(), span.end()};
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

class WorkerTaskTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 5;

  void SetUp() override {
    ASSERT_TRUE(cluster_.Attach(1).ok());
    proto::VariableLayout layout = MakeLayout("counter", DType::kInt64, {kRows}, {3, 2}, 0, 2);
    layout.mutable_rule()->set_op("assign_add");
    layouts_ = {layout};
    ASSERT_TRUE(cluster_.CreateVariables(layouts_).ok());
    count_ = CounterProgram(kRows, true);
    read_ = ReadProgram("counter", DType::kInt64, {kRows});
    const absl::Status registered = cluster_.Register(count_, layouts_);
    ASSERT_TRUE(registered.ok()) << registered;
    ASSERT_TRUE(cluster_.Register(read_, layouts_).ok());
  }

  std::vector<int64_t> Counter() {
    const auto fetched = cluster_.Run(cluster_.Closure(read_));
    EXPECT_TRUE(fetched.ok()) << fetched.status();
    return fetched.ok() ? Values((*fetched)[0]) : std::vector<int64_t>{};
  }

  WorkerCluster cluster_{2};
  std::vector<proto::VariableLayout> layouts_;
  proto::Program count_;
  proto::Program read_;
};

TEST_F(WorkerTaskTest, CountsOverSlicesOnTwoServers) {
  for (int64_t i = 0; i < 3; ++i) {
    const auto fetched = cluster_.Run(cluster_.Closure(count_));
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_THAT(Values((*fetched)[0]), Each(i));
    EXPECT_EQ((*fetched)[0].shape(), Shape{kRows});
  }
  EXPECT_THAT(Counter(), Each(3));
}

TEST_F(WorkerTaskTest, ManyClosuresInFlightCountOnceEach) {
  std::vector<Pending<proto::RunClosureResponse>> pending;
  for (int i = 0; i < 200; ++i) pending.push_back(cluster_.StartClosure(cluster_.Closure(count_)));
  for (auto& closure : pending) {
    const auto response = closure.get();
    ASSERT_TRUE(response.ok()) << response.status();
  }
  EXPECT_THAT(Counter(), Each(200));
}

// Every fifth answer of a server is lost and every eleventh call never arrives: the worker repeats,
// and the apply log keeps the count.
TEST_F(WorkerTaskTest, LostAnswersOfServersAreRepeatedAndCountOnce) {
  std::atomic<int> calls{0};
  cluster_.faults().SetFaults([&calls](const std::string& address, const std::string&) {
    if (address.rfind("ps:", 0) != 0) return Fault::kNone;
    const int call = ++calls;
    if (call % 11 == 0) return Fault::kRefuse;
    return call % 5 == 0 ? Fault::kLoseResponse : Fault::kNone;
  });
  int done = 0;
  for (int i = 0; i < 12; ++i) {
    const auto fetched = cluster_.Run(cluster_.Closure(count_));
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    ++done;
  }
  cluster_.faults().SetFaults(nullptr);
  EXPECT_GT(calls.load(), 12 * 4);
  EXPECT_THAT(Counter(), Each(done));
}

TEST_F(WorkerTaskTest, AClosureWhoseAnswerWasLostCountsOnceWhenItRunsAgain) {
  std::atomic<int> lose{1};
  cluster_.faults().SetFaults([&lose](const std::string&, const std::string& method) {
    return method == "/cohort.proto.WorkerService/RunClosure" && lose-- > 0 ? Fault::kLoseResponse
                                                                            : Fault::kNone;
  });
  proto::RunClosureRequest closure = cluster_.Closure(count_);
  EXPECT_EQ(cluster_.Run(closure).status().code(), absl::StatusCode::kUnavailable);
  closure.set_attempt(2);
  EXPECT_TRUE(cluster_.Run(closure).ok());
  EXPECT_THAT(Counter(), Each(1));
}

TEST_F(WorkerTaskTest, AServerThatIsGoneIsNamedWithItsIndex) {
  cluster_.SetLease(absl::Milliseconds(20));  // this is how long it waits for the server
  ASSERT_TRUE(cluster_.Attach(1).ok());
  cluster_.StopPs(1);
  const absl::Status status = cluster_.Run(cluster_.Closure(count_)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  const proto::ErrorDetail detail = DetailOf(status);
  EXPECT_EQ(detail.error_class(), proto::PS_LOST);
  EXPECT_EQ(detail.origin().role(), "ps");
  EXPECT_EQ(detail.origin().index(), 1);
  EXPECT_EQ(detail.closure_id(), 1u);
  EXPECT_EQ(detail.attempt(), 1u);
  EXPECT_THAT(MessageOf(status), HasSubstr("ps:1 at " + cluster_.ps_address(1)));
}

// The server is sound, and another worker may reach it.
TEST_F(WorkerTaskTest, AWorkerWithoutFilesForACallIsNamedItself) {
  cluster_.faults().SetFaults([](const std::string& address, const std::string&) {
    return address.rfind("ps:", 0) == 0 ? Fault::kNoFiles : Fault::kNone;
  });
  const absl::Status status = cluster_.Run(cluster_.Closure(count_)).status();
  cluster_.faults().SetFaults(nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(status).origin().role(), "worker");
  EXPECT_EQ(DetailOf(status).origin().incarnation(), 7u);
  EXPECT_THAT(MessageOf(status), ::testing::StartsWith("worker:"));
  EXPECT_THAT(MessageOf(status), HasSubstr(" has no files left to open: "));
  EXPECT_THAT(MessageOf(status), HasSubstr("all 40 files are in use"));
}

TEST_F(WorkerTaskTest, AServerThatWasNeverNamedIsLost) {
  proto::VariableLayout far = layouts_[0];
  far.mutable_slices(1)->set_ps(9);
  ASSERT_TRUE(cluster_.Register(read_, {far}).ok());
  const absl::Status status = cluster_.Run(cluster_.Closure(read_)).status();
  EXPECT_EQ(ClassOf(status), proto::PS_LOST);
  EXPECT_EQ(DetailOf(status).origin().index(), 9);
}

TEST_F(WorkerTaskTest, UnknownResourcesAreTransient) {
  proto::RunClosureRequest no_program = cluster_.Closure(EchoProgram());
  proto::RunClosureRequest no_iterator = cluster_.Closure(count_);
  no_iterator.set_iterator_id(77);
  proto::RunClosureRequest no_dataset = cluster_.Closure(count_);
  no_dataset.mutable_split()->set_dataset_id(78);
  for (const auto& closure : {no_program, no_iterator, no_dataset}) {
    const absl::Status status = cluster_.Run(closure).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(ClassOf(status), proto::TRANSIENT);
    EXPECT_EQ(DetailOf(status).origin().role(), "worker");
    EXPECT_EQ(DetailOf(status).origin().incarnation(), 7u);
    EXPECT_EQ(DetailOf(status).closure_id(), closure.closure_id());
  }
  EXPECT_EQ(ClassOf(cluster_.CreateIterator(1, 99)), proto::TRANSIENT);
}

TEST_F(WorkerTaskTest, AnIteratorYieldsEachElementOnceAndThenEnds) {
  const proto::Program echo = EchoProgram();
  ASSERT_TRUE(cluster_.Register(echo, {}).ok());
  const auto made = cluster_.CreateDataset(
      5, Spec("source{range{begin:0 end:100}} transforms{shuffle{buffer_size:100 seed:1}}"
              "transforms{batch{size:8}} transforms{prefetch:2}"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->cardinality(), 13);
  EXPECT_EQ(made->element_spec().ShortDebugString(), "components { dtype: 7 dims: -1 }");
  ASSERT_TRUE(cluster_.CreateIterator(6, 5).ok());
  std::vector<Pending<proto::RunClosureResponse>> pending;
  for (int i = 0; i < 15; ++i) {
    proto::RunClosureRequest closure = cluster_.Closure(echo);
    closure.set_iterator_id(6);
    pending.push_back(cluster_.StartClosure(closure));
  }
  std::set<int64_t> seen;
  std::set<int64_t> positions;
  int ended = 0;
  for (auto& closure : pending) {
    const auto response = closure.get();
    if (!response.ok()) {
      EXPECT_EQ(response.status().code(), absl::StatusCode::kOutOfRange);
      EXPECT_EQ(ClassOf(response.status()), proto::INPUT);
      ++ended;
      continue;
    }
    positions.insert(response->header.next_position().element());
    const auto fetched = *ReadTensors(response->header.fetches(), response->payload);
    for (const int64_t value : Values(fetched[0])) EXPECT_TRUE(seen.insert(value).second);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(positions.size(), 13u);
  EXPECT_EQ(*positions.rbegin(), 13);
  EXPECT_EQ(ended, 2);
}

TEST_F(WorkerTaskTest, ASplitIsTheSameOnEveryAttempt) {
  const proto::Program echo = EchoProgram();
  ASSERT_TRUE(cluster_.Register(echo, {}).ok());
  const auto spec = Spec(
      "source{range{begin:0 end:64}} transforms{shuffle{buffer_size:64 seed:1 "
      "reshuffle_each_iteration:true}} transforms{batch{size:16}}");
  ASSERT_TRUE(cluster_.CreateDataset(5, spec).ok());
  ASSERT_TRUE(cluster_.CreateDataset(5, spec).ok());  // a repeat is no error
  EXPECT_EQ(ClassOf(cluster_.CreateDataset(5, Spec("source{range{end:1}}")).status()),
            proto::INPUT);
  proto::RunClosureRequest closure = cluster_.Closure(echo);
  closure.mutable_split()->set_dataset_id(5);
  closure.mutable_split()->mutable_position()->set_epoch(2);
  closure.mutable_split()->mutable_position()->set_element(3);
  const auto first = cluster_.Run(closure);
  ASSERT_TRUE(first.ok()) << first.status();
  closure.set_attempt(2);
  EXPECT_EQ(Values((*first)[0]), Values((*cluster_.Run(closure))[0]));
  closure.mutable_split()->mutable_position()->set_element(4);
  const absl::Status past = cluster_.Run(closure).status();
  EXPECT_EQ(past.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ClassOf(past), proto::INPUT);
}

TEST_F(WorkerTaskTest, DataSetsThatCannotBeMadeAreInputErrors) {
  const absl::Status missing =
      cluster_.CreateDataset(5, Spec("source{idx{paths:'/nowhere/x.gz'}}")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ClassOf(missing), proto::INPUT);
  EXPECT_THAT(MessageOf(missing), HasSubstr("/nowhere/x.gz"));
  EXPECT_EQ(cluster_.CreateDataset(5, Spec("")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerTaskTest, ProgramsAreCheckedAgainstContentAndLayouts) {
  proto::RegisterProgramRequest forged;
  forged.set_epoch(1);
  forged.set_program_id("0123");
  *forged.mutable_program() = count_;
  const absl::Status status =
      cluster_.CallWorker<proto::RegisterProgramResponse>("RegisterProgram", forged).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr("0123"));

  EXPECT_THAT(MessageOf(cluster_.Register(count_, {})), HasSubstr("'counter', which has no"));
  proto::VariableLayout other = layouts_[0];
  other.set_dtype(static_cast<int32_t>(DType::kFloat32));
  EXPECT_THAT(MessageOf(cluster_.Register(count_, {other})),
              HasSubstr("bound to variable counter: float32[5]"));
  other = layouts_[0];
  other.mutable_slices(1)->set_row_begin(4);
  EXPECT_THAT(MessageOf(cluster_.Register(count_, {other})), HasSubstr("row 3 of 5 is next"));
  EXPECT_THAT(MessageOf(cluster_.Register(count_, {layouts_[0], layouts_[0]})),
              HasSubstr("two layouts"));
}

TEST_F(WorkerTaskTest, ArgumentsAndBatchesThatAreMissingAreNamed) {
  const proto::Program echo = EchoProgram();
  ASSERT_TRUE(cluster_.Register(echo, {}).ok());
  const absl::Status no_batch = cluster_.Run(cluster_.Closure(echo)).status();
  EXPECT_EQ(ClassOf(no_batch), proto::INPUT);
  EXPECT_THAT(MessageOf(no_batch), HasSubstr("reads 1 components"));

  proto::Program argument = echo;
  argument.mutable_inputs(0)->set_argument(0);
  ASSERT_TRUE(cluster_.Register(argument, {}).ok());
  const absl::Status no_argument = cluster_.Run(cluster_.Closure(argument)).status();
  EXPECT_EQ(ClassOf(no_argument), proto::APPLICATION);
  EXPECT_THAT(MessageOf(no_argument), HasSubstr("takes 1 arguments, 0 came"));

  const Tensor value = Tensor::FromVector<int64_t>({4, 5, 6}, Shape{3});
  proto::RunClosureRequest closure = cluster_.Closure(argument);
  *closure.add_arguments() = MetaOf(value);
  const auto fetched = cluster_.Run(closure, {SliceOf(value)});
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(Values((*fetched)[0]), (std::vector<int64_t>{4, 5, 6}));
  EXPECT_EQ(cluster_.Run(closure, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerTaskTest, AnotherCoordinatorFencesTheOldOneAndStartsEmpty) {
  const proto::RunClosureRequest old = cluster_.Closure(read_);
  ASSERT_TRUE(cluster_.Attach(2, 1).ok());  // the same one again: programs stay
  EXPECT_EQ(ClassOf(cluster_.Run(old).status()), proto::STALE);
  EXPECT_TRUE(cluster_.Run(cluster_.Closure(read_)).ok());
  ASSERT_TRUE(cluster_.Attach(3, 2).ok());
  EXPECT_EQ(cluster_.Run(cluster_.Closure(read_)).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(cluster_.Register(read_, layouts_).ok());
  EXPECT_TRUE(cluster_.Run(cluster_.Closure(read_)).ok());
}

TEST_F(WorkerTaskTest, ACancelledCallHarmsNoOther) {
  std::vector<Pending<proto::RunClosureResponse>> pending;
  std::vector<std::unique_ptr<Call>> handles(50);
  for (auto& handle : handles) {
    pending.push_back(cluster_.StartClosure(cluster_.Closure(count_), {}, &handle));
    handle->Cancel();
  }
  for (auto& closure : pending) {
    const auto response = closure.get();
    if (response.ok()) continue;
    EXPECT_EQ(response.status().code(), absl::StatusCode::kCancelled);
  }
  const auto before = Counter();
  EXPECT_TRUE(cluster_.Run(cluster_.Closure(count_)).ok());
  EXPECT_GT(Counter()[0], before[0]);
  cluster_.worker().Drain(absl::Seconds(30));
}

TEST_F(WorkerTaskTest, ReleasedResourcesAreGoneAndMayBeMadeAgain) {
  const auto spec = Spec("source{range{begin:0 end:4}}");
  ASSERT_TRUE(cluster_.CreateDataset(5, spec).ok());
  ASSERT_TRUE(cluster_.CreateIterator(6, 5).ok());
  proto::ReleaseResourcesRequest release;
  release.set_epoch(1);
  for (const uint64_t id : {5, 6, 1000}) release.add_ids(id);
  ASSERT_TRUE(
      cluster_.CallWorker<proto::ReleaseResourcesResponse>("ReleaseResources", release).ok());
  proto::RunClosureRequest closure = cluster_.Closure(count_);
  closure.set_iterator_id(6);
  EXPECT_EQ(cluster_.Run(closure).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(cluster_.CreateDataset(5, Spec("source{range{end:9}}")).ok());
}

TEST_F(WorkerTaskTest, DrainWaitsForClosuresAndRefusesNewOnes) {
  std::vector<Pending<proto::RunClosureResponse>> pending;
  for (int i = 0; i < 20; ++i) pending.push_back(cluster_.StartClosure(cluster_.Closure(count_)));
  cluster_.worker().Drain(absl::Seconds(60));
  for (auto& closure : pending) {
    const auto response = closure.get();
    if (response.ok()) continue;
    EXPECT_EQ(response.status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(cluster_.Run(cluster_.Closure(count_)).status().code(), absl::StatusCode::kUnavailable);
}

TEST(WorkerTask, RefusesEverythingBeforeAttach) {
  WorkerCluster cluster(1);
  const proto::Program echo = EchoProgram();
  EXPECT_EQ(ClassOf(cluster.Register(echo, {})), proto::STALE);
  EXPECT_EQ(ClassOf(cluster.Run(cluster.Closure(echo)).status()), proto::STALE);
}

}  // namespace
}  // namespace cohort
