#pragma once

// A data set is a source of examples and the transforms of a proto::DatasetSpec, named as in
// tf.data. An element is one tensor for each component of the source; with a batch transform, an
// element is a batch and axis 0 of each tensor counts its examples. Every element can be made from
// its position alone (index_plan.h), so the same position gives the same examples on every worker
// and in every attempt. An iterator is a data set and a position.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"
#include "proto/worker.pb.h"
#include "worker/data/columns/column_function.h"
#include "worker/data/columns/column_gatherer.h"
#include "worker/data/component_assembler.h"
#include "worker/data/index_plan.h"
#include "worker/data/source.h"

namespace cohort {

using Element = std::vector<Tensor>;

// The largest number of elements that an iterator makes before they are asked for.
inline constexpr int64_t kPrefetchMax = 64;

class DatasetIterator;

// A data set. Thread-safe.
class Dataset : public std::enable_shared_from_this<Dataset> {
 public:
  // Makes the data set and reads its files, which is slow. The result is shared, because iterators
  // and running closures use a data set after its release. Errors: those of SourceCache::Open,
  // IndexPlan::Build and ComponentAssembler::Build; INVALID_ARGUMENT for a transform that names a
  // component which the source does not have, and for a prefetch below -1.
  static absl::StatusOr<std::shared_ptr<const Dataset>> Build(const proto::DatasetSpec& spec,
                                                              SourceCache& sources);

  const proto::ElementSpec& element_spec() const { return element_spec_; }
  // Number of elements; kEndless for endless data.
  int64_t cardinality() const { return plan_.cardinality(); }
  uint32_t content() const { return content_; }  // checksum of the source's data (Source::content)
  // The source's files (Source::files).
  const std::vector<proto::DataFile>& files() const { return files_; }
  const IndexPlan& plan() const { return plan_; }
  // Returns how many elements an iterator makes before they are asked for: the value of the last
  // prefetch transform, at most kPrefetchMax, or 0 without a prefetch transform.
  int64_t prefetch() const { return prefetch_; }

  // Returns the element at `position`. Errors: OUT_OF_RANGE if the data end before `position`;
  // INVALID_ARGUMENT for a negative position, or an example whose label is not one of the classes;
  // RESOURCE_EXHAUSTED for an element that is too large.
  absl::StatusOr<Element> ElementAt(const proto::IteratorPosition& position) const;

  // Returns the statistics, in the order of Adapt's, of the source's examples from `begin` to
  // before `end`. Errors: INVALID_ARGUMENT if the pipeline does not end with Adapt; OUT_OF_RANGE;
  // those of reading an example.
  absl::StatusOr<std::vector<ColumnStatistics>> Gather(int64_t begin, int64_t end) const;

  // Returns " of " and the full paths of the source's files, for error messages; empty if the
  // source has no files.
  std::string FilesPhrase() const;

  // Returns a name for the example in row `row` of the element at `position`, for error messages:
  // "example 17 of x.idx", with the file from which `component` was read.
  std::string ExampleName(const proto::IteratorPosition& position, int64_t row,
                          size_t component) const;

  // Makes an iterator whose first element is at `position`. Errors: INVALID_ARGUMENT for a position
  // outside the data set; the position just after the last element is allowed.
  absl::StatusOr<std::unique_ptr<DatasetIterator>> MakeIterator(
      const proto::IteratorPosition& position) const;

 private:
  // The functions of a pipeline over record files, in order.
  using Functions = std::vector<std::unique_ptr<const ColumnFunction>>;

  // What a pipeline does to the columns of examples.
  struct ColumnWork {
    Functions functions;
    std::optional<ColumnGatherer> gatherer;
  };
  // Makes the functions of the pipeline, and changes `columns` to the types that they leave.
  static absl::StatusOr<ColumnWork> MakeColumnWork(const proto::DatasetSpec& spec, bool has_columns,
                                                   std::vector<ColumnSpec>& columns);

  Dataset(IndexPlan plan, std::vector<ComponentAssembler> components, ColumnWork work,
          const Source& source);
  void DescribeElement();
  // Returns the numbers of the examples in the source of which the element at `position` consists.
  // Errors: those of IndexPlan::Locate; past the end of the data, the message also names the files
  // and the number of their examples.
  absl::StatusOr<std::vector<int64_t>> Locate(const proto::IteratorPosition& position) const;
  absl::StatusOr<Element> Assemble(absl::Span<const int64_t> indices) const;
  // Reads examples and applies the functions to their columns.
  absl::StatusOr<ColumnBatch> ReadColumns(absl::Span<const int64_t> indices) const;
  // Returns a component of the element from its rows, which were read.
  absl::StatusOr<Tensor> AssembleRead(size_t component, Tensor read,
                                      absl::Span<const int64_t> indices) const;
  absl::StatusOr<Element> AssembleColumns(absl::Span<const int64_t> indices) const;
  OrderCursor TakeCursor() const;
  void ReturnCursor(OrderCursor cursor) const;

  // The largest number of cursors that wait for their next reader. A cursor holds the shuffle
  // orders that its last reader used. So many concurrent readers find their orders without a
  // lookup.
  static constexpr size_t kCursorsMax = 4;

  const IndexPlan plan_;
  const std::vector<ComponentAssembler> components_;
  const std::shared_ptr<const Examples> examples_;  // null for a source of arrays
  const Functions functions_;
  const std::optional<ColumnGatherer> gatherer_;  // set: the pipeline ends with Adapt
  const uint32_t content_;
  const std::vector<proto::DataFile> files_;
  proto::ElementSpec element_spec_;
  int64_t prefetch_ = 0;
  mutable Mutex mutex_;
  mutable std::vector<OrderCursor> cursors_ ABSL_GUARDED_BY(mutex_);
};

// An iterator: a data set and the position of the next element. Thread-compatible.
class DatasetIterator {
 public:
  DatasetIterator(std::shared_ptr<const Dataset> dataset, proto::IteratorPosition position);

  // Returns the next element, or nullopt at the end of the data. Errors: those of
  // Dataset::ElementAt; the iterator then stays where it is.
  absl::StatusOr<std::optional<Element>> Next();

  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  // Returns the position of the element that Next() will return.
  const proto::IteratorPosition& position() const { return position_; }

 private:
  // The data set that the iterator reads; shared with other iterators.
  const std::shared_ptr<const Dataset> dataset_;
  const int64_t start_epoch_;
  proto::IteratorPosition position_;
};

}  // namespace cohort
