#pragma once

// What messages between worker and parameter servers say of the tensors in their payload.

#include <memory>

#include "common/wire/message.h"
#include "proto/tensor.pb.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {

// Shared with requests on their way. Null: none moves by rows.
using SharedRows = std::shared_ptr<const RowIds>;

void FillMeta(const VariableType& type, const SliceTransfer& slice, proto::TensorMeta* meta);
void FillRowsMeta(const VariableType& type, const RowRun& run, proto::TensorMeta* meta);
void FillIdsMeta(size_t count, proto::TensorMeta* meta);

// Whether a tensor is of the slice, or these rows of it. Floats may come in 16 bits.
bool FitsSlice(const VariableType& type, const SliceTransfer& slice, const proto::TensorMeta& meta);
bool FitsRows(const VariableType& type, const RowRun& run, const proto::TensorMeta& meta);

// The ids of a run, without a copy.
void AddIds(const SharedRows& rows, size_t variable, const RowRun& run, Payload& payload);

}  // namespace cohort
