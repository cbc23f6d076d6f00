#include "coordinator/job/pipeline_file.h"

#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {

namespace {

constexpr char kKey[] = "pipeline";

}  // namespace

std::string PipelineToJson(const DataSpec& data) {
  nlohmann::ordered_json whole;
  JsonErrors errors;
  // Recording takes the pipeline by reference and does not change it.
  std::vector<TransformSpec> same = data.pipeline;
  ReadPipeline({kKey, errors, nullptr, &whole[kKey]}, data.train, same);
  return whole.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::vector<TransformSpec>> ParsePipeline(absl::string_view text,
                                                         absl::string_view file_name,
                                                         const DataSpec& data) {
  const absl::StatusOr<nlohmann::json> parsed = ParseJsonText(text);
  if (!parsed.ok()) return Annotate(parsed.status(), file_name);
  JsonErrors errors;
  std::vector<TransformSpec> pipeline;
  ObjectReader reader({"", errors, &*parsed});
  reader.Require(kKey);
  if (const auto place = reader.Place(kKey)) ReadPipeline(*place, data.train, pipeline);
  reader.Finish();
  RETURN_IF_ERROR(errors.ToStatus(file_name));
  return pipeline;
}

}  // namespace cohort
