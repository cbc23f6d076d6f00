#pragma once

// Launches of updates of variables, that is, functions that start the loops of
// update/rules/updates.h on a device.

#include <cstdint>

#include "common/runtime/update/rules/updates.h"

namespace cohort {

struct CudaContext;

struct UpdatesLaunches {
  int32_t (*sgd)(CudaContext* context, const SgdUpdate& update);
  int32_t (*momentum)(CudaContext* context, const MomentumUpdate& update);
  int32_t (*adagrad)(CudaContext* context, const AdagradUpdate& update);
  int32_t (*rowwise_adagrad)(CudaContext* context, const RowwiseAdagradUpdate& update);
  int32_t (*adadelta)(CudaContext* context, const AdadeltaUpdate& update);
  int32_t (*rmsprop)(CudaContext* context, const RmspropUpdate& update);
  int32_t (*adam)(CudaContext* context, const AdamUpdate& update);
  int32_t (*adamax)(CudaContext* context, const AdamaxUpdate& update);
  int32_t (*nadam)(CudaContext* context, const NadamUpdate& update);
  int32_t (*ftrl)(CudaContext* context, const FtrlUpdate& update);
  int32_t (*add)(CudaContext* context, const AddUpdate& update);
  int32_t (*average)(CudaContext* context, const AverageUpdate& update);
  int32_t (*keep)(CudaContext* context, const KeepUpdate& update);
};

// Returns the functions that start updates on a device; updates.cu defines them.
UpdatesLaunches MakeUpdatesLaunches();

}  // namespace cohort
