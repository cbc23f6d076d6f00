#include "worker/data/columns/make_column_function.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "worker/data/columns/function_makers.h"

namespace cohort {

namespace {

using Maker = Made (*)(MapCall, Specs&);
using MakerOfSeveral = Made (*)(const proto::Map&, Specs&);
struct Named {
  proto::Map::FunctionCase function;
  const char* name;
  // One of both is null.
  Maker make = nullptr;
  MakerOfSeveral make_of_several = nullptr;
};
constexpr Named kFunctions[] = {
    {proto::Map::kHashing, "Hashing", MakeHashing},
    {proto::Map::kHashedCrossing, "HashedCrossing", nullptr, MakeHashedCrossing},
    {proto::Map::kLookup, "Lookup", MakeLookup},
    {proto::Map::kDiscretization, "Discretization", MakeDiscretization},
    {proto::Map::kNormalization, "Normalization", MakeNormalization},
    {proto::Map::kCast, "Cast", MakeCast},
    {proto::Map::kDrop, "Drop", nullptr, MakeDrop},
    {proto::Map::kLog1P, "Log1p", MakeLog1p},
    {proto::Map::kRescaling, "Rescaling", MakeRescaling},
    {proto::Map::kCategoryEncoding, "CategoryEncoding", MakeCategoryEncoding},
    {proto::Map::kTextVectorization, "TextVectorization", MakeTextVectorization},
    {proto::Map::kPad, "Pad", MakePad},
    {proto::Map::kDecodeImage, "DecodeImage", MakeDecodeImage},
    {proto::Map::kDecodeRaw, "DecodeRaw", MakeDecodeRaw}};

const Named* FindFunction(const proto::Map& map) {
  for (const Named& one : kFunctions) {
    if (one.function == map.function_case()) return &one;
  }
  return nullptr;
}

Made MakeNamed(const Named& named, const proto::Map& map, Specs& columns) {
  if (map.inputs_size() == 0) return absl::InvalidArgumentError("it names no column");
  for (const std::string& input : map.inputs()) {
    if (std::count(map.inputs().begin(), map.inputs().end(), input) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("it names the column '", Excerpt(input), "' twice"));
    }
    if (FindColumn(columns, input) < columns.size()) continue;
    std::vector<std::string> names;
    for (const ColumnSpec& column : columns) names.push_back(Excerpt(column.name));
    return absl::InvalidArgumentError(absl::StrCat("there is no column '", Excerpt(input),
                                                   "'; there are ", absl::StrJoin(names, ", ")));
  }
  if (named.make == nullptr) return named.make_of_several(map, columns);
  if (map.inputs_size() > 1) return absl::InvalidArgumentError("it takes one column");
  const ColumnSpec input = columns[FindColumn(columns, map.inputs(0))];
  ColumnSpec output = input;
  if (!map.output().empty()) output.name = map.output();
  return named.make({map, input, std::move(output)}, columns);
}

}  // namespace

const char* FunctionName(const proto::Map& map) {
  const Named* const named = FindFunction(map);
  return named == nullptr ? "nothing" : named->name;
}

Made MakeColumnFunction(const proto::Map& map, std::vector<ColumnSpec>& columns) {
  const Named* const named = FindFunction(map);
  if (named == nullptr) return absl::InvalidArgumentError("a map has no function");
  Made made = MakeNamed(*named, map, columns);
  if (!made.ok()) return Annotate(made.status(), named->name);
  return made;
}

}  // namespace cohort
