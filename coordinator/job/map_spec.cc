#include "coordinator/job/map_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/tensor/dtype.h"

namespace cohort {

namespace {

bool IsLookup(const MapSpec& spec) {
  return spec.function == "StringLookup" || spec.function == "IntegerLookup";
}
bool IsText(const MapSpec& spec) { return spec.function == "TextVectorization"; }

void SetText(const MapSpec& spec, proto::TextVectorization& text) {
  text.set_standardize(spec.standardize);
  text.set_split(spec.split);
  text.set_ngrams(spec.ngrams);
  text.set_output_mode(spec.output_mode);
  text.set_output_sequence_length(spec.length);
}

void SetLookup(const MapSpec& spec, proto::Lookup& lookup) {
  if (spec.vocabulary) {
    lookup.mutable_tokens()->Assign(spec.vocabulary->begin(), spec.vocabulary->end());
  }
  lookup.set_has_mask(spec.mask.has_value());
  lookup.set_mask(spec.mask.value_or(""));
  lookup.set_oov_indices(spec.num_oov_indices);
}

void SetHashing(const MapSpec& spec, proto::Hashing& hashing) {
  hashing.set_bins(static_cast<uint64_t>(spec.num_bins));
  // One number of salt stands for both of the key.
  if (!spec.salt.empty()) {
    hashing.add_key(spec.salt.front());
    hashing.add_key(spec.salt.back());
  }
  hashing.set_has_mask(spec.mask.has_value());
  hashing.set_mask(spec.mask.value_or(""));
}

void SetPad(const MapSpec& spec, proto::Pad& pad) {
  pad.set_length(spec.length);
  if (!spec.value) return;
  proto::DataValues& value = *pad.mutable_value();
  if (const auto* text = std::get_if<std::string>(&*spec.value)) value.add_strings(*text);
  if (const auto* number = std::get_if<double>(&*spec.value)) value.add_floats(*number);
  if (const auto* whole = std::get_if<int64_t>(&*spec.value)) value.add_ints(*whole);
}

void SetImage(const MapSpec& spec, proto::DecodeImage& image) {
  image.set_channels(spec.channels);
  image.set_height(spec.height);
  image.set_width(spec.width);
  image.set_interpolation(spec.interpolation);
  image.set_accurate_dct(spec.dct_method == "INTEGER_ACCURATE");
}

int32_t NumberOf(const std::string& dtype) {
  return static_cast<int32_t>(DTypeFromName(dtype).value_or(DType::kFloat32));
}

absl::Status RefuseNotFinite(const MapSpec& spec, const ColumnStatistics& statistics) {
  if (statistics.not_finite() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("column '", Excerpt(spec.inputs[0]), "' has ", statistics.not_finite(),
                   " numbers that are NaN or infinite, to which ", spec.function,
                   " cannot adapt; mend the data, or give ",
                   spec.function == "Normalization" ? "mean and variance" : "bin_boundaries"));
}

absl::Status AdaptVocabulary(MapSpec& spec, const TokenCounts& tokens) {
  TokenOrder order{spec.mask, {}, spec.function == "IntegerLookup"};
  // The text of no token is padding.
  if (IsText(spec)) order.mask = "";
  if (spec.max_tokens) {
    order.count_max =
        static_cast<size_t>(std::max<int64_t>(*spec.max_tokens - FirstIndex(spec), 0));
  }
  spec.vocabulary = tokens.Tokens(order);
  if (!spec.vocabulary->empty()) return absl::OkStatus();
  if (order.count_max == 0 && tokens.size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("max_tokens is ", *spec.max_tokens,
                                                   ", which leaves no index for a token; the "
                                                   "first ",
                                                   FirstIndex(spec),
                                                   " are those of the mask and of unknown tokens"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "column '", Excerpt(spec.inputs[0]), "' has no tokens, so there is no vocabulary to adapt"));
}

}  // namespace

bool NeedsAdapting(const MapSpec& spec) {
  if (IsLookup(spec) || IsText(spec)) return !spec.vocabulary && spec.vocabulary_file.empty();
  if (spec.function == "Normalization") return !spec.mean;
  return spec.function == "Discretization" && !spec.boundaries;
}

int64_t FirstIndex(const MapSpec& spec) {
  if (IsText(spec)) return spec.output_mode == "int" ? 2 : 1;
  return spec.num_oov_indices + (spec.mask ? 1 : 0);
}

proto::Statistic StatisticFor(const MapSpec& spec) {
  proto::Statistic statistic;
  statistic.set_column(spec.inputs[0]);
  if (spec.function == "Normalization") {
    statistic.set_kind(proto::Statistic::MOMENTS);
    statistic.set_groups(spec.by_last_axis ? 0 : 1);
  } else if (spec.function == "Discretization") {
    statistic.set_kind(proto::Statistic::VALUES);
  } else {
    statistic.set_kind(proto::Statistic::TOKENS);
    if (IsText(spec)) SetText(spec, *statistic.mutable_text());
  }
  return statistic;
}

absl::Status Adapt(MapSpec& spec, const ColumnStatistics& statistics) {
  if (IsLookup(spec) || IsText(spec)) return AdaptVocabulary(spec, statistics.tokens());
  if (absl::Status status = RefuseNotFinite(spec, statistics); !status.ok()) return status;
  if (spec.function == "Discretization") {
    const std::vector<float> boundaries = statistics.values().Boundaries(spec.num_bins);
    spec.boundaries.emplace(boundaries.begin(), boundaries.end());
    return absl::OkStatus();
  }
  spec.mean.emplace();
  spec.variance.clear();
  for (const RunningMoments& one : statistics.moments()) {
    spec.mean->push_back(one.mean);
    spec.variance.push_back(one.Variance());
  }
  return absl::OkStatus();
}

proto::Map ToProto(const MapSpec& spec) {
  proto::Map map;
  map.mutable_inputs()->Assign(spec.inputs.begin(), spec.inputs.end());
  map.set_output(spec.output);
  const std::string& name = spec.function;
  if (name == "Hashing") {
    SetHashing(spec, *map.mutable_hashing());
  } else if (name == "HashedCrossing") {
    map.mutable_hashed_crossing()->set_bins(static_cast<uint64_t>(spec.num_bins));
  } else if (IsLookup(spec)) {
    SetLookup(spec, *map.mutable_lookup());
  } else if (IsText(spec)) {
    SetText(spec, *map.mutable_text_vectorization());
    if (spec.vocabulary) {
      map.mutable_text_vectorization()->mutable_tokens()->Assign(spec.vocabulary->begin(),
                                                                 spec.vocabulary->end());
    }
  } else if (name == "Discretization") {
    proto::Discretization& discretization = *map.mutable_discretization();
    if (spec.boundaries) {
      for (const double one : *spec.boundaries) {
        discretization.add_boundaries(static_cast<float>(one));
      }
    }
  } else if (name == "Normalization") {
    proto::Normalization& normalization = *map.mutable_normalization();
    if (spec.mean) {
      for (const double one : *spec.mean) normalization.add_mean(static_cast<float>(one));
    }
    for (const double one : spec.variance) normalization.add_variance(static_cast<float>(one));
  } else if (name == "Cast") {
    map.set_cast(static_cast<uint32_t>(NumberOf(spec.dtype)));
  } else if (name == "Log1p") {
    map.set_log1p(true);
  } else if (name == "Rescaling") {
    map.mutable_rescaling()->set_scale(spec.scale);
    map.mutable_rescaling()->set_offset(spec.offset);
  } else if (name == "CategoryEncoding") {
    map.mutable_category_encoding()->set_tokens(spec.num_tokens);
    map.mutable_category_encoding()->set_mode(spec.output_mode);
  } else if (name == "Pad") {
    SetPad(spec, *map.mutable_pad());
  } else if (name == "DecodeImage") {
    SetImage(spec, *map.mutable_decode_image());
  } else if (name == "DecodeRaw") {
    map.mutable_decode_raw()->set_dtype(NumberOf(spec.dtype));
    map.mutable_decode_raw()->mutable_dims()->Assign(spec.shape.begin(), spec.shape.end());
    map.mutable_decode_raw()->set_big_endian(!spec.little_endian);
  } else {
    map.set_drop(true);
  }
  return map;
}

void ApplyToNames(const MapSpec& spec, std::vector<std::string>& columns) {
  if (spec.function == "Drop") {
    std::erase_if(columns, [&](const std::string& name) {
      return std::count(spec.inputs.begin(), spec.inputs.end(), name) > 0;
    });
    return;
  }
  const bool replaces =
      spec.output.empty() || std::count(columns.begin(), columns.end(), spec.output) > 0;
  if (!replaces) columns.push_back(spec.output);
}

}  // namespace cohort
