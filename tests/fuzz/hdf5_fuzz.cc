#include "common/formats/hdf5/hdf5_file.h"
#include "tests/fuzz/fuzz_seeds.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds = MembersOf("formats/hdf5.zip", 1 << 14);
  for (std::string& member : MembersOf("formats/hdf5_small.zip", 1 << 16)) {
    seeds.push_back(std::move(member));
  }
  return seeds;
}

void FuzzOne(absl::string_view input) {
  const auto file = Hdf5File::Open(std::make_unique<MemoryFile>(input), "input");
  if (!file.ok()) return;
  for (const Hdf5Object& object : (*file)->objects()) {
    if (object.is_dataset) (void)(*file)->Read(object);
    for (const Hdf5Attribute& attribute : object.attributes) {
      (void)Hdf5String(object, attribute.name);
      (void)Hdf5Strings(object, attribute.name);
    }
    (void)Hdf5Strings(object, "split");
  }
}

}  // namespace cohort
