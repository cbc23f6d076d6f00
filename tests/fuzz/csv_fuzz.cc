#include "common/records/csv/csv_parser.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

std::vector<std::string> FuzzSeeds() {
  return {"1,2.5,x,9,1e39", "\"5\",nan,\"a\"\"b\nc\",+7,0x1p3", ",?,,,", " 1 ,\t2,3, 4 ,inf"};
}

void FuzzOne(absl::string_view input) {
  const ColumnValues zero{.ints = {0}};
  std::vector<CsvColumn> columns = {{.name = "a", .type = CsvType::kInt32, .default_value = zero},
                                    {.name = "b", .type = CsvType::kFloat32},
                                    {.name = "c", .type = CsvType::kString},
                                    {.name = "d", .type = CsvType::kInt64},
                                    {.name = "e", .type = CsvType::kFloat64}};
  for (const bool quotes : {true, false}) {
    const auto parser =
        CsvParser::Make(columns, {.quotes = quotes, .na_value = "?", .trim = quotes});
    if (!parser.ok()) return;
    std::vector<ColumnValues> values(columns.size());
    StringArena arena;
    for (int i = 0; i < 2; ++i) (void)parser->Append(input, absl::MakeSpan(values), arena);
  }
}

}  // namespace cohort
