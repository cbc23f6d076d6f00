#pragma once

// A data set is a source and the transforms of a proto::DatasetSpec, as tf.data names them. Every
// element can be made from its position alone (index_plan.h), so the same position gives the same
// examples on every worker and attempt; an iterator is a data set and a position. An element is one
// tensor for each component of the source; after batch, axis 0 of each counts its examples.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"
#include "proto/worker.pb.h"
#include "worker/data/component_assembler.h"
#include "worker/data/index_plan.h"
#include "worker/data/source.h"

namespace cohort {

using Element = std::vector<Tensor>;

inline constexpr int64_t kPrefetchMax = 64;

class DatasetIterator;

// Thread-safe.
class Dataset : public std::enable_shared_from_this<Dataset> {
 public:
  // Reads the files: slow. Shared: iterators and closures in flight use it after its release.
  // Errors: those of SourceCache::Open, IndexPlan::Build and ComponentAssembler::Build;
  // INVALID_ARGUMENT for a transform of a component that the source does not have.
  static absl::StatusOr<std::shared_ptr<const Dataset>> Build(const proto::DatasetSpec& spec,
                                                              SourceCache& sources);

  const proto::ElementSpec& element_spec() const { return element_spec_; }
  int64_t cardinality() const { return plan_.cardinality(); }  // kEndless when endless
  uint32_t content() const { return content_; }                // of its source: Source::content
  const IndexPlan& plan() const { return plan_; }
  // Elements to hold ready, from the last prefetch transform, at most kPrefetchMax; 0 without one.
  int64_t prefetch() const { return prefetch_; }

  // Errors: OUT_OF_RANGE past the end; INVALID_ARGUMENT for a bad position or a bad class.
  absl::StatusOr<Element> ElementAt(const proto::IteratorPosition& position) const;

  // Errors: INVALID_ARGUMENT for a position outside the data set; its very end is allowed.
  absl::StatusOr<std::unique_ptr<DatasetIterator>> MakeIterator(
      const proto::IteratorPosition& position) const;

 private:
  Dataset(IndexPlan plan, std::vector<ComponentAssembler> components, uint32_t content);
  void DescribeElement();
  absl::StatusOr<Element> Assemble(absl::Span<const int64_t> indices) const;
  OrderCursor TakeCursor() const;
  void ReturnCursor(OrderCursor cursor) const;

  static constexpr size_t kCursorsMax = 4;  // readers at one time that find their order at once

  const IndexPlan plan_;
  const std::vector<ComponentAssembler> components_;
  const uint32_t content_;
  proto::ElementSpec element_spec_;
  int64_t prefetch_ = 0;
  mutable Mutex mutex_;
  mutable std::vector<OrderCursor> cursors_ ABSL_GUARDED_BY(mutex_);
};

// Thread-compatible.
class DatasetIterator {
 public:
  DatasetIterator(std::shared_ptr<const Dataset> dataset, proto::IteratorPosition position);

  // Returns the next element, or nothing at the end. Errors: those of Dataset::ElementAt; the
  // position stays.
  absl::StatusOr<std::optional<Element>> Next();

  // Returns the position of the element that Next returns.
  const proto::IteratorPosition& position() const { return position_; }

 private:
  const std::shared_ptr<const Dataset> dataset_;  // shared with other iterators
  const int64_t start_epoch_;
  proto::IteratorPosition position_;
};

}  // namespace cohort
