#include "common/formats/npy.h"
#include "tests/fuzz/fuzz_seeds.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds = MembersOf("formats/stored.npz", 1 << 16);
  for (const char* archive : {"formats/versions.npz", "formats/refused.npz"}) {
    for (std::string& member : MembersOf(archive, 1 << 16)) seeds.push_back(std::move(member));
  }
  return seeds;
}

void FuzzOne(absl::string_view input) {
  const MemoryFile file(input);
  const auto header = ReadNpyHeader(file, "input");
  if (header.ok()) (void)ReadNpy(file, *header, "input");
}

}  // namespace cohort
