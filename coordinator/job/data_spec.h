#pragma once

// The source of examples and what is done to them. A data set yields pairs (x, y) = components (0,
// 1), or named columns, each a component; the pipeline is one list for training and test data
// alike, written with the names of the Keras layers that do the same.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/plan.pb.h"

namespace cohort {

// The MNIST files by split, found by the daemon (data directory, cache, download), unless both
// paths are given.
struct MnistSpec {
  std::string split = "train";  // "train" or "test"
  std::string images;           // path of an IDX file, gzip or plain
  std::string labels;
  bool or_synthetic_digits = false;  // if there is no MNIST, and only then

  friend bool operator==(const MnistSpec&, const MnistSpec&) = default;
};

// Any IDX files; file i is component i.
struct IdxSpec {
  std::vector<std::string> paths;

  friend bool operator==(const IdxSpec&, const IdxSpec&) = default;
};

// Seeded digit images of MNIST's form, made by the program.
struct SyntheticDigitsSpec {
  uint64_t seed = 0;
  int64_t count = 10000;

  friend bool operator==(const SyntheticDigitsSpec&, const SyntheticDigitsSpec&) = default;
};

// Rows in the format of Criteo's click logs, from files or made by the program (proto::ClickLog).
struct ClickLogSpec {
  std::vector<std::string> paths;  // empty: made by the program
  uint64_t seed = 0;
  int64_t count = 100000;
  std::vector<int64_t> hash_buckets;  // one per category, 26 in all

  friend bool operator==(const ClickLogSpec&, const ClickLogSpec&) = default;
};

using DataSourceSpec = std::variant<MnistSpec, IdxSpec, SyntheticDigitsSpec, ClickLogSpec>;

// Returns the names of a source's components in the pipeline, in order.
std::vector<std::string> ColumnNames(const DataSourceSpec& source);

// Flatten, Rescaling or CategoryEncoding (one_hot) of one component.
struct TransformSpec {
  enum class Kind { kFlatten, kRescaling, kCategoryEncoding };
  Kind kind = Kind::kFlatten;
  uint32_t component = 0;  // position in ColumnNames
  double scale = 1;        // Rescaling: x * scale + offset, in float32
  double offset = 0;
  int64_t num_tokens = 0;  // CategoryEncoding: classes

  friend bool operator==(const TransformSpec&, const TransformSpec&) = default;
};

struct DataSpec {
  DataSourceSpec train = MnistSpec{};
  std::optional<DataSourceSpec> test;
  std::vector<TransformSpec> pipeline;

  friend bool operator==(const DataSpec&, const DataSpec&) = default;
};

// Returns the pipeline for a DatasetSpec, to be put after its Batch: every transform works on whole
// batches.
std::vector<proto::DatasetTransform> PipelineTransforms(const DataSpec& data);

// Returns whether a batch's component can be read as one class per example: [N] or [N,1], integers
// or floats; the workers check that they are whole numbers.
bool HasLabels(const proto::ComponentSpec& component);
// Returns the component that proto::ClassLabels makes of it.
proto::ComponentSpec ClassLabels(const proto::ComponentSpec& component);

// Returns the element that `transforms` make of a batch of `batch`'s type (Rescale, OneHot,
// Flatten; others change no type). Errors: INVALID_ARGUMENT naming the transform, its component and
// what it needs.
absl::StatusOr<proto::ElementSpec> TransformElement(
    const proto::ElementSpec& batch, absl::Span<const proto::DatasetTransform> transforms);

}  // namespace cohort
