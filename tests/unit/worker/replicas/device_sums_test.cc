// Sums of replicas on GPUs: the expectation is the sum in host memory, bit for bit, but for NCCL's.
// GPUs are the stand-in's, and NCCL is the fake.

#include "worker/replicas/device_sums.h"

#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_stand_in/cuda_stand_in.h"
#include "tests/support/device_summands.h"
#include "tests/support/fake_nccl/fake_nccl.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int32_t kGpus = 8;
constexpr uint64_t kMemory = uint64_t{64} << 20;
constexpr int64_t kPackCounts[] = {0, 1, 2, 7, 4096};

// What the stand-in does not look at: which GPU's memory a kernel gets, what is copied, how many
// contexts are opened, and which have something posted that nobody has waited for. Kernels touch
// the memory of their own GPU alone.
struct Watched {
  const CudaTable* stand_in = nullptr;
  std::map<CudaContext*, int32_t> devices;
  std::map<const char*, std::pair<uint64_t, int32_t>> memories;  // bytes and device, by begin
  std::set<CudaContext*> posted;
  uint64_t bytes_to_host = 0;
  int copies_on_devices = 0;
  int opened = 0;
  std::vector<std::string> strangers;

  void Look(CudaContext* context, const float* memory, int64_t count) {
    posted.insert(context);
    if (count == 0) return;
    const auto* const begin = reinterpret_cast<const char*>(memory);
    const auto found = std::prev(memories.upper_bound(begin));
    const auto [bytes, device] = found->second;
    const auto* const end = reinterpret_cast<const char*>(memory + count);
    if (end <= found->first + bytes && device == devices[context]) return;
    strangers.push_back(absl::StrCat("gpu:", devices[context], " touches memory of gpu:", device));
  }
};

Watched& Watch() {
  static auto* const watched = new Watched;
  return *watched;
}

const CudaTable& WatchedTable() {
  Watched& watched = Watch();
  static CudaTable table;
  if (watched.stand_in == nullptr) {
    watched.stand_in = &MakeCudaStandIn(kGpus, kMemory);
    table = *watched.stand_in;
  }
  table.open = [](void* self, int32_t device, CudaContext** context) {
    const int32_t code = Watch().stand_in->open(self, device, context);
    Watch().devices[*context] = device;
    ++Watch().opened;
    return code;
  };
  table.allocate = [](CudaContext* context, uint64_t bytes, void** memory) {
    const int32_t code = Watch().stand_in->allocate(context, bytes, memory);
    Watch().memories[static_cast<char*>(*memory)] = {bytes, Watch().devices[context]};
    return code;
  };
  table.free = [](CudaContext* context, void* memory) {
    Watch().memories.erase(static_cast<char*>(memory));
    Watch().stand_in->free(context, memory);
  };
  table.copy_to_host = [](CudaContext* context, void* host, const void* device, uint64_t bytes) {
    Watch().posted.insert(context);
    Watch().bytes_to_host += bytes;
    return Watch().stand_in->copy_to_host(context, host, device, bytes);
  };
  table.copy_on_device = [](CudaContext* context, void* to, const void* from, uint64_t bytes) {
    Watch().posted.insert(context);
    ++Watch().copies_on_devices;
    return Watch().stand_in->copy_on_device(context, to, from, bytes);
  };
  table.wait = [](CudaContext* context) {
    Watch().posted.erase(context);
    return Watch().stand_in->wait(context);
  };
  table.launches.sums.weigh = [](CudaContext* context, const WeighLaunch& launch) {
    Watch().Look(context, launch.x, launch.count);
    Watch().Look(context, launch.y, launch.count);
    return Watch().stand_in->launches.sums.weigh(context, launch);
  };
  table.launches.sums.add_to = [](CudaContext* context, const AddToLaunch& launch) {
    Watch().Look(context, launch.x, launch.count);
    Watch().Look(context, launch.sum, launch.count);
    return Watch().stand_in->launches.sums.add_to(context, launch);
  };
  return table;
}

std::vector<int32_t> FirstGpus(size_t count) {
  std::vector<int32_t> gpus(count);
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

// Of no element, of one, and of odd numbers of them.
const std::vector<Shape>& Shapes() {
  static const auto* const shapes =
      new std::vector<Shape>{Shape{17, 3}, Shape{0, 4}, Shape{}, Shape{257}, Shape{5}, Shape{1}};
  return *shapes;
}

class DeviceSumsTest : public testing::Test {
 protected:
  DeviceSumsTest() : table_(WatchedTable()), nccl_(kGpus) {
    Watch().bytes_to_host = 0;
    Watch().opened = 0;
    nccl_.RunOn([this](const std::function<void()>& work) { RunOnCudaStandIn(table_, work); });
  }
  ~DeviceSumsTest() override {
    FailCudaStandInAfter(-1);
    FailCudaStandInLateAfter(-1);
    EXPECT_THAT(Watch().strangers, IsEmpty());
    Watch().strangers.clear();
    EXPECT_THAT(nccl_.misuse(), IsEmpty());
    EXPECT_EQ(nccl_.counters().locals, 0) << "what was opened was closed";
  }

  std::unique_ptr<DeviceSums> Make(SumWay way, std::vector<int32_t> gpus, int64_t num_packs) {
    return std::make_unique<DeviceSums>(
        DeviceSums::Options{table_, &nccl_.table(), std::move(gpus), way, num_packs});
  }

  const CudaTable& table_;
  FakeNccl nccl_;
};

TEST_F(DeviceSumsTest, EachWayButNcclHasTheBitsOfTheSumInHostMemory) {
  for (size_t replicas = 1; replicas <= kGpus; ++replicas) {
    const std::vector<int32_t> gpus = FirstGpus(replicas);
    const SummandsOnDevices summands(table_, gpus, Shapes());
    const std::vector<Tensor> wanted = summands.SumsOnHost();
    for (const int64_t packs : kPackCounts) {
      SCOPED_TRACE(absl::StrCat(replicas, " replicas, ", packs, " packs"));
      ExpectSums(Make(SumWay::kHierarchicalCopy, gpus, packs)->Sum(summands.outputs()), wanted);
    }
    SCOPED_TRACE(absl::StrCat(replicas, " replicas"));
    ExpectSums(Make(SumWay::kReductionToOneDevice, gpus, 1)->Sum(summands.outputs()), wanted);
  }
}

TEST_F(DeviceSumsTest, WhatReplicasHaveComputedStaysAsItIs) {
  const std::vector<int32_t> gpus = FirstGpus(3);
  SummandsOnDevices summands(table_, gpus, Shapes());
  for (const SumWay way :
       {SumWay::kReductionToOneDevice, SumWay::kHierarchicalCopy, SumWay::kNccl}) {
    ASSERT_TRUE(Make(way, gpus, 1)->Sum(summands.outputs()).ok());
    for (size_t i = 0; i < Shapes().size(); ++i) {
      for (size_t replica = 0; replica < gpus.size(); ++replica) {
        EXPECT_EQ(FloatsOf(summands.ReadBack(i, replica)), FloatsOf(summands.value(i, replica)));
      }
    }
  }
}

// For a variable there: in memory that the processor reads, too, and the first GPU where it is.
TEST_F(DeviceSumsTest, ASumMayStayOnTheFirstGpu) {
  for (const size_t replicas : {1, 3}) {
    const std::vector<int32_t> gpus = FirstGpus(replicas);
    const SummandsOnDevices summands(table_, gpus, Shapes());
    std::vector<DeviceSummands> outputs = summands.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].stays = i != 0;
    const auto sums = Make(SumWay::kHierarchicalCopy, gpus, 1);
    Watch().bytes_to_host = 0;
    const auto got = sums->Sum(outputs);
    ExpectSums(got, summands.SumsOnHost());
    EXPECT_EQ(Watch().bytes_to_host, (*got)[0].num_bytes());
    const auto first = *CudaStream::Open(table_, 0);
    EXPECT_FALSE(first->Reaches((*got)[0].raw()));
    for (size_t i = 1; i < got->size(); ++i) EXPECT_TRUE(first->Reaches((*got)[i].raw())) << i;
  }
}

TEST_F(DeviceSumsTest, ReplicasOfOneGpuShareAStream) {
  const std::vector<int32_t> gpus = {0, 0, 1, 0};
  const SummandsOnDevices summands(table_, gpus, Shapes());
  Watch().opened = 0;
  const auto sums = Make(SumWay::kHierarchicalCopy, gpus, 2);
  EXPECT_EQ(Watch().opened, 0) << "when they are needed";
  for (int step = 0; step < 2; ++step) {
    Watch().copies_on_devices = 0;
    ExpectSums(sums->Sum(summands.outputs()), summands.SumsOnHost());
    EXPECT_EQ(Watch().opened, 2);
    EXPECT_EQ(Watch().copies_on_devices, 2 * 2) << "two pairs of other GPUs, and two packs";
  }
}

// A batch of fewer examples than replicas leaves the last ones out.
TEST_F(DeviceSumsTest, FewerReplicasThanGpusMaySum) {
  for (const size_t replicas : {1, 2, 3}) {
    const SummandsOnDevices summands(table_, FirstGpus(replicas), Shapes());
    for (const SumWay way :
         {SumWay::kReductionToOneDevice, SumWay::kHierarchicalCopy, SumWay::kNccl}) {
      Watch().opened = 0;
      const auto got = Make(way, FirstGpus(4), 1)->Sum(summands.outputs());
      if (way != SumWay::kNccl) {
        ExpectSums(got, summands.SumsOnHost());
        const bool one = way == SumWay::kReductionToOneDevice;
        EXPECT_EQ(Watch().opened, one ? 1 : static_cast<int>(replicas)) << "as many as are used";
        continue;
      }
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_THAT(FloatsOf((*got)[4]), testing::Pointwise(testing::FloatNear(0.05f),
                                                          FloatsOf(summands.SumsOnHost()[4])));
    }
  }
}

TEST_F(DeviceSumsTest, NcclAddsUpInAnOrderOfItsOwn) {
  for (size_t replicas = 2; replicas <= kGpus; ++replicas) {
    const std::vector<int32_t> gpus = FirstGpus(replicas);
    const SummandsOnDevices summands(table_, gpus, Shapes());
    const std::vector<Tensor> wanted = summands.SumsOnHost();
    for (const int64_t packs : kPackCounts) {
      const int before = nccl_.counters().reductions;
      const auto got = Make(SumWay::kNccl, gpus, packs)->Sum(summands.outputs());
      ASSERT_TRUE(got.ok()) << got.status();
      for (size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ((*got)[i].shape(), wanted[i].shape());
        EXPECT_THAT(FloatsOf((*got)[i]),
                    testing::Pointwise(testing::FloatNear(0.05f), FloatsOf(wanted[i])))
            << "of at most 2^15";
      }
      const int64_t elements = 17 * 3 + 1 + 257 + 5 + 1;
      const int64_t reductions = packs == 0 ? 5 : std::min(packs, elements);
      EXPECT_EQ(nccl_.counters().reductions - before, reductions) << "one of each pack";
    }
  }
}

TEST_F(DeviceSumsTest, TheSumAloneIsCopiedToTheHost) {
  const std::vector<int32_t> gpus = FirstGpus(4);
  const SummandsOnDevices summands(table_, gpus, Shapes());
  uint64_t bytes = 0;
  for (const Tensor& sum : summands.SumsOnHost()) bytes += sum.num_bytes();
  for (const SumWay way :
       {SumWay::kReductionToOneDevice, SumWay::kHierarchicalCopy, SumWay::kNccl}) {
    Watch().bytes_to_host = 0;
    ASSERT_TRUE(Make(way, gpus, 2)->Sum(summands.outputs()).ok());
    EXPECT_EQ(Watch().bytes_to_host, bytes);
  }
}

// Each call that posts something, and each thing that was posted.
TEST_F(DeviceSumsTest, AFailureEndsTheSumInWordsAndTheNextGoesWell) {
  const std::vector<int32_t> gpus = FirstGpus(3);
  const SummandsOnDevices summands(table_, gpus, {Shape{5}, Shape{3, 2}});
  for (const SumWay way :
       {SumWay::kReductionToOneDevice, SumWay::kHierarchicalCopy, SumWay::kNccl}) {
    const auto sums = Make(way, gpus, 2);
    for (const auto fail : {FailCudaStandInAfter, FailCudaStandInLateAfter}) {
      int failures = 0;
      for (;; ++failures) {
        fail(failures);
        const auto failed = sums->Sum(summands.outputs());
        fail(-1);
        if (failed.ok()) break;
        EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable);
        EXPECT_THAT(Watch().posted, IsEmpty()) << "what was read may be dropped";
        EXPECT_THAT(std::string(failed.status().message()),
                    HasSubstr("stand-in: an illegal memory access (700)"));
        const auto next = sums->Sum(summands.outputs());
        ASSERT_TRUE(next.ok()) << failures << ": " << next.status();
        if (way != SumWay::kNccl) ExpectSums(next, summands.SumsOnHost());
      }
      EXPECT_GE(failures, 2 * 3 + 2) << "each leaf, and the copies to the host";
    }
  }
}

TEST_F(DeviceSumsTest, AFailureOfNcclEndsTheSumInWordsAndTheNextJoinsAnew) {
  const std::vector<int32_t> gpus = FirstGpus(2);
  const SummandsOnDevices summands(table_, gpus, {Shape{5}, Shape{3, 2}});
  for (int calls = 0; calls < 3; ++calls) {  // it joins, and reduces two packs
    const auto sums = Make(SumWay::kNccl, gpus, 2);
    nccl_.FailLocalAfter(calls);
    const absl::Status failed = sums->Sum(summands.outputs()).status();
    const std::string doing = calls == 0 ? "joining the" : "adding up over the";
    EXPECT_EQ(failed.message(),
              doing + " GPUs of this worker: NCCL: unhandled system error (7004)");
    EXPECT_EQ(nccl_.counters().locals, 0) << "what has failed is of no more use";
    EXPECT_TRUE(sums->Sum(summands.outputs()).ok());
    EXPECT_EQ(nccl_.counters().locals, 1);
  }
}

TEST_F(DeviceSumsTest, AGpuThatCannotBeOpenedIsNamed) {
  const SummandsOnDevices summands(table_, FirstGpus(2), {Shape{5}});
  for (const SumWay way : {SumWay::kReductionToOneDevice, SumWay::kHierarchicalCopy}) {
    const absl::Status failed = Make(way, {9, 1}, 0)->Sum(summands.outputs()).status();
    EXPECT_THAT(std::string(failed.message()), HasSubstr("gpu:9 is not there"));
  }
  EXPECT_THAT(
      std::string(
          Make(SumWay::kHierarchicalCopy, {0, 9}, 0)->Sum(summands.outputs()).status().message()),
      HasSubstr("gpu:9 is not there"));
}

TEST_F(DeviceSumsTest, WithoutMemoryItFailsInWords) {
  const CudaTable& small = MakeCudaStandIn(2, 1 << 16);
  const SummandsOnDevices large(small, {0, 1}, {Shape{5000}});
  const SummandsOnDevices little(small, {0, 1}, {Shape{500}});
  for (const SumWay way : {SumWay::kReductionToOneDevice, SumWay::kHierarchicalCopy}) {
    DeviceSums sums(DeviceSums::Options{small, nullptr, {0, 1}, way, 1});
    const absl::Status failed = sums.Sum(large.outputs()).status();
    EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(failed.message()), HasSubstr("has no memory for 20000 bytes"));
    ExpectSums(sums.Sum(little.outputs()), little.SumsOnHost());
  }
}

TEST_F(DeviceSumsTest, ShapesThatDifferAreAnError) {
  const SummandsOnDevices one(table_, {0, 1}, {Shape{2}});
  const SummandsOnDevices other(table_, {0, 1}, {Shape{3}});
  DeviceSummands mixed = one.outputs()[0];
  mixed.values[1] = other.outputs()[0].values[1];
  const auto sums = Make(SumWay::kHierarchicalCopy, {0, 1}, 1);
  EXPECT_THAT(std::string(sums->Sum({mixed}).status().message()),
              HasSubstr("float32[2] and float32[3]"));
}

TEST(BetterWay, OfMoreThanTwoGpusIsTheTree) {
  EXPECT_EQ(BetterWay(1), SumWay::kReductionToOneDevice);
  EXPECT_EQ(BetterWay(2), SumWay::kReductionToOneDevice);
  EXPECT_EQ(BetterWay(3), SumWay::kHierarchicalCopy);
}

TEST(GradientPacks, AreOfNearlyEqualSizes) {
  using Packs = std::vector<GradientPack>;
  EXPECT_EQ(CutIntoPacks({6, 3, 1}, 1), (Packs{{0, 10}}));
  EXPECT_EQ(CutIntoPacks({6, 3, 1}, 2), (Packs{{0, 5}, {5, 5}}));
  EXPECT_EQ(CutIntoPacks({6, 3, 1}, 3), (Packs{{0, 3}, {3, 3}, {6, 4}}));
  EXPECT_EQ(CutIntoPacks({6, 3, 1}, 0), (Packs{{0, 6}, {6, 3}, {9, 1}})) << "each by itself";
  EXPECT_EQ(CutIntoPacks({0, 2, 0}, 0), (Packs{{0, 2}}));
  EXPECT_EQ(CutIntoPacks({2}, 4), (Packs{{0, 1}, {1, 1}})) << "of no element there is no pack";
  EXPECT_EQ(CutIntoPacks({0}, 3), Packs{});
}

TEST(GradientPacks, CoverEveryElementOnce) {
  for (int64_t elements = 0; elements < 40; ++elements) {
    for (int64_t packs = 0; packs < 12; ++packs) {
      int64_t end = 0;
      int64_t least = elements;
      int64_t most = 0;
      for (const GradientPack& pack : CutIntoPacks({elements}, packs)) {
        EXPECT_EQ(pack.begin, end);
        end += pack.count;
        least = std::min(least, pack.count);
        most = std::max(most, pack.count);
      }
      EXPECT_EQ(end, elements);
      EXPECT_LE(most - least, 1);
    }
  }
}

}  // namespace
}  // namespace cohort
