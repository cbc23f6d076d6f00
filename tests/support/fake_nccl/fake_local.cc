// The GPUs of one process.

#include <set>
#include <vector>

#include "tests/support/fake_nccl/fake_context.h"

namespace cohort {

namespace {

struct FakeLocal {
  FakeNccl* fake = nullptr;
  size_t ranks = 0;
  bool failed = false;
};

FakeLocal& LocalOf(NcclLocal* local) { return *reinterpret_cast<FakeLocal*>(local); }

void AddUp(const std::vector<const float*>& send, uint64_t count, float* receive) {
  std::vector<float> sum(count);
  for (auto values = send.rbegin(); values != send.rend(); ++values) {
    for (uint64_t i = 0; i < count; ++i) sum[i] += (*values)[i];
  }
  std::copy(sum.begin(), sum.end(), receive);
}

}  // namespace

struct FakeLocalFunctions {
  static bool FailsNow(FakeNccl& fake) {
    MutexLock lock(fake.mutex_);
    return fake.local_calls_left_ >= 0 && fake.local_calls_left_-- == 0;
  }

  static int32_t Open(void* self, int32_t count, const int32_t* devices, NcclLocal** local) {
    FakeNccl& fake = *static_cast<FakeNccl*>(self);
    const std::set<int32_t> all(devices, devices + count);
    const bool there = *all.begin() >= 0 && *all.rbegin() < fake.devices_;
    const bool once = all.size() == static_cast<size_t>(count);
    if (FailsNow(fake) || !there || !once) return kFakeLocalError;
    *local = reinterpret_cast<NcclLocal*>(new FakeLocal{&fake, all.size()});
    MutexLock lock(fake.mutex_);
    ++fake.counters_.locals;
    return kNcclDone;
  }
  static void Close(NcclLocal* local) {
    FakeLocal& closed = LocalOf(local);
    {
      MutexLock lock(closed.fake->mutex_);
      --closed.fake->counters_.locals;
    }
    delete &closed;
  }
  static int32_t Reduce(NcclLocal* local, const void* const* send, void* receive, NcclRun run) {
    FakeLocal& reducer = LocalOf(local);
    FakeNccl& fake = *reducer.fake;
    {
      MutexLock lock(fake.mutex_);
      if (reducer.failed) fake.MisuseLocked("used after it has failed");
      if (run.type != NcclType::kFloat32) fake.MisuseLocked("the fake adds up float32 alone");
      ++fake.counters_.reductions;
    }
    reducer.failed = FailsNow(fake);
    if (reducer.failed) return kFakeLocalError;
    std::vector<const float*> values;
    for (size_t i = 0; i < reducer.ranks; ++i) values.push_back(static_cast<const float*>(send[i]));
    fake.run_on_([&] { AddUp(values, run.count, static_cast<float*>(receive)); });
    return kNcclDone;
  }
};

void FakeNccl::AddLocalFunctions() {
  table_.open_local = FakeLocalFunctions::Open;
  table_.close_local = FakeLocalFunctions::Close;
  table_.reduce_local = FakeLocalFunctions::Reduce;
}

void FakeNccl::RunOn(Devices devices) { run_on_ = std::move(devices); }

void FakeNccl::FailLocalAfter(int calls) {
  MutexLock lock(mutex_);
  local_calls_left_ = calls;
}

}  // namespace cohort
