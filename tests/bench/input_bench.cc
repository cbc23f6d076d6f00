// Input pipelines on one core: the elements of a data set one after another, as a worker makes them
// without reading ahead. tests/bench/peers/input.py writes the files, and runs tf.data on the same.

#include <time.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/posix_file_system.h"
#include "common/base/status.h"
#include "proto/plan.pb.h"
#include "tests/bench/bench.h"
#include "worker/data/dataset.h"

namespace cohort::bench {

namespace {

// The columns of Adult (UCI), of which texts are dropped once they are parsed.
constexpr const char* kNumbers[] = {"age",          "fnlwgt",       "education_num",
                                    "capital_gain", "capital_loss", "hours_per_week"};
constexpr const char* kTexts[] = {"workclass",  "education",      "marital_status",
                                  "occupation", "relationship",   "race",
                                  "sex",        "native_country", "income"};
// The order of the fields in the file; n is a number.
constexpr const char* kFieldOrder = "ntntntttttnnntt";

proto::RecordFiles& AddFiles(const std::string& path, uint32_t kind, proto::DatasetSpec& spec) {
  proto::RecordFiles& files = *spec.mutable_source()->mutable_record_files();
  files.add_paths(path);
  files.set_compression("auto");
  files.mutable_format()->set_kind(kind);
  return files;
}

void DropTexts(proto::DatasetSpec& spec) {
  proto::Map& map = *spec.add_transforms()->mutable_map();
  for (const char* text : kTexts) map.add_inputs(text);
  map.set_drop(true);
}

void AddField(const char* name, proto::ColumnType type, proto::DataField& field) {
  field.set_name(name);
  field.set_type(type);
}

proto::DatasetSpec SpecOf(const std::string& name, const std::string& path, int64_t batch) {
  proto::DatasetSpec spec;
  if (name == "idx") {
    spec.mutable_source()->mutable_idx()->add_paths(path);
  } else if (name == "jpeg") {
    proto::RecordFiles& files = AddFiles(path, 0, spec);
    AddField("image", proto::COLUMN_STRING, *files.mutable_example()->add_fields());
    proto::Map& map = *spec.add_transforms()->mutable_map();
    map.add_inputs("image");
    map.mutable_decode_image()->set_height(224);
    map.mutable_decode_image()->set_width(224);
    map.mutable_decode_image()->set_channels(3);
  } else if (name == "tfrecord") {
    proto::RecordFiles& files = AddFiles(path, 0, spec);
    for (const char* number : kNumbers) {
      AddField(number, proto::COLUMN_INT64, *files.mutable_example()->add_fields());
    }
    for (const char* text : kTexts) {
      AddField(text, proto::COLUMN_STRING, *files.mutable_example()->add_fields());
    }
    DropTexts(spec);
  } else {
    proto::RecordFiles& files = AddFiles(path, 2, spec);
    size_t number = 0;
    size_t text = 0;
    for (const char field : absl::string_view(kFieldOrder)) {
      if (field == 'n') {
        AddField(kNumbers[number++], proto::COLUMN_INT64, *files.mutable_csv()->add_fields());
      } else {
        AddField(kTexts[text++], proto::COLUMN_STRING, *files.mutable_csv()->add_fields());
      }
    }
    DropTexts(spec);
  }
  spec.add_transforms()->mutable_batch()->set_size(batch);
  if (name == "idx") spec.add_transforms()->mutable_rescale()->set_scale(1 / 255.0);
  return spec;
}

double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int batch, options.Number("batch"));
  ASSIGN_OR_RETURN(const int passes, options.Number("passes"));
  const std::string& name = options.Text("case");
  PosixFileSystem files;
  SourceCache sources(files, "");
  ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> dataset,
                   Dataset::Build(SpecOf(name, options.Text("file"), batch), sources));
  std::vector<double> seconds;
  double sum = 0;  // so that nothing is optimized away
  // The first pass warms up the file's pages and the allocator.
  for (int pass = 0; pass <= passes; ++pass) {
    const double begin = ThreadSeconds();
    for (int64_t element = 0; element < dataset->cardinality(); ++element) {
      proto::IteratorPosition position;
      position.set_element(element);
      ASSIGN_OR_RETURN(const Element made, dataset->ElementAt(position));
      sum += static_cast<double>(made[0].num_bytes());
    }
    if (pass > 0) seconds.push_back(ThreadSeconds() - begin);
  }
  const auto records = static_cast<double>(dataset->plan().source_elements());
  Print({"input", name, records / Median(seconds), "records/s", "", 0, {{"bytes", sum}}});
  return absl::OkStatus();
}

}  // namespace

Command InputBench() {
  return {"input",
          "input pipelines on one core (peers/input.py runs tf.data beside it)",
          {{"case", "tfrecord", "tfrecord, csv, jpeg or idx"},
           {"file", "", "the file that peers/input.py has written"},
           {"batch", "1024", "examples of a batch"},
           {"passes", "1", "passes over the file that are measured"}},
          Run};
}

}  // namespace cohort::bench
