#pragma once

// Records of the tests that count how often each record is trained. A test that includes this
// header links cohort_records.

#include <cstdint>
#include <string>

#include "common/records/tfrecord.h"
#include "proto/example.pb.h"

namespace cohort {

// Returns TFRecords of `count` examples: "id", which counts on from `id`, and a "label" that no
// model reaches, so that each step moves the row of an id by the same amount.
inline std::string LedgerRecords(int count, int64_t& id) {
  std::string records;
  for (int i = 0; i < count; ++i) {
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["id"].mutable_int64_list()->add_value(id++);
    features["label"].mutable_float_list()->add_value(1e6f);
    AppendTfRecord(example.SerializeAsString(), records);
  }
  return records;
}

}  // namespace cohort
