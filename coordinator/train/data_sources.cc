#include "coordinator/train/data_sources.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// The numbers of examples that MNIST has. Synthetic digits have the same numbers, so that a
// training epoch has the same number of steps.
constexpr int64_t kSyntheticTrain = 60000;
constexpr int64_t kSyntheticTest = 10000;

proto::DatasetSource Synthetic(uint64_t seed, int64_t count) {
  proto::DatasetSource source;
  source.mutable_synthetic_digits()->set_seed(seed);
  source.mutable_synthetic_digits()->set_count(count);
  return source;
}

proto::DatasetSource Clicks(const ClickLogSpec& spec) {
  proto::DatasetSource source;
  proto::ClickLog& log = *source.mutable_click_log();
  log.mutable_paths()->Assign(spec.paths.begin(), spec.paths.end());
  log.set_seed(spec.seed);
  log.set_count(spec.count);
  log.mutable_buckets()->Assign(spec.hash_buckets.begin(), spec.hash_buckets.end());
  return source;
}

proto::DatasetSource Idx(const std::vector<std::string>& paths) {
  proto::DatasetSource source;
  for (const std::string& path : paths) source.mutable_idx()->add_paths(path);
  return source;
}

proto::DatasetSource Numpy(const NumpySpec& spec) {
  proto::DatasetSource source;
  source.mutable_numpy()->mutable_paths()->Assign(spec.paths.begin(), spec.paths.end());
  source.mutable_numpy()->mutable_keys()->Assign(spec.keys.begin(), spec.keys.end());
  return source;
}

// Returns the error for an MNIST that is nowhere, in a job that takes no other data in its place.
absl::Status WithRemedy(const absl::Status& not_found) {
  return absl::NotFoundError(absl::StrCat(
      not_found.message(),
      "; set COHORT_DATA_DIR to a directory that has mnist/, or, to "
      "train on digits that the program makes where there is no MNIST, give every MNIST of the job "
      "\"otherwise\": \"synthetic_digits\""));
}

// Returns the source's MNIST whose files are to be searched for, or null.
const MnistSpec* SearchedMnist(const DataSourceSpec& source) {
  const auto* const mnist = std::get_if<MnistSpec>(&source);
  return mnist != nullptr && mnist->images.empty() ? mnist : nullptr;
}

// A finder of a job's data sources, which searches for MNIST only once for both splits.
// Thread-compatible.
class SourceFinder {
 public:
  SourceFinder(World world, Waiter& waiter, const MnistSearch& search, uint64_t seed)
      : world_(world), waiter_(waiter), search_(search), seed_(seed) {}

  absl::StatusOr<proto::DatasetSource> Find(const DataSourceSpec& spec, std::string& name) {
    if (const auto* idx = std::get_if<IdxSpec>(&spec)) {
      name = "idx";
      return Idx(idx->paths);
    }
    if (const auto* digits = std::get_if<SyntheticDigitsSpec>(&spec)) {
      name = "synthetic_digits";
      return Synthetic(digits->seed, digits->count);
    }
    if (const auto* clicks = std::get_if<ClickLogSpec>(&spec)) {
      name = clicks->paths.empty() ? "synthetic_click_log" : "click_log";
      return Clicks(*clicks);
    }
    if (const auto* records = std::get_if<RecordSpec>(&spec)) {
      name = "records";
      proto::DatasetSource source;
      *source.mutable_record_files() = ToProto(*records);
      return source;
    }
    if (const auto* numpy = std::get_if<NumpySpec>(&spec)) {
      name = "numpy";
      return Numpy(*numpy);
    }
    if (const auto* images = std::get_if<ImageDirectorySpec>(&spec)) {
      name = "images";
      proto::DatasetSource source;
      source.mutable_image_folder()->set_directory(images->directory);
      source.mutable_image_folder()->mutable_class_names()->Assign(images->class_names.begin(),
                                                                   images->class_names.end());
      return source;
    }
    return FindMnistSplit(std::get<MnistSpec>(spec), name);
  }

 private:
  absl::StatusOr<proto::DatasetSource> FindMnistSplit(const MnistSpec& spec, std::string& name) {
    name = "mnist";
    if (!spec.images.empty()) return Idx({spec.images, spec.labels});
    // The training data and the test data use the result of one search for MNIST.
    if (!files_.has_value()) files_ = FindMnist(world_, waiter_, search_);
    const bool train = spec.split == "train";
    if (files_->ok()) {
      const MnistFiles& files = **files_;
      return train ? Idx({files.train_images, files.train_labels})
                   : Idx({files.test_images, files.test_labels});
    }
    // If MNIST's files exist but cannot be used, the result is an error; synthetic digits replace
    // only missing files.
    if (!absl::IsNotFound(files_->status())) return files_->status();
    if (!spec.or_synthetic_digits) return WithRemedy(files_->status());
    Log(LogLevel::kWarning, "synthetic_data",
        {{"cause", files_->status().message()},
         {"effect", absl::StrCat("the ", spec.split,
                                 " data are digits that the program makes, not "
                                 "MNIST, and easier")},
         {"remedy", "set COHORT_DATA_DIR to a directory that holds mnist/"}});
    // The test split has another seed than the training split, so that the model has not seen its
    // digits.
    name = "synthetic_digits";
    return Synthetic(train ? seed_ : seed_ + 1, train ? kSyntheticTrain : kSyntheticTest);
  }

  const World world_;
  Waiter& waiter_;
  const MnistSearch& search_;
  const uint64_t seed_;
  std::optional<absl::StatusOr<MnistFiles>> files_;
};

}  // namespace

absl::Status CheckDataSources(FileSystem& files, const DataSpec& data, const MnistSearch& search) {
  const MnistSpec* const train = SearchedMnist(data.train);
  const MnistSpec* const test = data.test.has_value() ? SearchedMnist(*data.test) : nullptr;
  if (train == nullptr && test == nullptr) return absl::OkStatus();
  const absl::Status found = CheckMnist(files, search);
  if (!absl::IsNotFound(found)) return found;
  const bool needs_files = (train != nullptr && !train->or_synthetic_digits) ||
                           (test != nullptr && !test->or_synthetic_digits);
  return needs_files ? WithRemedy(found) : absl::OkStatus();
}

absl::StatusOr<DataSources> FindDataSources(World world, Waiter& waiter, const DataSpec& data,
                                            const MnistSearch& search, uint64_t seed) {
  SourceFinder finder(world, waiter, search, seed);
  DataSources sources;
  ASSIGN_OR_RETURN(sources.train, finder.Find(data.train, sources.name));
  if (data.test.has_value()) {
    std::string test_name;
    ASSIGN_OR_RETURN(sources.test, finder.Find(*data.test, test_name));
  }
  return sources;
}

proto::DatasetSpec AllExamples(const proto::DatasetSource& source, const DataSpec& data) {
  proto::DatasetSpec spec;
  *spec.mutable_source() = source;
  for (const proto::DatasetTransform& transform : PipelineTransforms(data)) {
    if (transform.has_map()) *spec.add_transforms() = transform;
  }
  return spec;
}

}  // namespace cohort
