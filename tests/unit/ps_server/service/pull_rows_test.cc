// Pulls of some rows, against the same rows of pulls of whole slices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// Slices 1 and 2 of a table of 11 rows on ps 0 and 1; slice 3 and 4 of a vector.
std::vector<proto::VariableLayout> Layouts() {
  return LayOut({{"table", DType::kFloat32, Shape{11, 3}}, {"vector", DType::kFloat32, Shape{4}}},
                2);
}

void AddRows(Envelope<proto::PullRequest>& pull, uint32_t slice, const std::vector<int64_t>& ids) {
  const Tensor tensor = Tensor::FromVector<int64_t>(ids, {static_cast<int64_t>(ids.size())});
  proto::PullRows& rows = *pull.header.add_rows();
  rows.set_slice_id(slice);
  *rows.mutable_ids() = MetaOf(tensor);
  if (!ids.empty()) pull.payload.push_back(SliceOf(tensor));
}

class PullRows : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cluster.CreateAll(Layouts()).ok()); }

  absl::StatusOr<std::vector<Tensor>> Pull(int ps, Envelope<proto::PullRequest> request) {
    auto answer =
        cluster.Call<proto::PullResponse>(ps, "/cohort.proto.PsService/Pull", std::move(request));
    if (!answer.ok()) return answer.status();
    EXPECT_EQ(answer->header.versions_size(), answer->header.tensors_size());
    return ReadTensors(answer->header.tensors(), answer->payload);
  }

  PsCluster cluster{2};
};

TEST_F(PullRows, ComeInTheOrderOfTheIdsBehindWholeSlices) {
  const auto whole = cluster.Pull(1, {2, 4});
  ASSERT_TRUE(whole.ok()) << whole.status();
  Envelope<proto::PullRequest> pull = PullOf({4});
  AddRows(pull, 2, {10, 6, 10});  // the slice begins at row 6
  const auto rows = Pull(1, std::move(pull));
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].shape(), (Shape{2}));
  ASSERT_EQ((*rows)[1].shape(), (Shape{3, 3}));
  const int64_t at[] = {4, 0, 4};
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::memcmp((*rows)[1].Rows(i, 1).raw(), (*whole)[0].Rows(at[i], 1).raw(), 12), 0);
  }
  EXPECT_NE(std::memcmp((*rows)[1].Rows(0, 1).raw(), (*rows)[1].Rows(1, 1).raw(), 12), 0);
}

TEST_F(PullRows, NoneOfASliceIsAnAnswerToo) {
  Envelope<proto::PullRequest> pull = PullOf({});
  AddRows(pull, 1, {});
  AddRows(pull, 3, {1});
  const auto rows = Pull(0, std::move(pull));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)[0].shape(), (Shape{0, 3}));
  EXPECT_EQ((*rows)[1].shape(), (Shape{1}));
  EXPECT_EQ(cluster.Stats(0).bytes_out(), 4u);
}

TEST_F(PullRows, IdsOfAnotherSliceAndBrokenRequestsAreRefused) {
  for (const int64_t id : {5, 11, -1}) {
    Envelope<proto::PullRequest> pull = PullOf({});
    AddRows(pull, 2, {7, id});
    EXPECT_THAT(std::string(Pull(1, std::move(pull)).status().message()),
                HasSubstr(absl::StrCat("id ", id, " is not in [6, 11)")));
  }
  Envelope<proto::PullRequest> pull = PullOf({});
  AddRows(pull, 2, {7, 8});
  Envelope<proto::PullRequest> shorter = pull, longer = pull, typed = pull;
  shorter.payload[0].size -= 8;
  longer.payload.push_back(longer.payload[0]);
  typed.header.mutable_rows(0)->mutable_ids()->set_dtype(static_cast<int32_t>(DType::kInt32));
  for (Envelope<proto::PullRequest>* bad : {&shorter, &longer, &typed}) {
    EXPECT_EQ(Pull(1, *bad).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(Pull(1, pull).ok());
}

}  // namespace
}  // namespace cohort
