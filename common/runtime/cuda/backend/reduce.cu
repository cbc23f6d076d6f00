#include "common/runtime/cuda/backend/broadcast_walk.cuh"
#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

namespace {

// Computes `parts` partial sums for each of `count` sums, each partial sum in one thread.
// Neighbouring threads read neighbouring elements.
template <typename Store>
int32_t SumColumns(CudaContext* context, const SumLaunch& launch, Store store) {
  const SumLaunch captured = launch;
  const int64_t of_part = (launch.length + launch.parts - 1) / launch.parts;
  return ForEach(context, launch.count * launch.parts, [=] COHORT_DEVICE(int64_t i) {
    const int64_t column = i % captured.count;
    const int64_t first = i / captured.count * of_part;
    const int64_t end = first + of_part < captured.length ? first + of_part : captured.length;
    const float* const x = captured.x + PlaceOf(captured.kept, column).a;
    double sum = 0;
    for (int64_t k = first; k < end; ++k) {
      sum += static_cast<double>(x[PlaceOf(captured.reduced, k).a]);
    }
    store(i, sum);
  });
}

// Computes each of `count` sums over `length` elements in one or more blocks of threads.
template <typename Store>
int32_t SumRows(CudaContext* context, const SumLaunch& launch, Store store) {
  const SumLaunch captured = launch;
  return ReduceEach(
      context, launch.count, launch.length, 0.0,
      [=] COHORT_DEVICE(int64_t i, int64_t k) -> double {
        return captured.x[PlaceOf(captured.kept, i).a + PlaceOf(captured.reduced, k).a];
      },
      AddUp{}, store);
}

int32_t Sum(CudaContext* context, const SumLaunch& launch) {
  const double divisor = launch.divisor;
  float* const y = launch.y;
  const auto finish = [=] COHORT_DEVICE(int64_t i, double sum) {
    y[i] = static_cast<float>(sum / divisor);
  };
  if (!launch.columns) return SumRows(context, launch, finish);
  if (launch.parts == 1) return SumColumns(context, launch, finish);
  // After the partial sums of each column, a second launch adds them up.
  double* const partial = launch.partial;
  const int32_t code =
      SumColumns(context, launch, [=] COHORT_DEVICE(int64_t i, double sum) { partial[i] = sum; });
  if (code != kCudaDone) return code;
  const int64_t count = launch.count;
  return ReduceEach(
      context, count, launch.parts, 0.0,
      [=] COHORT_DEVICE(int64_t i, int64_t part) { return partial[part * count + i]; }, AddUp{},
      finish);
}

int32_t Repeat(CudaContext* context, const RepeatLaunch& launch) {
  const BroadcastWalk walk = launch.walk;
  const float scale = launch.scale;
  const float* const x = launch.x;
  float* const y = launch.y;
  return ForEach(context, launch.count,
                 [=] COHORT_DEVICE(int64_t i) { y[i] = scale * x[PlaceOf(walk, i).a]; });
}

}  // namespace

ReduceLaunches MakeReduceLaunches() { return {Sum, Repeat}; }

}  // namespace cohort
