#include "common/formats/npz.h"
#include "tests/fuzz/fuzz_seeds.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

std::vector<std::string> FuzzSeeds() {
  return {FuzzSeedAt("formats/stored.npz"), FuzzSeedAt("formats/deflated.npz"),
          FuzzSeedAt("formats/zip64.npz"), FuzzSeedAt("formats/versions.npz")};
}

void FuzzOne(absl::string_view input) {
  constexpr uint64_t kMemberBytesMax = 16 << 20;
  auto archive = ZipArchive::Open(std::make_unique<MemoryFile>(input), "input");
  if (!archive.ok()) return;
  for (size_t i = 0; i < (*archive)->members().size(); ++i) {
    (void)(*archive)->Read(i, kMemberBytesMax);
  }
  (void)OpenNpz(*std::move(archive), "input");
}

}  // namespace cohort
