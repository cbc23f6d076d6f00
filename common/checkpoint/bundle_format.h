#pragma once

// Names, numbers and limits of the TensorFlow V2 checkpoint format that Cohort's writer and reader
// share.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/dtype.h"
#include "proto/tensor_bundle.pb.h"

namespace cohort {

// The key of the header entry in the index. No tensor may have this name.
inline constexpr absl::string_view kBundleHeaderKey = "";
// The bundle version that TensorFlow's own writer declares. Cohort's reader refuses a bundle whose
// min_consumer is higher than this version.
inline constexpr int32_t kBundleVersion = 1;
// The block size in which TensorFlow writes prefix.index. With the same block size, Cohort writes
// the same file as TensorFlow for the same entries.
inline constexpr size_t kIndexBlockBytes = 256 << 10;

inline constexpr int kBundleRankMax = 254;  // the largest number of axes that TensorFlow supports
inline constexpr int kBundleShardsMax = 65536;
inline constexpr int kTensorSlicesMax = 16384;

// Returns the path of a checkpoint's index: "prefix.index".
std::string IndexPath(const std::string& prefix);

// Converts between DType and the numbers of tensorflow.DataType. kUndefined has the number 0, and a
// type that Cohort does not support (strings, variants) becomes kUndefined.
int32_t TensorFlowDType(DType dtype);
DType DTypeFromTensorFlow(int32_t number);
// The number of tensorflow.DataType for strings.
inline constexpr int32_t kTensorFlowString = 7;
// Returns TensorFlow's name of a type, such as "string", or "type 99" for a number without a name.
std::string TensorFlowTypeName(int32_t number);

// Returns the key under which the index stores the entry for one slice of a tensor. The key is that
// of tensorflow::checkpoint::EncodeTensorNameSlice: an order-preserving encoding of 0, the name,
// the rank, and (start, length) of each axis, with -1 for a length that is not set.
std::string SliceKey(absl::string_view tensor, const proto::BundleSlice& slice);

// Checks that `name` may be the name of a tensor: it must not be empty, which is the header's key,
// and must not begin with a zero byte, as the keys of slices do. Errors: INVALID_ARGUMENT.
absl::Status CheckTensorName(absl::string_view name);

// Returns the error for a checkpoint file whose bytes are not those that were written: DATA_LOSS
// with the message "path: what; remedy".
absl::Status DamagedFile(const std::string& path, absl::string_view what);

// Checks that there is no complete checkpoint `prefix`. Errors: ALREADY_EXISTS if the prefix has an
// index, which makes a checkpoint complete; those of the file system if this cannot be found out.
absl::Status CheckNotComplete(FileSystem& files, const std::string& prefix);

// Returns the number of bytes of a tensor. Errors: INVALID_ARGUMENT for a negative size along an
// axis, for more than kBundleRankMax axes, and for more than 2^62 bytes.
absl::StatusOr<int64_t> CheckedBytes(DType dtype, absl::Span<const int64_t> dims);

}  // namespace cohort
