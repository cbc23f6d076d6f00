// Slices in memory that is not the processor's own: of a GPU, say.

#include "common/runtime/update/variable_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/runtime/update/make_update_kernel.h"
#include "common/wire/error_detail.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// Knows what lies in it, and what was updated there.
class WatchedMemory : public VariableMemory {
 public:
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    if (bytes > bytes_left) return absl::ResourceExhaustedError("gpu:0 has no memory");
    bytes_left -= bytes;
    auto buffer = Buffer::Allocate(bytes);
    ranges_[buffer->data()] = bytes;
    return buffer;
  }
  absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeKernel(const proto::UpdateRule& rule) override {
    auto kernel = std::make_unique<Watched>();
    kernel->memory = this;
    kernel->rule = *MakeUpdateKernel(rule);
    return kernel;
  }
  bool in_one_piece() const override { return true; }

  bool Has(const void* begin, size_t bytes) const {
    const auto* const first = static_cast<const std::byte*>(begin);
    auto range = ranges_.upper_bound(first);
    if (range == ranges_.begin()) return false;
    --range;
    return first + bytes <= range->first + range->second;
  }

  size_t bytes_left = ~size_t{0};
  int applied = 0;

 private:
  class Watched : public UpdateKernel {
   public:
    void Apply(const UpdateStep& step) const override {
      ++memory->applied;
      EXPECT_TRUE(memory->Has(step.value_in.data(), step.value_in.size() * sizeof(float)));
      EXPECT_TRUE(memory->Has(step.value_out.data(), step.value_out.size() * sizeof(float)));
      for (const SlotSpans& slot : step.slots) {
        EXPECT_TRUE(memory->Has(slot.in.data(), slot.in.size() * sizeof(float)));
        EXPECT_TRUE(memory->Has(slot.out.data(), slot.out.size() * sizeof(float)));
      }
      rule->Apply(step);
    }
    WatchedMemory* memory = nullptr;
    std::unique_ptr<UpdateKernel> rule;
  };

  std::map<const std::byte*, size_t> ranges_;
};

// More than a page of host memory, and rows longer than a block of a cursor.
constexpr int64_t kRows = 7;
constexpr int64_t kWidth = 5000;

std::unique_ptr<VariableSlice> MakeIn(std::shared_ptr<VariableMemory> memory,
                                      const proto::UpdateRule& rule) {
  const VariableSpec spec{"w", DType::kFloat32, Shape{kRows, kWidth}, rule};
  return *VariableSlice::Create((*SlicesOf(LayOut({spec}, 1)[0]))[0], std::move(memory));
}

absl::StatusOr<ClosureWindow> Open() { return ClosureWindow{kTestCoordinator, 1}; }

Tensor Gradient(std::mt19937& random, int64_t rows) {
  Tensor gradient(DType::kFloat32, Shape{rows, kWidth});
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < gradient.num_elements(); ++i) {
    gradient.mutable_data<float>()[i] = normal(random);
  }
  return gradient;
}

class InOtherMemory : public testing::TestWithParam<const char*> {
 protected:
  const proto::UpdateRule rule_ = Rule(GetParam(), {});
  const std::shared_ptr<WatchedMemory> memory_ = std::make_shared<WatchedMemory>();
  const std::unique_ptr<VariableSlice> there_ = MakeIn(memory_, rule_);
  const std::unique_ptr<VariableSlice> here_ = MakeIn(HostMemory(), rule_);

  void ExpectSame() {
    const SliceState there = StateOf(*there_);
    const SliceState here = StateOf(*here_);
    EXPECT_TRUE(SameBytes(there.value, here.value));
    ASSERT_EQ(there.slots.size(), here.slots.size());
    for (size_t i = 0; i < here.slots.size(); ++i) {
      EXPECT_TRUE(SameBytes(there.slots[i], here.slots[i])) << "slot " << i;
    }
  }
};

TEST_P(InOtherMemory, APushIsOneUpdateOfAllAndTheValuesAreTheSame) {
  std::mt19937 random(1);
  for (uint64_t closure = 1; closure <= 3; ++closure) {
    const Tensor gradient = Gradient(random, kRows);
    const SlicePush context = {0.1, closure, closure};
    // A reader of the second push's value: it is written elsewhere.
    const auto reading =
        closure == 2 ? std::optional(there_->Read()) : std::optional<VariableSlice::Reading>();
    for (VariableSlice* shard : {there_.get(), here_.get()}) {
      const Payload payload = CutAt(gradient, {3, 70'001});
      PayloadCursor cursor(payload);
      ASSERT_TRUE(shard->Apply(cursor, context, Open).ok());
    }
    EXPECT_EQ(memory_->applied, static_cast<int>(closure));
    ExpectSame();
  }
}

TEST_P(InOtherMemory, AValueIsReadWhereItIsInOnePiece) {
  const VariableSlice::Reading reading = there_->Read();
  ASSERT_EQ(reading.bytes.size(), 1u);
  EXPECT_TRUE(memory_->Has(reading.bytes[0].data, reading.bytes[0].size));
  EXPECT_EQ(reading.bytes[0].size, there_->num_bytes());
}

TEST_P(InOtherMemory, RowsAssignsAndRestoresAreThoseOfHostMemory) {
  std::mt19937 random(2);
  const std::vector<int64_t> rows = {5, 0, 5, 6};
  const Tensor some = Gradient(random, static_cast<int64_t>(rows.size()));
  const Tensor value = Gradient(random, kRows);
  for (VariableSlice* shard : {there_.get(), here_.get()}) {
    const Payload assigned = CutAt(value, {11});
    PayloadCursor value_cursor(assigned);
    ASSERT_TRUE(shard->Assign(value_cursor, [] { return absl::OkStatus(); }).ok());
    const Payload payload = CutAt(some, {});
    PayloadCursor cursor(payload);
    ASSERT_TRUE(shard->ApplyRows(rows, cursor, {0.1, 1, 1}, Open).ok());
  }
  ExpectSame();
  const std::vector<int64_t> asked = {6, 5, 1};
  std::vector<std::byte> of_there(asked.size() * kWidth * sizeof(float));
  std::vector<std::byte> of_here(of_there.size());
  there_->ReadRowsFor({}, asked, absl::MakeSpan(of_there));
  here_->ReadRowsFor({}, asked, absl::MakeSpan(of_here));
  EXPECT_EQ(of_there, of_here);
  SliceState saved = StateOf(*there_);
  const std::unique_ptr<VariableSlice> restored = MakeIn(memory_, rule_);
  ASSERT_TRUE(restored->Restore(saved, Open).ok());
  EXPECT_TRUE(SameBytes(StateOf(*restored).value, saved.value));
}

INSTANTIATE_TEST_SUITE_P(Rules, InOtherMemory, testing::Values("sgd", "adam", "rowwise_adagrad"));

class StoreOfOtherMemory : public testing::Test {
 protected:
  std::vector<proto::VariableLayout> Layouts() {
    auto layouts = LayOut({{"w", DType::kFloat32, Shape{10, 4}}}, 1);
    layouts[0].set_device("gpu:0");
    return layouts;
  }
  absl::Status Create(FindVariableMemory find_memory) {
    VariableStore store({0, 1000, std::move(find_memory)});
    const auto created =
        store.Create(CreateRequest(Layouts()).variables(), [] { return absl::OkStatus(); });
    EXPECT_EQ(store.All().size(), created.ok() ? 1 : 0);
    return created.status();
  }
};

TEST_F(StoreOfOtherMemory, MakesTheSliceInTheMemoryOfItsDevice) {
  const auto memory = std::make_shared<WatchedMemory>();
  memory->bytes_left = 160;
  EXPECT_TRUE(Create([&](const std::string& device) {
                EXPECT_EQ(device, "gpu:0");
                return memory;
              }).ok());
  EXPECT_EQ(memory->bytes_left, 0);
}

TEST_F(StoreOfOtherMemory, SaysWhyThereIsNone) {
  const absl::Status alone = Create(nullptr);
  EXPECT_EQ(alone.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ClassOf(alone), proto::CONFIGURATION);
  EXPECT_THAT(std::string(alone.message()),
              HasSubstr("variable 'w' is to be in the memory of gpu:0: this home keeps"));
  const absl::Status full = Create([](const std::string&) {
    const auto memory = std::make_shared<WatchedMemory>();
    memory->bytes_left = 159;
    return memory;
  });
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("gpu:0 has no memory"));
}

TEST_F(StoreOfOtherMemory, AnotherDeviceIsAnotherLayout) {
  const auto memory = std::make_shared<WatchedMemory>();
  VariableStore store({0, 1000, [&](const std::string&) { return memory; }});
  auto layouts = Layouts();
  const auto admit = [] { return absl::OkStatus(); };
  ASSERT_TRUE(store.Create(CreateRequest(layouts).variables(), admit).ok());
  layouts[0].clear_device();
  EXPECT_THAT(
      std::string(store.Create(CreateRequest(layouts).variables(), admit).status().message()),
      HasSubstr("on gpu:0; asked for"));
}

TEST(DeviceOfALayout, IsAGpuAndKeepsFloatsAlone) {
  const auto error_of = [](const VariableSpec& spec, const std::string& device) {
    auto layout = LayOut({spec}, 1)[0];
    layout.set_device(device);
    return std::string(SlicesOf(layout).status().message());
  };
  const VariableSpec floats{"w", DType::kFloat32, Shape{10, 4}};
  EXPECT_EQ(error_of(floats, "gpu:3"), "");
  EXPECT_THAT(error_of(floats, "cpu:0"), HasSubstr("'cpu:0', which is not a GPU"));
  const VariableSpec counter{"n", DType::kInt64, Shape{}, Rule("assign_add", {}), "zeros"};
  EXPECT_THAT(error_of(counter, "gpu:0"), HasSubstr("leave the device out"));
  EXPECT_THAT(error_of(TableSpec("t", 4, Rule("sgd", {})), "gpu:0"),
              HasSubstr("leave the device out"));
}

}  // namespace
}  // namespace cohort
