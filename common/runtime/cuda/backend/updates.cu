#include <cmath>

#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/launches.h"
#include "common/runtime/update/rules/update_bodies.h"

namespace cohort {

namespace {

// A function object that starts a device loop, which applies the body of an update rule to every
// element.
struct StartEach {
  CudaContext* context;

  template <typename Body>
  int32_t operator()(const Body& body) const {
    return ForEach(context, body.update.span.count, body);
  }
};

template <typename Update>
int32_t Start(CudaContext* context, const Update& update) {
  return WithBody(update, StartEach{context});
}

// Applies row-wise Adagrad: adds the mean square of each row's gradient to the row's accumulator,
// and then updates every element by the accumulator of its row.
int32_t RowwiseAdagrad(CudaContext* context, const RowwiseAdagradUpdate& update) {
  const RowwiseAdagradUpdate u = update;
  const int32_t code = ReduceEach(
      context, u.span.count / u.width, u.width, 0.0,
      [=] COHORT_DEVICE(int64_t row, int64_t k) -> double {
        const double g = u.span.gradient[row * u.width + k];
        return g * g;
      },
      AddUp{},
      [=] COHORT_DEVICE(int64_t row, double squares) {
        const auto mean = static_cast<float>(squares / static_cast<double>(u.width));
        u.slots.out[row] = u.slots.in[row] + mean;
      });
  if (code != kCudaDone) return code;
  return ForEach(context, u.span.count, [=] COHORT_DEVICE(int64_t i) {
    const float sum = u.slots.out[i / u.width];
    const float root = u.rates.epsilon_outside_root ? RootOf<true>(sum, u.rates.epsilon)
                                                    : RootOf<false>(sum, u.rates.epsilon);
    u.span.value_out[i] = ValueAt(u.span, i) - u.rates.learning_rate / root * u.span.gradient[i];
  });
}

}  // namespace

UpdatesLaunches MakeUpdatesLaunches() {
  UpdatesLaunches launches = {};
  launches.sgd = Start<SgdUpdate>;
  launches.momentum = Start<MomentumUpdate>;
  launches.adagrad = Start<AdagradUpdate>;
  launches.rowwise_adagrad = RowwiseAdagrad;
  launches.adadelta = Start<AdadeltaUpdate>;
  launches.rmsprop = Start<RmspropUpdate>;
  launches.adam = Start<AdamUpdate>;
  launches.adamax = Start<AdamaxUpdate>;
  launches.nadam = Start<NadamUpdate>;
  launches.lion = Start<LionUpdate>;
  launches.ftrl = Start<FtrlUpdate>;
  launches.add = Start<AddUpdate>;
  launches.average = Start<AverageUpdate>;
  launches.keep = Start<KeepUpdate>;
  return launches;
}

}  // namespace cohort
