#include "common/records/examples/example_parser.h"
#include "proto/example.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

std::vector<std::string> FuzzSeeds() {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (const int64_t value : {1, -1, 300}) features["a"].mutable_int64_list()->add_value(value);
  features["b"].mutable_float_list()->add_value(1.5f);
  features["c"].mutable_bytes_list()->add_value("xy");
  features["d"];
  return {example.SerializeAsString(), ""};
}

void FuzzOne(absl::string_view input) {
  std::vector<FeatureSpec> features(4);
  for (size_t i = 0; i < features.size(); ++i)
    features[i].key = std::string(1, static_cast<char>('a' + i));
  for (FeatureSpec& feature : features) feature.length = FeatureSpec::Length::kVaries;
  features[1].type = FeatureType::kFloat;
  features[2].type = FeatureType::kBytes;
  features[3].length = FeatureSpec::Length::kFixed;
  features[3].default_values = ColumnValues{.ints = {7}};
  auto parser = ExampleParser::Make(features);
  if (!parser.ok()) return;
  std::vector<FeatureColumn> columns = parser->NewColumns();
  // The second record meets the order of keys that the first one has left.
  for (int i = 0; i < 2; ++i) (void)parser->Append(input, absl::MakeSpan(columns));
}

}  // namespace cohort
