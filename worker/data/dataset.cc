#include "worker/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "worker/data/columns/make_column_function.h"

namespace cohort {

namespace {

// The examples that are in memory at a time while statistics are gathered.
constexpr int64_t kGatheredMax = 1024;

// Returns how many examples are in memory at a time.
int64_t RowsAtATime(const proto::DatasetSpec& spec) {
  int64_t rows = 1;
  for (const proto::DatasetTransform& transform : spec.transforms()) {
    if (transform.has_batch()) rows = std::max(rows, transform.batch().size());
    if (transform.has_adapt()) rows = std::max(rows, kGatheredMax);
  }
  return rows;
}

// Refuses columns whose values for so many examples need more memory than a component may have,
// before a function makes them.
absl::Status CheckColumnBytes(const std::vector<ColumnSpec>& columns, int64_t rows) {
  for (const ColumnSpec& column : columns) {
    int64_t bytes = 0;
    const bool fits = !__builtin_mul_overflow(column.shape.num_elements(), rows, &bytes) &&
                      !__builtin_mul_overflow(bytes, int64_t{4}, &bytes) &&
                      bytes <= kComponentBytesMax;
    if (fits) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("column '", Excerpt(column.name), "' is ", column.TypeText(), ", of which ",
                     rows, " examples need more than ", kComponentBytesMax,
                     " bytes; take smaller batches, or fewer values"));
  }
  return absl::OkStatus();
}

// Returns the value of the last prefetch transform, at most kPrefetchMax; 0 if there is none.
// Errors: INVALID_ARGUMENT for a value below -1.
absl::StatusOr<int64_t> PrefetchOf(const proto::DatasetSpec& spec) {
  constexpr int64_t kAutotune = -1;
  constexpr int64_t kAutotuneElements = 2;
  int64_t prefetch = 0;
  for (const proto::DatasetTransform& transform : spec.transforms()) {
    if (transform.kind_case() != proto::DatasetTransform::kPrefetch) continue;
    if (transform.prefetch() < kAutotune) {
      return absl::InvalidArgumentError(absl::StrCat("transform prefetch has the value ",
                                                     transform.prefetch(),
                                                     ": use -1 (automatic) or a count"));
    }
    // A later prefetch replaces an earlier one, because an iterator has one queue of elements.
    prefetch = transform.prefetch() == kAutotune ? kAutotuneElements : transform.prefetch();
  }
  return std::min(prefetch, kPrefetchMax);
}

// Checks that the source has every component that a transform of `spec` names; `components` is
// their number. Errors: INVALID_ARGUMENT naming a missing component.
absl::Status CheckComponents(const proto::DatasetSpec& spec, size_t components) {
  for (const proto::DatasetTransform& transform : spec.transforms()) {
    std::optional<uint32_t> component;
    if (transform.has_rescale()) component = transform.rescale().component();
    if (transform.has_one_hot()) component = transform.one_hot().component();
    if (transform.has_class_labels()) component = transform.class_labels().component();
    if (transform.kind_case() == proto::DatasetTransform::kFlatten) component = transform.flatten();
    if (component.has_value() && *component >= components) {
      return absl::InvalidArgumentError(absl::StrCat("a transform names component ", *component,
                                                     " but the source has ", components));
    }
  }
  return absl::OkStatus();
}

DType TypeOf(proto::ColumnType type) {
  switch (type) {
    case proto::COLUMN_INT32:
      return DType::kInt32;
    case proto::COLUMN_FLOAT32:
      return DType::kFloat32;
    case proto::COLUMN_FLOAT64:
      return DType::kFloat64;
    default:
      return DType::kInt64;
  }
}

// Returns a component without examples for each column that the functions leave. Errors:
// INVALID_ARGUMENT naming a column of texts, or one that varies, of which no tensor can be made.
absl::StatusOr<std::vector<SourceComponent>> ComponentsOf(const std::vector<ColumnSpec>& columns,
                                                          const std::string& from) {
  std::vector<SourceComponent> components;
  for (const ColumnSpec& column : columns) {
    if (column.type == proto::COLUMN_STRING) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", Excerpt(column.name),
                       "' has texts, which a model does not take: "
                       "look them up, hash them, or drop the column"));
    }
    if (column.varies) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", Excerpt(column.name), "' is ", column.TypeText(),
                       ", with different numbers of values: encode it, or drop it"));
    }
    std::vector<int64_t> dims = {0};
    dims.insert(dims.end(), column.shape.dims().begin(), column.shape.dims().end());
    components.push_back(
        {std::make_shared<const Tensor>(TypeOf(column.type), Shape(dims)), 0, column.name, from});
  }
  return components;
}

// The values of a column as the memory of a tensor. Immutable; thread-safe.
class ColumnMemory final : public BufferMemory {
 public:
  explicit ColumnMemory(std::vector<float> values) : values_(std::move(values)) {}
  absl::Span<std::byte> bytes() {
    return absl::MakeSpan(reinterpret_cast<std::byte*>(values_.data()),
                          values_.size() * sizeof(float));
  }

 private:
  std::vector<float> values_;
};

// Values of at least so many bytes are not copied into a tensor, which takes over their memory.
constexpr size_t kTakenOverBytes = size_t{256} << 10;

// Returns the values of a column as a tensor with the records at axis 0.
Tensor TensorOf(DataColumn& column, int64_t rows) {
  std::vector<int64_t> dims = {rows};
  dims.insert(dims.end(), column.spec.shape.dims().begin(), column.spec.shape.dims().end());
  if (column.values.floats.size() * sizeof(float) >= kTakenOverBytes) {
    const auto memory = std::make_shared<ColumnMemory>(std::move(column.values.floats));
    return Tensor(DType::kFloat32, Shape(dims), Buffer::Of(memory, memory->bytes()), 0);
  }
  Tensor tensor(TypeOf(column.spec.type), Shape(dims));
  const ColumnValues& values = column.values;
  std::byte* const out = tensor.mutable_raw();
  if (tensor.num_bytes() == 0) return tensor;
  switch (column.spec.type) {
    case proto::COLUMN_INT32:
      std::transform(values.ints.begin(), values.ints.end(), reinterpret_cast<int32_t*>(out),
                     [](int64_t value) { return static_cast<int32_t>(value); });
      break;
    case proto::COLUMN_FLOAT32:
      std::memcpy(out, values.floats.data(), tensor.num_bytes());
      break;
    case proto::COLUMN_FLOAT64:
      std::memcpy(out, values.doubles.data(), tensor.num_bytes());
      break;
    default:
      std::memcpy(out, values.ints.data(), tensor.num_bytes());
  }
  return tensor;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> Dataset::Build(const proto::DatasetSpec& spec,
                                                              SourceCache& sources) {
  ASSIGN_OR_RETURN(Source source, sources.Open(spec.source()));
  const bool has_columns = source.examples != nullptr;
  std::vector<ColumnSpec> columns;
  if (has_columns) columns = source.examples->columns();
  ASSIGN_OR_RETURN(ColumnWork work, MakeColumnWork(spec, has_columns, columns));
  if (has_columns && !work.gatherer) {
    ASSIGN_OR_RETURN(source.components, ComponentsOf(columns, source.files[0].path()));
  }
  RETURN_IF_ERROR(CheckComponents(spec, source.components.size()));
  ASSIGN_OR_RETURN(IndexPlan plan, IndexPlan::Build(source.elements, spec));
  std::vector<ComponentAssembler> components;
  for (size_t i = 0; i < source.components.size(); ++i) {
    ASSIGN_OR_RETURN(
        ComponentAssembler assembler,
        ComponentAssembler::Build(source.components[i], static_cast<uint32_t>(i), spec));
    components.push_back(std::move(assembler));
  }
  std::shared_ptr<Dataset> dataset(
      new Dataset(std::move(plan), std::move(components), std::move(work), source));
  ASSIGN_OR_RETURN(dataset->prefetch_, PrefetchOf(spec));
  return dataset;
}

absl::StatusOr<Dataset::ColumnWork> Dataset::MakeColumnWork(const proto::DatasetSpec& spec,
                                                            bool has_columns,
                                                            std::vector<ColumnSpec>& columns) {
  ColumnWork work;
  for (const proto::DatasetTransform& transform : spec.transforms()) {
    if (!transform.has_map() && !transform.has_adapt()) continue;
    if (!has_columns) {
      return absl::InvalidArgumentError(
          absl::StrCat(transform.has_adapt() ? "Adapt" : FunctionName(transform.map()),
                       " is for named columns, as files of records have; the source has arrays"));
    }
    if (work.gatherer) return absl::InvalidArgumentError("Adapt must be the last transform");
    if (transform.has_adapt()) {
      ASSIGN_OR_RETURN(work.gatherer, ColumnGatherer::Make(transform.adapt(), columns));
    } else {
      ASSIGN_OR_RETURN(work.functions.emplace_back(), MakeColumnFunction(transform.map(), columns));
      RETURN_IF_ERROR(
          Annotate(CheckColumnBytes(columns, RowsAtATime(spec)), FunctionName(transform.map())));
    }
  }
  return work;
}

Dataset::Dataset(IndexPlan plan, std::vector<ComponentAssembler> components, ColumnWork work,
                 const Source& source)
    : plan_(std::move(plan)),
      components_(std::move(components)),
      examples_(source.examples),
      functions_(std::move(work.functions)),
      gatherer_(std::move(work.gatherer)),
      content_(source.content),
      files_(source.files) {
  DescribeElement();
}

void Dataset::DescribeElement() {
  for (const ComponentAssembler& component : components_) {
    proto::ComponentSpec* const spec = element_spec_.add_components();
    spec->set_dtype(static_cast<int32_t>(component.dtype()));
    spec->set_name(component.name());
    // A batch has no fixed number of rows if the last batch may be shorter, as in tf.data.
    if (plan_.batched()) spec->add_dims(plan_.drop_remainder() ? plan_.batch_size() : -1);
    for (const int64_t dim : component.element_shape().dims()) spec->add_dims(dim);
  }
}

absl::StatusOr<std::vector<int64_t>> Dataset::Locate(
    const proto::IteratorPosition& position) const {
  // The cursor holds the shuffle orders that its last reader used, so sequential reads need no
  // lookup of orders.
  OrderCursor cursor = TakeCursor();
  absl::StatusOr<std::vector<int64_t>> indices = plan_.Locate(position, cursor);
  // The cursor is returned before rows are copied, so that other readers can use it meanwhile.
  ReturnCursor(std::move(cursor));
  if (absl::IsOutOfRange(indices.status()) && !files_.empty()) {
    return absl::OutOfRangeError(absl::StrCat(indices.status().message(), FilesPhrase(), " (",
                                              plan_.source_elements(), " examples)"));
  }
  return indices;
}

absl::StatusOr<Element> Dataset::ElementAt(const proto::IteratorPosition& position) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> indices, Locate(position));
  return Assemble(indices);
}

std::string Dataset::FilesPhrase() const {
  if (files_.empty()) return "";
  const auto append_path = [](std::string* out, const proto::DataFile& file) {
    absl::StrAppend(out, file.path());
  };
  return absl::StrCat(" of ", absl::StrJoin(files_, ", ", append_path));
}

std::string Dataset::ExampleName(const proto::IteratorPosition& position, int64_t row,
                                 size_t component) const {
  const absl::StatusOr<std::vector<int64_t>> indices = Locate(position);
  // If there is no such position, row or component, the example is named by the number of its row.
  if (!indices.ok() || row < 0 || static_cast<size_t>(row) >= indices->size() ||
      component >= components_.size()) {
    return absl::StrCat("row ", row, " of the batch");
  }
  if (examples_ != nullptr) return examples_->NameOf((*indices)[static_cast<size_t>(row)]);
  return absl::StrCat("example ", (*indices)[static_cast<size_t>(row)],
                      components_[component].FilePhrase());
}

absl::StatusOr<ColumnBatch> Dataset::ReadColumns(absl::Span<const int64_t> indices) const {
  ASSIGN_OR_RETURN(ColumnBatch batch, examples_->Read(indices));
  for (const auto& function : functions_) {
    int64_t row = 0;
    const absl::Status applied = function->Apply(batch, &row);
    if (!applied.ok()) {
      return Annotate(applied, examples_->NameOf(indices[static_cast<size_t>(row)]));
    }
  }
  return batch;
}

absl::StatusOr<std::vector<ColumnStatistics>> Dataset::Gather(int64_t begin, int64_t end) const {
  if (!gatherer_) return absl::InvalidArgumentError("the data set has no Adapt to gather for");
  if (begin < 0 || end < begin || end > plan_.source_elements()) {
    return absl::OutOfRangeError(absl::StrCat("examples ", begin, " to ", end, " are not among ",
                                              plan_.source_elements(), FilesPhrase()));
  }
  std::vector<ColumnStatistics> statistics = gatherer_->Begin();
  for (int64_t at = begin; at < end; at += kGatheredMax) {
    std::vector<int64_t> numbers(static_cast<size_t>(std::min(kGatheredMax, end - at)));
    std::iota(numbers.begin(), numbers.end(), at);
    ASSIGN_OR_RETURN(const ColumnBatch batch, ReadColumns(numbers));
    gatherer_->Add(batch, statistics);
  }
  return statistics;
}

absl::StatusOr<Element> Dataset::AssembleColumns(absl::Span<const int64_t> indices) const {
  ASSIGN_OR_RETURN(ColumnBatch batch, ReadColumns(indices));
  Element element;
  for (size_t i = 0; i < components_.size(); ++i) {
    ASSIGN_OR_RETURN(element.emplace_back(),
                     AssembleRead(i, TensorOf(batch.columns[i], batch.rows), indices));
  }
  return element;
}

absl::StatusOr<Tensor> Dataset::AssembleRead(size_t component, Tensor read,
                                             absl::Span<const int64_t> indices) const {
  const ComponentAssembler& assembler = components_[component];
  if (plan_.batched() && assembler.KeepsRows()) return read;
  std::vector<int64_t> rows(indices.size());
  std::iota(rows.begin(), rows.end(), 0);
  const ComponentAssembler over =
      assembler.Over(std::make_shared<const Tensor>(std::move(read)), indices);
  return plan_.batched() ? over.Batch(rows) : over.Single(rows[0]);
}

absl::StatusOr<Element> Dataset::Assemble(absl::Span<const int64_t> indices) const {
  if (examples_ != nullptr) return AssembleColumns(indices);
  Element element;
  element.reserve(components_.size());
  for (size_t i = 0; i < components_.size(); ++i) {
    const ComponentAssembler& component = components_[i];
    if (component.rows() != nullptr) {
      ASSIGN_OR_RETURN(Tensor read, component.rows()->Read(indices));
      ASSIGN_OR_RETURN(element.emplace_back(), AssembleRead(i, std::move(read), indices));
      continue;
    }
    ASSIGN_OR_RETURN(element.emplace_back(),
                     plan_.batched() ? component.Batch(indices) : component.Single(indices[0]));
  }
  return element;
}

OrderCursor Dataset::TakeCursor() const {
  MutexLock lock(mutex_);
  if (cursors_.empty()) return {};
  OrderCursor cursor = std::move(cursors_.back());
  cursors_.pop_back();
  return cursor;
}

void Dataset::ReturnCursor(OrderCursor cursor) const {
  MutexLock lock(mutex_);
  // Surplus cursors are dropped: a reader without a cursor only has to look up its shuffle orders.
  if (cursors_.size() < kCursorsMax) cursors_.push_back(std::move(cursor));
}

absl::StatusOr<std::unique_ptr<DatasetIterator>> Dataset::MakeIterator(
    const proto::IteratorPosition& position) const {
  const int64_t elements = plan_.elements_per_epoch();
  // The position just after the last element is valid, because an iterator at its end reports it.
  if (position.epoch() < 0 || position.element() < 0 ||
      (elements != kEndless && position.element() > elements)) {
    return absl::InvalidArgumentError(
        absl::StrCat("position (epoch ", position.epoch(), ", element ", position.element(),
                     ") is not in a data set of ", elements, " elements an epoch"));
  }
  return std::make_unique<DatasetIterator>(shared_from_this(), position);
}

DatasetIterator::DatasetIterator(std::shared_ptr<const Dataset> dataset,
                                 proto::IteratorPosition position)
    : dataset_(std::move(dataset)), start_epoch_(position.epoch()), position_(position) {
  // If the pipeline ends with a repeat, the position after the last element of one repetition is
  // the start of the next repetition.
  if (position_.element() > 0 && position_.element() == dataset_->plan().elements_per_epoch()) {
    position_.set_element(position_.element() - 1);
    position_ = dataset_->plan().Next(position_);
  }
}

absl::StatusOr<std::optional<Element>> DatasetIterator::Next() {
  if (dataset_->plan().AtEnd(position_, start_epoch_)) return std::nullopt;
  // The position moves only after a success, so that the caller can ask for a failed element again.
  ASSIGN_OR_RETURN(Element element, dataset_->ElementAt(position_));
  position_ = dataset_->plan().Next(position_);
  return element;
}

}  // namespace cohort
