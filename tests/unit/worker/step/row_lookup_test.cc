// Ids to rows and positions, against a sorted set and a search in it.

#include "worker/step/row_lookup.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/tensor/slice_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int64_t> Values(const Tensor& tensor) {
  if (tensor.dtype() == DType::kInt32) {
    const absl::Span<const int32_t> narrow = tensor.span<int32_t>();
    return {narrow.begin(), narrow.end()};
  }
  const absl::Span<const int64_t> span = tensor.span<int64_t>();
  return {span.begin(), span.end()};
}

TEST(LookUpRows, EachRowOnceInOrderAndPositionsInTheOrderOfTheIds) {
  const Tensor a = Tensor::FromVector<int64_t>({7, 3, 7, 0}, {4});
  const Tensor b = Tensor::FromVector<int32_t>({3, -1, 9, -5}, {2, 2});
  const auto lookup = LookUpRows("t", 10, {{"a", &a, false}, {"b", &b, true}});
  ASSERT_TRUE(lookup.ok()) << lookup.status();
  EXPECT_THAT(lookup->rows, ElementsAre(0, 3, 7, 9));
  EXPECT_THAT(Values(lookup->positions[0]), ElementsAre(2, 1, 2, 0));
  EXPECT_THAT(Values(lookup->positions[1]), ElementsAre(1, -1, 3, -1));
  EXPECT_EQ(lookup->positions[1].TypeString(), b.TypeString());
}

// With 2^31 ids the positions of a dynamic table's rows would not fit the type of an int32 column.
TEST(LookUpKeys, ALookUpHasFewerThanTwoToThe31Ids) {
  const Tensor ids(DType::kInt32, Shape{1 << 20});
  const std::vector<IdColumn> columns(size_t{1} << 11, IdColumn{"c", &ids, false});
  EXPECT_THAT(std::string(LookUpKeys("t", columns).status().message()),
              AllOf(HasSubstr("'c' is int32[1048576]"), HasSubstr("fewer than 2^31")));
}

TEST(LookUpRows, AnIdThatIsNoRowIsNamedWithItsTableAndExample) {
  const Tensor ids = Tensor::FromVector<int64_t>({0, 1, 2, 3, 10, 5}, {3, 2});
  EXPECT_THAT(
      std::string(LookUpRows("emb/embeddings", 10, {{"C1", &ids, true}}).status().message()),
      AllOf(HasSubstr("id 10 of 'C1' in row 2 of the batch"),
            HasSubstr("'emb/embeddings', which has 10")));
  const Tensor negative = Tensor::FromVector<int32_t>({4, -1}, {2});
  EXPECT_THAT(std::string(LookUpRows("t", 10, {{"c", &negative, false}}).status().message()),
              HasSubstr("id -1 of 'c' in row 1 of the batch"));
  const IdColumn named{"c", &negative, false,
                       [](int64_t row) { return absl::StrCat("example ", row + 70); }};
  EXPECT_THAT(std::string(LookUpRows("t", 10, {named}).status().message()),
              HasSubstr("id -1 of 'c' in example 71 is not a row"));
  EXPECT_TRUE(LookUpRows("t", 10, {{"c", &negative, true}}).ok());
  const Tensor floats = Tensor::FromVector<float>({1}, {1});
  EXPECT_THAT(std::string(LookUpRows("t", 10, {{"c", &floats, false}}).status().message()),
              HasSubstr("float32"));
}

TEST(LookUpRows, NoIdsAreNoRows) {
  const Tensor none = Tensor::FromVector<int64_t>({-1, -1}, {2});
  const auto lookup = LookUpRows("t", 10, {{"c", &none, true}});
  ASSERT_TRUE(lookup.ok()) << lookup.status();
  EXPECT_THAT(lookup->rows, IsEmpty());
  EXPECT_THAT(Values(lookup->positions[0]), ElementsAre(-1, -1));
}

TEST(LookUpRows, RandomColumnsAgreeWithASortedSet) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(Replay("worker_test", seed, "LookUpRows.*"));
    SequenceRng rng(seed);
    const int64_t rows = 1 + static_cast<int64_t>(rng.Below(uint64_t{1} << rng.Below(40)));
    std::vector<Tensor> tensors;
    std::vector<std::string> names;
    std::set<int64_t> sorted;
    for (uint64_t i = 0; i < 1 + rng.Below(4); ++i) {
      const auto count = static_cast<int64_t>(rng.Below(300));
      Tensor& tensor = tensors.emplace_back(DType::kInt64, Shape{count});
      for (int64_t k = 0; k < count; ++k) {
        const bool none = rng.Below(5) == 0;
        const auto id = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(rows)));
        tensor.mutable_data<int64_t>()[k] = none ? -1 : id;
        if (!none) sorted.insert(id);
      }
      names.push_back(absl::StrCat("c", i));
    }
    std::vector<IdColumn> columns;
    for (size_t i = 0; i < tensors.size(); ++i) columns.push_back({names[i], &tensors[i], true});
    const auto lookup = LookUpRows("t", rows, columns);
    ASSERT_TRUE(lookup.ok()) << lookup.status();
    const std::vector<int64_t> expected(sorted.begin(), sorted.end());
    ASSERT_EQ(lookup->rows, expected);
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (int64_t k = 0; k < tensors[i].num_elements(); ++k) {
        const int64_t id = tensors[i].data<int64_t>()[k];
        const int64_t position = lookup->positions[i].data<int64_t>()[k];
        ASSERT_EQ(position < 0 ? -1 : expected[static_cast<size_t>(position)], id);
      }
    }
  }
}

// Any integer is a key; those of one bucket lie together, by ascending buckets.
TEST(LookUpKeys, EachKeyOnceInTheOrderOfBucketsAndPositionsInTheOrderOfTheIds) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(Replay("worker_test", seed, "LookUpKeys.*"));
    SequenceRng rng(seed);
    std::set<int64_t> keys;
    Tensor wide(DType::kInt64, Shape{200});
    Tensor narrow(DType::kInt32, Shape{50, 2});
    for (int64_t i = 0; i < 200; ++i) {
      wide.mutable_data<int64_t>()[i] = static_cast<int64_t>(Mix64(rng.Below(80)));
      keys.insert(wide.data<int64_t>()[i]);
    }
    for (int64_t i = 0; i < 100; ++i) {
      narrow.mutable_data<int32_t>()[i] = static_cast<int32_t>(rng.Below(90)) - 20;
      if (narrow.data<int32_t>()[i] >= 0) keys.insert(narrow.data<int32_t>()[i]);
    }
    const auto lookup = LookUpKeys("t", {{"a", &wide, false}, {"b", &narrow, true}});
    ASSERT_TRUE(lookup.ok()) << lookup.status();
    EXPECT_EQ(std::set<int64_t>(lookup->rows.begin(), lookup->rows.end()), keys);
    EXPECT_EQ(lookup->rows.size(), keys.size());
    EXPECT_TRUE(std::is_sorted(lookup->rows.begin(), lookup->rows.end(),
                               [](int64_t a, int64_t b) { return KeyBucket(a) < KeyBucket(b); }));
    const auto key_at = [&](int64_t position) {
      return lookup->rows[static_cast<size_t>(position)];
    };
    for (int64_t i = 0; i < 200; ++i) {
      EXPECT_EQ(key_at(lookup->positions[0].data<int64_t>()[i]), wide.data<int64_t>()[i]);
    }
    for (int64_t i = 0; i < 100; ++i) {
      const int32_t id = narrow.data<int32_t>()[i];
      const int32_t position = lookup->positions[1].data<int32_t>()[i];
      EXPECT_EQ(position < 0 ? -1 : key_at(position), std::max(id, -1));
    }
  }
  const Tensor negative = Tensor::FromVector<int64_t>({-3}, {1});
  EXPECT_THAT(LookUpKeys("t", {{"c", &negative, false}})->rows, ElementsAre(-3));
}

// The numbers are those of a checkpoint's names: another hash would lose every row of one.
TEST(KeyBuckets, StayWhereTheyWereAndAreEvenlyFilled) {
  EXPECT_THAT((std::vector<int64_t>{KeyBucket(0), KeyBucket(1), KeyBucket(-1)}),
              ElementsAre(63839, 43659, 43107));
  std::vector<int> shares(3);
  for (int64_t key = 0; key < 30000; ++key) {
    ++shares[static_cast<size_t>(KeyBucket(key) * 3 / kKeyBuckets)];
  }
  for (const int share : shares) EXPECT_NEAR(share, 10000, 400) << "five standard deviations";
}

}  // namespace
}  // namespace cohort
