#include "coordinator/job/data_spec.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"

namespace cohort {
namespace {

constexpr int64_t kExampleElementsMax = int64_t{1} << 40;

// Returns a component's type for error messages, such as "uint8[-1,28,28]".
std::string TypeText(const proto::ComponentSpec& component) {
  const absl::StatusOr<DType> dtype = DTypeFromNumber(component.dtype());
  return absl::StrCat(dtype.ok() ? DTypeName(*dtype) : "?", "[",
                      absl::StrJoin(component.dims(), ","), "]");
}

// Changes the shape of a component: joins all dimensions but the batch.
absl::Status Flatten(proto::ComponentSpec& component) {
  if (component.dims_size() < 1) {
    return absl::InvalidArgumentError("it must have a batch dimension");
  }
  int64_t joined = 1;
  for (int i = 1; i < component.dims_size(); ++i) {
    const int64_t dim = component.dims(i);
    // Dividing the limit keeps the product from overflowing.
    if (dim < 1 || joined > kExampleElementsMax / dim) {
      return absl::InvalidArgumentError("every dimension but the batch must be known and small");
    }
    joined *= dim;
  }
  const int64_t batch = component.dims(0);
  component.clear_dims();
  component.add_dims(batch);
  component.add_dims(joined);
  return absl::OkStatus();
}

// Changes the type of a component from class numbers to one-hot rows of `depth` float32 elements.
absl::Status ToOneHot(int64_t depth, proto::ComponentSpec& component) {
  if (!HasLabels(component)) {
    return absl::InvalidArgumentError("it must be one integer per example");
  }
  component = ClassLabels(component);
  component.set_dtype(static_cast<int32_t>(DType::kFloat32));
  component.add_dims(depth);
  return absl::OkStatus();
}

// The transform's name and its component, for messages.
struct Target {
  const char* name;
  uint32_t component;
};

// Returns the name of a component for messages; data without named columns have x and y.
std::string NameOf(const proto::ElementSpec& element, uint32_t component) {
  if (component < static_cast<uint32_t>(element.components_size())) {
    const std::string& name = element.components(static_cast<int>(component)).name();
    if (!name.empty()) return name;
  }
  return component == 0 ? "x" : component == 1 ? "y" : absl::StrCat("component ", component);
}

}  // namespace

bool HasLabels(const proto::ComponentSpec& component) {
  const std::vector<DType> types = {DType::kUint8, DType::kInt8,    DType::kInt32,
                                    DType::kInt64, DType::kFloat32, DType::kFloat64};
  const auto dtype = static_cast<DType>(component.dtype());
  if (std::find(types.begin(), types.end(), dtype) == types.end()) return false;
  return component.dims_size() == 1 || (component.dims_size() == 2 && component.dims(1) == 1);
}

proto::ComponentSpec ClassLabels(const proto::ComponentSpec& component) {
  proto::ComponentSpec labels = component;
  // Class numbers are int64 whatever type the files have, because training and test data may have
  // different types.
  labels.set_dtype(static_cast<int32_t>(DType::kInt64));
  // Labels [N,1] become [N].
  labels.mutable_dims()->Truncate(1);
  return labels;
}

std::optional<uint32_t> OutputComponents::Of(size_t output, const std::string& name) const {
  if (all.has_value()) return all;
  if (output < in_order.size()) return in_order[output];
  const auto found = by_name.find(name);
  return found == by_name.end() ? std::nullopt : std::optional<uint32_t>(found->second);
}

std::optional<size_t> NumArrays(const DataSourceSpec& source) {
  if (const auto* const idx = std::get_if<IdxSpec>(&source)) return idx->paths.size();
  const auto* const numpy = std::get_if<NumpySpec>(&source);
  if (numpy == nullptr) return std::nullopt;
  return numpy->keys.empty() ? numpy->paths.size() : numpy->keys.size();
}

bool HasColumnFunctions(const DataSourceSpec& source) {
  return std::holds_alternative<RecordSpec>(source) ||
         std::holds_alternative<ImageDirectorySpec>(source);
}

std::vector<std::string> ColumnNames(const DataSourceSpec& source) {
  if (std::holds_alternative<ImageDirectorySpec>(source)) return {"image", "label"};
  std::vector<std::string> names = {"x", "y"};
  for (size_t i = 2; i < NumArrays(source).value_or(0); ++i) names.push_back(absl::StrCat(i));
  if (const auto* const records = std::get_if<RecordSpec>(&source)) return FieldNames(*records);
  if (!std::holds_alternative<ClickLogSpec>(source)) return names;
  names = {"dense"};
  // Criteo's click logs have 26 categories, C1 to C26.
  for (int i = 1; i <= 26; ++i) names.push_back(absl::StrCat("C", i));
  names.push_back("label");
  return names;
}

std::vector<std::string> FinalColumns(const DataSpec& data) {
  std::vector<std::string> columns = ColumnNames(data.train);
  for (const TransformSpec& transform : data.pipeline) {
    if (transform.kind == TransformSpec::Kind::kMap) ApplyToNames(transform.map, columns);
  }
  return columns;
}

bool HasMaps(const DataSpec& data) {
  return std::any_of(data.pipeline.begin(), data.pipeline.end(), [](const TransformSpec& one) {
    return one.kind == TransformSpec::Kind::kMap;
  });
}

bool HasNamedColumns(const DataSourceSpec& source) {
  return std::holds_alternative<ClickLogSpec>(source) || HasColumnFunctions(source);
}

namespace {

// Returns the function that decodes the images of a directory.
proto::Map DecodingOf(const ImageDirectorySpec& images) {
  MapSpec decode;
  decode.function = "DecodeImage";
  decode.inputs = {"image"};
  decode.height = images.image_size[0];
  decode.width = images.image_size[1];
  decode.channels = images.color_mode == "grayscale" ? 1 : images.color_mode == "rgb" ? 3 : 4;
  decode.interpolation = images.interpolation;
  return ToProto(decode);
}

// Returns whether the files of a source are compressed, as the job names them.
bool IsCompressed(const DataSourceSpec& source) {
  const auto* const records = std::get_if<RecordSpec>(&source);
  if (records == nullptr || records->compression == "none") return false;
  if (records->compression != "auto") return true;
  return std::any_of(records->paths.begin(), records->paths.end(), [](const std::string& path) {
    return absl::EndsWith(path, ".gz") || absl::EndsWith(path, ".gzip") ||
           absl::EndsWith(path, ".zlib");
  });
}

}  // namespace

proto::Shuffle ShuffleOf(const DataSpec& data, uint64_t seed) {
  proto::Shuffle shuffle;
  shuffle.set_seed(seed);
  shuffle.set_reshuffle_each_iteration(true);
  const bool in_blocks =
      data.order.name == "blocks" || (data.order.name.empty() && IsCompressed(data.train));
  if (in_blocks) {
    shuffle.set_order(proto::Shuffle::BLOCKS);
    shuffle.set_block_size(data.order.block_size);
    shuffle.set_mixed_blocks(data.order.mixed_blocks);
  } else {
    // The buffer can hold any number of examples, so all are shuffled, as in Keras's fit.
    shuffle.set_buffer_size(std::numeric_limits<int64_t>::max());
  }
  return shuffle;
}

std::vector<proto::DatasetTransform> SourceTransforms(const DataSourceSpec& source) {
  std::vector<proto::DatasetTransform> transforms;
  if (const auto* const images = std::get_if<ImageDirectorySpec>(&source)) {
    *transforms.emplace_back().mutable_map() = DecodingOf(*images);
  }
  return transforms;
}

std::vector<proto::DatasetTransform> PipelineTransforms(const DataSpec& data) {
  std::vector<proto::DatasetTransform> transforms = SourceTransforms(data.train);
  for (const TransformSpec& spec : data.pipeline) {
    proto::DatasetTransform& transform = transforms.emplace_back();
    switch (spec.kind) {
      case TransformSpec::Kind::kFlatten:
        transform.set_flatten(spec.component);
        break;
      case TransformSpec::Kind::kRescaling:
        transform.mutable_rescale()->set_component(spec.component);
        transform.mutable_rescale()->set_scale(spec.scale);
        transform.mutable_rescale()->set_offset(spec.offset);
        break;
      case TransformSpec::Kind::kCategoryEncoding:
        transform.mutable_one_hot()->set_component(spec.component);
        transform.mutable_one_hot()->set_depth(spec.num_tokens);
        transform.mutable_one_hot()->set_of_labels(true);
        break;
      case TransformSpec::Kind::kMap:
        *transform.mutable_map() = ToProto(spec.map);
        break;
    }
  }
  return transforms;
}

absl::StatusOr<proto::ElementSpec> TransformElement(
    const proto::ElementSpec& batch, absl::Span<const proto::DatasetTransform> transforms) {
  proto::ElementSpec element = batch;
  for (size_t i = 0; i < transforms.size(); ++i) {
    const proto::DatasetTransform& transform = transforms[i];
    Target target{};
    switch (transform.kind_case()) {
      case proto::DatasetTransform::kFlatten:
        target = {"Flatten", transform.flatten()};
        break;
      case proto::DatasetTransform::kRescale:
        target = {"Rescaling", transform.rescale().component()};
        break;
      case proto::DatasetTransform::kOneHot:
        target = {"CategoryEncoding", transform.one_hot().component()};
        break;
      // Other transforms, such as Batch and Shuffle, change no component.
      default:
        continue;
    }
    const std::string where = absl::StrCat("data.pipeline.", i, " (", target.name, ")");
    if (target.component >= static_cast<uint32_t>(element.components_size())) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the data set has ", element.components_size(),
                       " components, none for '", NameOf(element, target.component), "'"));
    }
    proto::ComponentSpec& component =
        *element.mutable_components(static_cast<int>(target.component));
    const std::string context =
        absl::StrCat(where, " of ", NameOf(element, target.component), " ", TypeText(component));
    if (transform.kind_case() == proto::DatasetTransform::kFlatten) {
      RETURN_IF_ERROR(Annotate(Flatten(component), context));
    } else if (transform.kind_case() == proto::DatasetTransform::kOneHot) {
      RETURN_IF_ERROR(Annotate(ToOneHot(transform.one_hot().depth(), component), context));
    } else {
      // Rescaling gives float32.
      component.set_dtype(static_cast<int32_t>(DType::kFloat32));
    }
  }
  return element;
}

}  // namespace cohort
