#pragma once

// The bytes of a checkpoint's index (bundle.h).

#include <map>
#include <string>

#include "proto/tensor_bundle.pb.h"

namespace cohort {

using IndexEntries = std::map<std::string, proto::BundleEntryProto>;

// Returns the table in LevelDB's format that has the header and these entries.
std::string IndexBytes(const IndexEntries& entries, int num_shards);

}  // namespace cohort
