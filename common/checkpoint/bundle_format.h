#pragma once

// Names, numbers and limits of the TensorFlow V2 checkpoint format that writer and reader share.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/dtype.h"
#include "proto/tensor_bundle.pb.h"

namespace cohort {

// The key of the header entry; no tensor may have this name.
inline constexpr absl::string_view kBundleHeaderKey = "";
// The version that TensorFlow's own writer declares; a reader refuses a bundle whose min_consumer
// is above it.
inline constexpr int32_t kBundleVersion = 1;
// TensorFlow's block size for prefix.index; with the same size the same entries give the same file.
inline constexpr size_t kIndexBlockBytes = 256 << 10;

inline constexpr int kBundleRankMax = 254;  // TensorFlow's own
inline constexpr int kBundleShardsMax = 65536;
inline constexpr int kTensorSlicesMax = 16384;

// Returns "prefix.index".
std::string IndexPath(const std::string& prefix);

// Numbers of tensorflow.DataType. 0 for kUndefined; kUndefined for a type that Cohort has not
// (strings, variants).
int32_t TensorFlowDType(DType dtype);
DType DTypeFromTensorFlow(int32_t number);

// Returns the key under which the bytes of one slice are stored:
// tensorflow::checkpoint::EncodeTensorNameSlice, an order-preserving encoding of 0, the name, the
// rank and (start, length) of each axis, with -1 for a length that is unset.
std::string SliceKey(absl::string_view tensor, const proto::BundleSlice& slice);

// Checks that `name` may be the name of a tensor: it is neither the header's key nor of the form of
// a slice key.
absl::Status CheckTensorName(absl::string_view name);

// Makes the error for stored bytes that are not the ones that were written: DATA_LOSS "path: what;
// remedy".
absl::Status DamagedFile(const std::string& path, absl::string_view what);

// Checks that no checkpoint of this prefix is complete. Errors: ALREADY_EXISTS if the prefix has an
// index, which makes a checkpoint complete.
absl::Status CheckNotComplete(FileSystem& files, const std::string& prefix);

// Bytes of a tensor. Errors: INVALID_ARGUMENT for a negative extent, more than kBundleRankMax axes
// or more than 2^62 bytes.
absl::StatusOr<int64_t> CheckedBytes(DType dtype, absl::Span<const int64_t> dims);

}  // namespace cohort
