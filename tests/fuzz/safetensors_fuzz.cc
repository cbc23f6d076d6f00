#include "common/formats/safetensors.h"
#include "tests/fuzz/fuzz_seeds.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

std::vector<std::string> FuzzSeeds() {
  return {FuzzSeedAt("formats/types.safetensors"), FuzzSeedAt("formats/float8.safetensors")};
}

void FuzzOne(absl::string_view input) {
  SafetensorsMetadata metadata;
  const auto file = OpenSafetensors(std::make_unique<MemoryFile>(input), "input", &metadata);
  for (size_t i = 0; file.ok() && i < (*file)->tensors().size(); ++i) (void)(*file)->Read(i);
}

}  // namespace cohort
