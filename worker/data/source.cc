#include "worker/data/source.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "worker/data/click_log.h"
#include "worker/data/glob.h"
#include "worker/data/idx.h"
#include "worker/data/image_folder.h"
#include "worker/data/numpy_array.h"
#include "worker/data/record_examples.h"
#include "worker/data/synthetic_digits.h"

namespace cohort {

namespace {

constexpr int kComponentsMax = 64;
constexpr size_t kFingerprintChunkBytes = 1 << 20;

// Returns a proto with the path, the length and the checksum of the file at `path`. A file that is
// not read into memory has the checksum of its beginning and its end.
absl::StatusOr<proto::DataFile> DescribeFile(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  if (file->size() > kArrayInMemoryMax) return RecordExamples::Describe(files, path);
  std::string chunk(kFingerprintChunkBytes, '\0');
  // The checksum is computed in chunks, so that the file is never in memory as a whole.
  uint32_t crc = 0;
  for (uint64_t offset = 0; offset < file->size();) {
    const uint64_t size = std::min<uint64_t>(chunk.size(), file->size() - offset);
    RETURN_IF_ERROR(file->Read(offset, absl::MakeSpan(chunk.data(), size)));
    crc = ExtendCrc32c(crc, absl::string_view(chunk.data(), size));
    offset += size;
  }
  proto::DataFile described;
  described.set_path(path);
  described.set_bytes(file->size());
  described.set_crc32c(crc);
  return described;
}

// Returns a text that identifies the content of the file, whatever its path. A file that was
// replaced under its path has another text, so the cache does not give out the old array.
std::string Fingerprint(const proto::DataFile& file) {
  return absl::StrCat(file.bytes(), ":", file.crc32c());
}

absl::StatusOr<Source> OpenRange(const proto::Range& range) {
  int64_t count = 0;
  if (__builtin_sub_overflow(range.end(), range.begin(), &count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("range from ", range.begin(), " to ", range.end(), " is too long"));
  }
  // An empty or reversed range has no elements, as in tf.data.
  return Source{std::max<int64_t>(0, count),
                {SourceComponent{nullptr, range.begin(), ""}},
                Crc32c(absl::StrCat("range:", range.begin(), ":", range.end()))};
}

absl::StatusOr<Tensor> ReadInline(const proto::InlineTensor& proto, int component) {
  const std::string name = absl::StrCat("inline_tensors.tensors[", component, "]");
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(proto.dtype()));
  if (proto.dims_size() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has no axis 0 to count elements"));
  }
  uint64_t bytes = ElementSize(dtype);
  // The extents of an inline tensor come from a request, so they may be negative or overflow.
  for (const int64_t dim : proto.dims()) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " has a bad extent ", dim));
    }
  }
  if (bytes != proto.data().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " needs ", bytes, " bytes and has ", proto.data().size()));
  }
  Tensor tensor(dtype, Shape(absl::MakeConstSpan(proto.dims().data(),
                                                 static_cast<size_t>(proto.dims_size()))));
  if (bytes > 0) std::memcpy(tensor.mutable_raw(), proto.data().data(), bytes);
  return tensor;
}

int64_t RowsOf(const SourceComponent& component) {
  return component.rows != nullptr ? component.rows->rows() : component.array->shape().dim(0);
}

// Returns the component of an array whose rows stay in their file.
SourceComponent ComponentOf(std::shared_ptr<const RowFile> rows, const std::string& path) {
  std::vector<int64_t> dims = {0};
  const Shape row = rows->row_shape();
  dims.insert(dims.end(), row.dims().begin(), row.dims().end());
  SourceComponent component;
  component.array = std::make_shared<const Tensor>(rows->dtype(), Shape(dims));
  component.rows = std::move(rows);
  component.from = path;
  return component;
}

// Joins components into a source. `names` are the components' names for error messages. Errors:
// INVALID_ARGUMENT if the components have different numbers of examples or are too many.
absl::StatusOr<Source> Assemble(std::vector<SourceComponent> components,
                                absl::Span<const std::string> names) {
  Source source;
  source.components = std::move(components);
  if (source.components.empty() || source.components.size() > kComponentsMax) {
    return absl::InvalidArgumentError(absl::StrCat("the source has ", source.components.size(),
                                                   " components, not 1 to ", kComponentsMax));
  }
  source.elements = RowsOf(source.components[0]);
  for (size_t i = 1; i < source.components.size(); ++i) {
    const int64_t count = RowsOf(source.components[i]);
    if (count == source.elements) continue;
    return absl::InvalidArgumentError(absl::StrCat(names[0], " has ", source.elements,
                                                   " elements but ", names[i], " has ", count,
                                                   ": they do not belong together"));
  }
  return source;
}

absl::StatusOr<Source> OpenInline(const proto::InlineTensors& inline_tensors) {
  std::vector<SourceComponent> components;
  std::vector<std::string> names;
  for (int i = 0; i < inline_tensors.tensors_size(); ++i) {
    ASSIGN_OR_RETURN(Tensor tensor, ReadInline(inline_tensors.tensors(i), i));
    components.push_back({std::make_shared<const Tensor>(std::move(tensor)), 0, ""});
    names.push_back(absl::StrCat("inline_tensors.tensors[", i, "]"));
  }
  ASSIGN_OR_RETURN(Source source, Assemble(std::move(components), names));
  source.content = Crc32c(inline_tensors.SerializeAsString());
  return source;
}

}  // namespace

Shape SourceComponent::element_shape() const {
  if (array == nullptr) return Shape{};
  return Shape(array->shape().dims().subspan(1));
}

absl::StatusOr<Source> SourceCache::Open(const proto::DatasetSource& source) {
  switch (source.kind_case()) {
    case proto::DatasetSource::kIdx:
      return OpenIdx(source.idx());
    case proto::DatasetSource::kSyntheticDigits:
      return OpenSynthetic(source.synthetic_digits());
    case proto::DatasetSource::kRange:
      return OpenRange(source.range());
    case proto::DatasetSource::kInlineTensors:
      return OpenInline(source.inline_tensors());
    case proto::DatasetSource::kClickLog:
      return OpenClickLog(source.click_log());
    case proto::DatasetSource::kRecordFiles:
      return OpenRecords(source.record_files());
    case proto::DatasetSource::kNumpy:
      return OpenNumpy(source.numpy());
    case proto::DatasetSource::kImageFolder:
      return OpenImages(source.image_folder());
    default:
      return absl::InvalidArgumentError("the data set has no source");
  }
}

// Reads each IDX file, unless a data set in use has the array of the same path and content.
absl::StatusOr<Source> SourceCache::OpenIdx(const proto::IdxFiles& idx) {
  std::string content = "idx";
  std::vector<SourceComponent> components;
  std::vector<std::string> names;
  std::vector<proto::DataFile> files;
  for (const std::string& path : idx.paths()) {
    ASSIGN_OR_RETURN(proto::DataFile file, DescribeFile(files_, FullPath(path)));
    ASSIGN_OR_RETURN(components.emplace_back(), OpenIdxFile(file));
    names.push_back(file.path());
    absl::StrAppend(&content, ":", Fingerprint(file));
    files.push_back(std::move(file));
  }
  ASSIGN_OR_RETURN(Source source, Assemble(std::move(components), names));
  // The checksum of the source covers the contents of the files and not their paths.
  source.content = Crc32c(content);
  source.files = std::move(files);
  return source;
}

absl::StatusOr<Source> SourceCache::OpenSynthetic(const proto::SyntheticDigits& digits) {
  const std::string key = absl::StrCat("digits:", digits.seed(), ":", digits.count());
  std::shared_ptr<const Tensor> images = Find(key + ":images");
  std::shared_ptr<const Tensor> labels = Find(key + ":labels");
  // The cache may know only one of the two arrays, so both are made again if one is missing.
  if (images == nullptr || labels == nullptr) {
    ASSIGN_OR_RETURN(DigitSet set, MakeSyntheticDigits({digits.seed(), digits.count()}));
    images = Keep(key + ":images", std::move(set.images));
    labels = Keep(key + ":labels", std::move(set.labels));
  }
  return Source{
      digits.count(), {{std::move(images), 0, ""}, {std::move(labels), 0, ""}}, Crc32c(key)};
}

absl::StatusOr<Source> SourceCache::OpenClickLog(const proto::ClickLog& log) {
  // `key` finds the columns in the cache, and contains the files' paths. `contents` identifies the
  // data, and contains no paths.
  std::string key = absl::StrCat("clicks:", log.seed(), ":", log.count());
  for (const int64_t buckets : log.buckets()) absl::StrAppend(&key, ":", buckets);
  std::string contents = key;
  Source source;
  proto::ClickLog own = log;  // `log` with full paths, which errors show
  for (std::string& path : *own.mutable_paths()) {
    path = FullPath(path);
    ASSIGN_OR_RETURN(proto::DataFile file, DescribeFile(files_, path));
    absl::StrAppend(&contents, ":", Fingerprint(file));
    absl::StrAppend(&key, ":", Fingerprint(file), ":", path);
    source.files.push_back(std::move(file));
  }
  const std::string paths = absl::StrJoin(own.paths(), ", ");
  source.content = Crc32c(contents);
  for (const std::string& name : ClickColumnNames()) {
    source.components.push_back({Find(absl::StrCat(key, ":", name)), 0, name, paths});
  }
  // The cache may know only some of the columns, so all are read again if one is missing.
  const bool all = std::all_of(source.components.begin(), source.components.end(),
                               [](const SourceComponent& one) { return one.array != nullptr; });
  if (!all) {
    ASSIGN_OR_RETURN(std::vector<ClickColumn> columns, ReadClickLog(own, files_));
    for (size_t i = 0; i < columns.size(); ++i) {
      source.components[i].array =
          Keep(absl::StrCat(key, ":", columns[i].name), std::move(columns[i].values));
    }
  }
  source.elements = source.components[0].array->shape().dim(0);
  return source;
}

absl::StatusOr<Source> SourceCache::OpenRecords(const proto::RecordFiles& record_files) {
  proto::RecordFiles own = record_files;  // with full paths
  own.clear_paths();
  for (const std::string& path : record_files.paths()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> files, ExpandGlob(files_, FullPath(path)));
    for (const std::string& file : files) own.add_paths(file);
  }
  if (!own.index_directory().empty()) own.set_index_directory(FullPath(own.index_directory()));
  ASSIGN_OR_RETURN(std::shared_ptr<const Examples> opened, OpenExamples(own));
  // The content is that of the files and the way in which they are read, wherever they are.
  own.clear_paths();
  own.clear_index_directory();
  std::string content = own.SerializeAsString();
  for (const proto::DataFile& file : opened->files()) {
    absl::StrAppend(&content, ":", Fingerprint(file));
  }
  Source source;
  source.elements = opened->size();
  source.content = Crc32c(content);
  source.files = opened->files();
  source.examples = std::move(opened);
  return source;
}

absl::StatusOr<std::shared_ptr<const Examples>> SourceCache::OpenExamples(
    const proto::RecordFiles& spec) {
  const std::string key = spec.SerializeAsString();
  std::shared_ptr<const Examples> shared;
  {
    MutexLock lock(mutex_);
    const auto found = examples_.find(key);
    if (found != examples_.end()) shared = found->second.lock();
  }
  if (shared != nullptr) {
    bool is_same = true;
    for (const proto::DataFile& file : shared->files()) {
      ASSIGN_OR_RETURN(const proto::DataFile now, RecordExamples::Describe(files_, file.path()));
      is_same = is_same && Fingerprint(now) == Fingerprint(file);
    }
    if (is_same) return shared;
  }
  ASSIGN_OR_RETURN(shared, RecordExamples::Open(spec, files_, unpacked_));
  MutexLock lock(mutex_);
  std::erase_if(examples_, [](const auto& entry) { return entry.second.expired(); });
  examples_[key] = shared;
  return shared;
}

absl::StatusOr<SourceComponent> SourceCache::OpenIdxFile(const proto::DataFile& file) {
  ASSIGN_OR_RETURN(std::shared_ptr<const RowFile> rows, OpenLargeIdx(files_, file.path()));
  if (rows != nullptr) return ComponentOf(std::move(rows), file.path());
  const std::string key = absl::StrCat("idx:", Fingerprint(file), ":", file.path());
  SourceComponent component;
  component.from = file.path();
  component.array = Find(key);
  if (component.array != nullptr) return component;
  ASSIGN_OR_RETURN(Tensor read, ReadIdx(files_, file.path()));
  component.array = Keep(key, std::move(read));
  return component;
}

absl::StatusOr<Source> SourceCache::OpenNumpy(const proto::NumpyFiles& numpy) {
  if (!numpy.keys().empty() && numpy.paths_size() != 1) {
    return absl::InvalidArgumentError("keys name the arrays of one .npz file");
  }
  std::string content = absl::StrCat("numpy:", absl::StrJoin(numpy.keys(), ":"));
  std::vector<SourceComponent> components;
  std::vector<std::string> names;
  std::vector<proto::DataFile> files;
  for (const std::string& path : numpy.paths()) {
    ASSIGN_OR_RETURN(proto::DataFile file, DescribeFile(files_, FullPath(path)));
    absl::StrAppend(&content, ":", Fingerprint(file));
    for (const std::string& key : numpy.keys()) {
      ASSIGN_OR_RETURN(components.emplace_back(), OpenNumpyFile(file, key));
      names.push_back(absl::StrCat(file.path(), ": ", key));
    }
    if (numpy.keys().empty()) {
      ASSIGN_OR_RETURN(components.emplace_back(), OpenNumpyFile(file, ""));
      names.push_back(file.path());
    }
    files.push_back(std::move(file));
  }
  ASSIGN_OR_RETURN(Source source, Assemble(std::move(components), names));
  source.content = Crc32c(content);
  source.files = std::move(files);
  return source;
}

absl::StatusOr<SourceComponent> SourceCache::OpenNumpyFile(const proto::DataFile& file,
                                                           const std::string& key) {
  SourceComponent component;
  component.from = file.path();
  const std::string kept = absl::StrCat("numpy:", Fingerprint(file), ":", file.path(), ":", key);
  component.array = Find(kept);
  if (component.array != nullptr) return component;
  ASSIGN_OR_RETURN(NumpyArray array, OpenNumpyArray(files_, file.path(), key));
  if (array.rows != nullptr) return ComponentOf(std::move(array.rows), file.path());
  component.array = Keep(kept, *std::move(array.values));
  return component;
}

absl::StatusOr<Source> SourceCache::OpenImages(const proto::ImageFolder& folder) {
  const std::string directory = FullPath(folder.directory());
  ASSIGN_OR_RETURN(
      std::shared_ptr<const ImageFolderExamples> opened,
      ImageFolderExamples::Open(files_, directory,
                                {folder.class_names().begin(), folder.class_names().end()}));
  Source source;
  source.elements = opened->size();
  source.content = opened->files()[0].crc32c();
  source.files = opened->files();
  source.examples = std::move(opened);
  return source;
}

std::string SourceCache::FullPath(const std::string& path) const {
  return absl::StartsWith(path, "/") ? path : JoinPath(directory_, path);
}

std::shared_ptr<const Tensor> SourceCache::Find(const std::string& key) const {
  MutexLock lock(mutex_);
  const auto found = arrays_.find(key);
  return found == arrays_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<const Tensor> SourceCache::Keep(const std::string& key, Tensor array) {
  auto shared = std::make_shared<const Tensor>(std::move(array));
  MutexLock lock(mutex_);
  // Removes the keys of arrays that no data set uses any more, so that the map does not grow
  // forever.
  for (auto it = arrays_.begin(); it != arrays_.end();) {
    it = it->second.expired() ? arrays_.erase(it) : std::next(it);
  }
  arrays_[key] = shared;
  return shared;
}

size_t SourceCache::live_arrays() const {
  MutexLock lock(mutex_);
  return static_cast<size_t>(std::count_if(
      arrays_.begin(), arrays_.end(), [](const auto& entry) { return !entry.second.expired(); }));
}

}  // namespace cohort
