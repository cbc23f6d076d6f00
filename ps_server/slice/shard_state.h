#pragma once

// What a slice is made of, as a snapshot takes it and a restore brings it.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/tensor/tensor.h"
#include "common/wire/message.h"
#include "ps_server/slice/applied_set.h"
#include "ps_server/slice/dynamic_rows.h"

namespace cohort {

// How many pushes are in the value and the slots, and of which closures.
struct ShardHistory {
  uint64_t version = 0;
  AppliedSet applied;
  uint64_t update = 0;  // number of the last change
  uint64_t round = 0;   // the last one that was applied
};

// The value and the slots (in the order of the rule) at one version, leased: nothing is copied, and
// no push waits for the reader. A dynamic table is a copy, and stands for both.
struct ShardSnapshot {
  Payload value;
  std::vector<Payload> slots;
  ShardHistory history;
  std::optional<SavedTable> table = std::nullopt;
};

// What a restore brings; the shapes are those of the slice.
struct ShardState {
  Tensor value;
  std::vector<Tensor> slots;  // empty: those of the slice stay
  // Of a dynamic table, for value and slots. Without slots those of the rows begin anew.
  LoadedTable table;
  std::optional<ShardHistory> history;  // none: that of the slice stays
};

}  // namespace cohort
