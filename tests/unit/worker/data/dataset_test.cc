// Expectations come from tf.data's documented semantics; golden orders of its shuffle depend on its
// generator, so shuffles are checked by what they promise.

#include "worker/data/dataset.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

proto::DatasetSpec Spec(const std::string& text) {
  proto::DatasetSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

proto::IteratorPosition At(int64_t epoch, int64_t element) {
  proto::IteratorPosition position;
  position.set_epoch(epoch);
  position.set_element(element);
  return position;
}

class DatasetTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> Make(const std::string& text) {
    auto dataset = Dataset::Build(Spec(text), sources_);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *dataset;
  }
  absl::Status Refusal(const std::string& text) {
    return Dataset::Build(Spec(text), sources_).status();
  }
  // The int64 values of component 0, element by element, at most `limit` elements.
  static std::vector<std::vector<int64_t>> Elements(const Dataset& dataset,
                                                    proto::IteratorPosition from = {},
                                                    size_t limit = 1000) {
    std::vector<std::vector<int64_t>> elements;
    auto iterator = *dataset.MakeIterator(from);
    while (elements.size() < limit) {
      auto element = *iterator->Next();
      if (!element.has_value()) break;
      const auto values = (*element)[0].span<int64_t>();
      elements.emplace_back(values.begin(), values.end());
    }
    return elements;
  }
  static std::vector<int64_t> Flat(const std::vector<std::vector<int64_t>>& elements) {
    std::vector<int64_t> all;
    for (const auto& element : elements) all.insert(all.end(), element.begin(), element.end());
    return all;
  }

  PosixFileSystem files_;
  SourceCache sources_{files_, ""};
};

TEST_F(DatasetTest, SkipTakeShardRepeatInOrder) {
  EXPECT_THAT(Flat(Elements(*Make("source{range{begin:0 end:10}} transforms{skip:2}"
                                  "transforms{take:5}"))),
              ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(Flat(Elements(*Make("source{range{begin:0 end:10}}"
                                  "transforms{shard{num_shards:3 index:1}}"))),
              ElementsAre(1, 4, 7));
  EXPECT_THAT(Flat(Elements(*Make("source{range{begin:0 end:3}} transforms{repeat:2}"
                                  "transforms{skip:1}"))),
              ElementsAre(1, 2, 0, 1, 2));
  EXPECT_THAT(Flat(Elements(*Make("source{range{begin:5 end:8}} transforms{repeat:2}"))),
              ElementsAre(5, 6, 7, 5, 6, 7));
  EXPECT_THAT(Flat(Elements(*Make("source{range{begin:0 end:4}} transforms{take:-1}"
                                  "transforms{skip:9}"))),
              ElementsAre());
}

TEST_F(DatasetTest, BatchesKeepOrDropTheRemainderAndStraddleAnEarlierRepeat) {
  auto keep = Make("source{range{begin:0 end:5}} transforms{batch{size:2}}");
  EXPECT_THAT(Elements(*keep), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_EQ(keep->cardinality(), 3);
  auto drop = Make("source{range{begin:0 end:5}} transforms{batch{size:2 drop_remainder:true}}");
  EXPECT_THAT(Elements(*drop), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_EQ(drop->cardinality(), 2);
  auto straddle =
      Make("source{range{begin:0 end:3}} transforms{repeat:2} transforms{batch{size:2}}");
  EXPECT_THAT(Elements(*straddle),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 0), ElementsAre(1, 2)));
  auto after = Make("source{range{begin:0 end:3}} transforms{batch{size:2}} transforms{repeat:2}");
  EXPECT_THAT(Elements(*after),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(0, 1), ElementsAre(2)));
}

TEST_F(DatasetTest, CardinalityAndElementSpec) {
  EXPECT_EQ(Make("source{range{begin:0 end:7}} transforms{repeat:-1}")->cardinality(), -1);
  EXPECT_EQ(Make("source{range{begin:0 end:7}} transforms{repeat:0}")->cardinality(), 0);
  EXPECT_EQ(Make("source{range{begin:7 end:7}} transforms{repeat:-1}")->cardinality(), 0);
  EXPECT_EQ(
      Make("source{range{begin:0 end:7}} transforms{repeat:-1} transforms{take:9}")->cardinality(),
      9);
  auto digits = Make(
      "source{synthetic_digits{seed:1 count:10}} transforms{batch{size:4}}"
      "transforms{rescale{component:0 scale:0.5}} transforms{flatten:0}"
      "transforms{one_hot{component:1 depth:10}}");
  EXPECT_EQ(digits->element_spec().ShortDebugString(),
            "components { dtype: 1 dims: -1 dims: 784 } components { dtype: 1 dims: -1 dims: 10 }");
  auto fixed = Make(
      "source{synthetic_digits{seed:1 count:10}}"
      "transforms{batch{size:4 drop_remainder:true}}");
  EXPECT_EQ(fixed->element_spec().ShortDebugString(),
            "components { dtype: 2 dims: 4 dims: 28 dims: 28 } components { dtype: 2 dims: 4 }");
}

TEST_F(DatasetTest, ValuesAreRescaledOneHotAndFlattened) {
  auto raw = Make("source{synthetic_digits{seed:1 count:9}}");
  auto set = Make(
      "source{synthetic_digits{seed:1 count:9}} transforms{flatten:0}"
      "transforms{rescale{component:0 scale:0.25 offset:1}}"
      "transforms{rescale{component:0 scale:2 offset:-3}}"
      "transforms{one_hot{component:1 depth:10}} transforms{batch{size:4}}");
  auto batch = *set->ElementAt(At(0, 1));
  EXPECT_EQ(batch[0].TypeString(), "float32[4,784]");
  EXPECT_EQ(batch[1].TypeString(), "float32[4,10]");
  EXPECT_EQ((*set->ElementAt(At(0, 2)))[0].TypeString(), "float32[1,784]");
  for (int row = 0; row < 4; ++row) {
    auto element = *raw->ElementAt(At(0, 4 + row));
    for (int i = 0; i < 784; ++i) {
      ASSERT_EQ(batch[0].data<float>()[row * 784 + i],
                (element[0].data<uint8_t>()[i] * 0.25f + 1) * 2 - 3);
    }
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(batch[1].data<float>()[row * 10 + i], i == element[1].data<uint8_t>()[0]);
    }
  }
}

TEST_F(DatasetTest, ShuffleIsAPermutationAndEpochsDiffer) {
  for (const char* buffer : {"1000", "100", "37", "1"}) {
    auto set = Make(std::string("source{range{begin:0 end:100}} transforms{shuffle{seed:3 "
                                "reshuffle_each_iteration:true buffer_size:") +
                    buffer + "}} transforms{repeat:3}");
    const std::vector<int64_t> all = Flat(Elements(*set));
    ASSERT_EQ(all.size(), 300u);
    std::vector<std::vector<int64_t>> epochs;
    for (int e = 0; e < 3; ++e) {
      epochs.emplace_back(all.begin() + e * 100, all.begin() + (e + 1) * 100);
      std::vector<int64_t> sorted = epochs.back();
      std::sort(sorted.begin(), sorted.end());
      for (int i = 0; i < 100; ++i) ASSERT_EQ(sorted[i], i) << buffer;
    }
    if (buffer == std::string("1")) {
      EXPECT_EQ(epochs[0], epochs[1]);  // a buffer of one cannot shuffle
    } else {
      EXPECT_NE(epochs[0], epochs[1]) << buffer;
      EXPECT_NE(epochs[1], epochs[2]) << buffer;
    }
  }
}

TEST_F(DatasetTest, AnExampleIsNamedByItsPlaceInTheSource) {
  auto set = Make(
      "source{range{begin:0 end:100}} transforms{skip:20} transforms{shuffle{seed:3 "
      "buffer_size:100}} transforms{batch{size:8}}");
  const Element batch = *set->ElementAt(At(1, 4));
  for (int64_t row = 0; row < 8; ++row) {
    EXPECT_EQ(set->ExampleName(At(1, 4), row, 0),
              absl::StrCat("example ", batch[0].data<int64_t>()[row]));
  }
  for (const int64_t row : {int64_t{-1}, int64_t{8}}) {
    EXPECT_EQ(set->ExampleName(At(1, 4), row, 0), absl::StrCat("row ", row, " of the batch"));
  }
  EXPECT_EQ(set->ExampleName(At(1, 4), 0, 1), "row 0 of the batch");
}

TEST_F(DatasetTest, ASmallBufferLimitsHowEarlyAnElementComes) {
  auto set = Make("source{range{begin:0 end:200}} transforms{shuffle{seed:3 buffer_size:10}}");
  const std::vector<int64_t> order = Flat(Elements(*set));
  bool moved = false;
  for (int64_t i = 0; i < 200; ++i) {
    EXPECT_LT(order[i], i + 10);  // element e can leave once it has entered: after e - 9 others
    moved |= order[i] != i;
  }
  EXPECT_TRUE(moved);
}

TEST_F(DatasetTest, WithoutReshuffleEpochsAreAlike) {
  auto set = Make(
      "source{range{begin:0 end:50}} transforms{shuffle{seed:3 buffer_size:50}}"
      "transforms{repeat:2}");
  const std::vector<int64_t> all = Flat(Elements(*set));
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + 50, all.begin() + 50));
}

// Orders by name hold each element once a pass, and take no memory however many there are.
TEST_F(DatasetTest, OrdersByNameArePermutations) {
  const auto number = [](const Dataset& set, int64_t element) {
    return *(*set.ElementAt(At(0, element)))[0].data<int64_t>();
  };
  for (const char* order : {"order:GLOBAL", "order:BLOCKS block_size:7 mixed_blocks:3"}) {
    auto set =
        Make(absl::StrCat("source{range{begin:0 end:100}} transforms{shuffle{seed:3 "
                          "reshuffle_each_iteration:true ",
                          order, "}} transforms{repeat:2}"));
    std::vector<int64_t> all = Flat(Elements(*set));
    ASSERT_EQ(all.size(), 200u);
    EXPECT_FALSE(std::equal(all.begin(), all.begin() + 100, all.begin() + 100));
    for (auto pass : {all.begin(), all.begin() + 100}) {
      std::sort(pass, pass + 100);
      for (int i = 0; i < 100; ++i) ASSERT_EQ(pass[i], i) << order;
    }
    // 2^40 elements, of which any is found at once.
    auto large = Make(absl::StrCat(
        "source{range{begin:0 end:1099511627776}} transforms{shuffle{seed:3 ", order, "}}"));
    EXPECT_NE(number(*large, 7), number(*large, 8));
  }
  // So does a buffer of all elements, from 2^20 on.
  auto large = Make(
      "source{range{begin:0 end:1099511627776}} transforms{shuffle{seed:3 "
      "buffer_size:1099511627776}}");
  EXPECT_NE(number(*large, 7), number(*large, 8));
  const auto error = [&](const std::string& shuffle) {
    const std::string range = "source{range{begin:0 end:1099511627776}}";
    return std::string(Refusal(range + "transforms{shuffle{" + shuffle + "}}").message());
  };
  EXPECT_THAT(error("buffer_size:9"), HasSubstr("through a buffer of 9"));
  EXPECT_THAT(error("order:BLOCKS mixed_blocks:3"),
              HasSubstr("shuffle.block_size has the value 0"));
  EXPECT_THAT(error("order:BLOCKS block_size:3"), HasSubstr("shuffle.mixed_blocks"));
}

// Every place of a full shuffle gets every element equally often: chi-square over 20 x 20 cells.
TEST_F(DatasetTest, FullShuffleIsUniform) {
  constexpr int kN = 20;
  constexpr int kTrials = 8000;
  std::vector<int> cells(kN * kN);
  for (int t = 0; t < kTrials; ++t) {
    const ElementOrder order = MakeShuffleOrder({kN, kN, 5, static_cast<uint64_t>(t)});
    for (int i = 0; i < kN; ++i) cells[static_cast<size_t>(i) * kN + order[i]]++;
  }
  const double expected = kTrials / static_cast<double>(kN);
  double chi2 = 0;
  for (const int count : cells) chi2 += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi2, 461);  // 361 degrees of freedom: above with a chance of 0.0003
  EXPECT_GT(chi2, 271);
}

const char* const kPipelines[] = {
    "transforms{shuffle{buffer_size:100 seed:1 reshuffle_each_iteration:true}}"
    "transforms{batch{size:8}} transforms{repeat:3} transforms{prefetch:2}",
    "transforms{shuffle{buffer_size:9 seed:1 reshuffle_each_iteration:true}}"
    "transforms{repeat:3} transforms{batch{size:8 drop_remainder:true}}",
    "transforms{shuffle{buffer_size:9 seed:1}} transforms{batch{size:5}}",
    "transforms{shard{num_shards:2 index:1}} transforms{repeat:3} transforms{skip:3}",
    "transforms{batch{size:4}} transforms{shuffle{buffer_size:50 seed:2}} transforms{repeat:2}",
};

TEST_F(DatasetTest, AnIteratorGoesOnFromAnyPosition) {
  for (const char* transforms : kPipelines) {
    auto set = Make(std::string("source{range{begin:0 end:43}}") + transforms);
    const auto whole = Elements(*set);
    EXPECT_EQ(static_cast<int64_t>(whole.size()), set->cardinality());
    auto iterator = *set->MakeIterator({});
    for (size_t done = 0; done <= whole.size(); ++done) {
      const std::vector<std::vector<int64_t>> rest(whole.begin() + static_cast<int64_t>(done),
                                                   whole.end());
      EXPECT_EQ(Elements(*set, iterator->position()), rest) << transforms << " after " << done;
      if (done < whole.size()) {
        auto split = *set->ElementAt(iterator->position());
        const auto values = split[0].span<int64_t>();
        EXPECT_EQ(std::vector<int64_t>(values.begin(), values.end()), whole[done]);
      }
      ASSERT_TRUE(iterator->Next().ok());
    }
  }
}

TEST_F(DatasetTest, PassesWithoutARepeatHaveTheirOwnOrder) {
  auto set = Make(
      "source{range{begin:0 end:64}} transforms{shuffle{buffer_size:64 seed:1 "
      "reshuffle_each_iteration:true}} transforms{batch{size:8}}");
  const auto first = Flat(Elements(*set));
  const auto third = Flat(Elements(*set, At(2, 0)));
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(third.size(), 64u);
  EXPECT_NE(first, third);
  EXPECT_EQ(set->ElementAt(At(0, 8)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(set->ElementAt(At(0, -1)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(set->MakeIterator(At(0, 9)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DatasetTest, EndlessDataGoesOn) {
  auto set = Make(
      "source{range{begin:0 end:5}} transforms{shuffle{buffer_size:5 seed:1 "
      "reshuffle_each_iteration:true}} transforms{repeat:-1}"
      "transforms{batch{size:3}}");
  const auto values = Flat(Elements(*set, {}, 50));
  EXPECT_EQ(values.size(), 150u);
  for (int e = 0; e < 30; ++e) {
    EXPECT_EQ(std::set<int64_t>(values.begin() + e * 5, values.begin() + e * 5 + 5).size(), 5u);
  }
}

TEST_F(DatasetTest, RefusalsNameTheField) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"", "no source"},
      {"source{range{end:3}} transforms{}", "no kind"},
      {"source{range{end:3}} transforms{batch{size:0}}", "batch.size has the value 0"},
      {"source{range{end:3}} transforms{batch{size:2}} transforms{batch{size:2}}",
       "only one batch"},
      {"source{range{end:3}} transforms{shuffle{buffer_size:0}}", "shuffle.buffer_size"},
      {"source{range{end:3}} transforms{repeat:-1} transforms{shuffle{buffer_size:2}}", "endless"},
      {"source{range{end:3}} transforms{repeat:-2}", "repeat"},
      {"source{range{end:4611686018427387904}} transforms{repeat:9}", "out of range"},
      {"source{range{end:3}} transforms{shard{num_shards:2 index:2}}", "shard.index"},
      {"source{range{end:3}} transforms{skip:-1}", "skip"},
      {"source{range{end:3}} transforms{prefetch:-2}", "prefetch"},
      {"source{range{end:3}} transforms{flatten:1}", "component 1"},
      {"source{range{end:3}} transforms{one_hot{component:0 depth:0}}", "one_hot.depth"},
      {"source{range{end:3}} transforms{rescale{scale:1}} transforms{one_hot{depth:3}}",
       "before rescale"},
      {"source{inline_tensors{}}", "0 components"},
      {"source{inline_tensors{tensors{dtype:2 dims:3 data:'ab'}}}", "needs 3 bytes and has 2"},
      {"source{inline_tensors{tensors{dtype:2 dims:-3}}}", "bad extent"},
      {"source{inline_tensors{tensors{dtype:99 dims:1}}}", "99"},
      {"source{inline_tensors{tensors{dtype:2 dims:2 data:'ab'} tensors{dtype:2 dims:1 data:'a'}}}",
       "do not belong together"},
      {"source{idx{paths:'/nowhere/images'}}", "/nowhere/images"},
  };
  for (const auto& c : cases) {
    const absl::Status status = Refusal(c.text);
    EXPECT_FALSE(status.ok()) << c.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.says)) << c.text;
  }
}

TEST_F(DatasetTest, AClassBeyondTheDepthIsAnErrorWithItsElement) {
  auto set = Make(
      "source{inline_tensors{tensors{dtype:2 dims:3 data:'\\000\\001\\007'}}}"
      "transforms{one_hot{component:0 depth:5}} transforms{batch{size:3}}");
  const absl::Status status = set->ElementAt({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("element 2 has the class 7"));
}

TEST_F(DatasetTest, BatchesHaveTheRowsThatAreChosen) {
  constexpr int kRows = 100;
  for (const int values : {1, 2, 3}) {  // of an element: 4, 8 and 12 bytes
    SCOPED_TRACE(values);
    proto::DatasetSpec spec =
        Spec("transforms{shuffle{buffer_size:100}} transforms{batch{size:80}}");
    proto::InlineTensor& tensor = *spec.mutable_source()->mutable_inline_tensors()->add_tensors();
    tensor.set_dtype(static_cast<int32_t>(DType::kInt32));
    tensor.add_dims(kRows);
    tensor.add_dims(values);
    std::vector<int32_t> numbers(static_cast<size_t>(kRows * values));
    std::iota(numbers.begin(), numbers.end(), 0);
    tensor.set_data(numbers.data(), numbers.size() * sizeof(int32_t));
    auto set = Dataset::Build(spec, sources_);
    ASSERT_TRUE(set.ok()) << set.status();
    std::vector<int32_t> seen;
    for (int64_t batch = 0; batch < 2; ++batch) {
      const auto element = (*set)->ElementAt(At(0, batch));
      ASSERT_TRUE(element.ok()) << element.status();
      const auto span = (*element)[0].span<int32_t>();
      for (size_t i = 0; i < span.size(); i += static_cast<size_t>(values)) {
        EXPECT_EQ(span[i] % values, 0);
        for (int32_t j = 1; j < values; ++j) {
          EXPECT_EQ(span[i + static_cast<size_t>(j)], span[i] + j);
        }
      }
      seen.insert(seen.end(), span.begin(), span.end());
    }
    EXPECT_NE(seen, numbers);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, numbers);
  }
}

TEST_F(DatasetTest, DataSetsOfOneFileShareItsArray) {
  const std::string golden = COHORT_SOURCE_DIR "/tests/unit/worker/data/golden/";
  const std::string source =
      "source{idx{paths:'" + golden + "images.idx.gz' paths:'" + golden + "labels.idx.gz'}}";
  auto train = Make(source + "transforms{take:30}");
  auto test = Make(source + "transforms{skip:30}");
  EXPECT_EQ(sources_.live_arrays(), 2u);
  EXPECT_EQ(train->cardinality() + test->cardinality(), 40);
  EXPECT_EQ((*test->ElementAt({}))[1].data<uint8_t>()[0], 30 * 7 % 10);
  train.reset();
  test.reset();
  EXPECT_EQ(sources_.live_arrays(), 0u);
}

// Random pipelines against a model that runs each transform over a plain list.
class Model {
 public:
  static std::vector<int64_t> Run(const proto::DatasetSpec& spec) {
    std::vector<int64_t> list(static_cast<size_t>(spec.source().range().end()));
    std::iota(list.begin(), list.end(), 0);
    for (const auto& t : spec.transforms()) list = Apply(t, list);
    return list;
  }

 private:
  static std::vector<int64_t> Apply(const proto::DatasetTransform& t,
                                    const std::vector<int64_t>& in) {
    std::vector<int64_t> out;
    const auto size = static_cast<int64_t>(in.size());
    for (int64_t r = 0; r < (t.kind_case() == t.kRepeat ? t.repeat() : 1); ++r) {
      for (int64_t i = 0; i < size; ++i) {
        if (t.kind_case() == t.kSkip && i < t.skip()) continue;
        if (t.kind_case() == t.kTake && i >= t.take()) continue;
        if (t.has_shard() && i % t.shard().num_shards() != t.shard().index()) continue;
        out.push_back(in[static_cast<size_t>(i)]);
      }
    }
    return out;
  }
};

TEST_F(DatasetTest, RandomPipelinesMatchAModelOverLists) {
  constexpr uint64_t kSeed = 11;  // a failure prints the trial; the trial depends on this alone
  for (int trial = 0; trial < 300; ++trial) {
    SequenceRng random(kSeed * 1000 + static_cast<uint64_t>(trial));
    proto::DatasetSpec spec;
    spec.mutable_source()->mutable_range()->set_end(static_cast<int64_t>(random.Below(30)));
    for (uint64_t n = random.Below(5); n > 0; --n) {
      proto::DatasetTransform& t = *spec.add_transforms();
      switch (random.Below(4)) {
        case 0:
          t.set_skip(static_cast<int64_t>(random.Below(8)));
          break;
        case 1:
          t.set_take(static_cast<int64_t>(random.Below(40)));
          break;
        case 2:
          t.set_repeat(static_cast<int64_t>(random.Below(4)));
          break;
        default:
          t.mutable_shard()->set_num_shards(static_cast<int64_t>(1 + random.Below(4)));
          t.mutable_shard()->set_index(
              static_cast<int64_t>(random.Below(static_cast<uint64_t>(t.shard().num_shards()))));
      }
    }
    auto set = *Dataset::Build(spec, sources_);
    const std::vector<int64_t> expected = Model::Run(spec);
    EXPECT_EQ(set->cardinality(), static_cast<int64_t>(expected.size())) << "trial " << trial;
    ASSERT_EQ(Flat(Elements(*set, {}, 100000)), expected)
        << "trial " << trial << ": " << spec.ShortDebugString();
  }
}

}  // namespace
}  // namespace cohort
