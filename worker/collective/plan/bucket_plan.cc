#include "worker/collective/plan/bucket_plan.h"

#include <algorithm>
#include <map>

#include "common/base/rng.h"

namespace cohort {

namespace {

// Returns the size in bytes above which a bucket takes no further gradient. `first` is true for the
// first bucket of all.
int64_t BytesMax(const BucketOptions& options, bool first) {
  if (options.bytes_per_pack > 0) return options.bytes_per_pack;
  return first ? options.automatic_first_bytes : options.automatic_bytes;
}

void Put(Bucket& bucket, size_t index, const BucketItem& item) {
  bucket.items.push_back(index);
  bucket.offsets.push_back(bucket.elements);
  bucket.elements += item.elements;
  // The hash depends on the order of the items, so ranks that fill a bucket differently get
  // different hashes, which the bucket's call compares.
  bucket.layout =
      Mix64(bucket.layout + StableHash(item.name) * 3 +
            Mix64(static_cast<uint64_t>(item.elements)) + static_cast<uint64_t>(item.dtype));
}

}  // namespace

std::vector<Bucket> PlanBuckets(const std::vector<BucketItem>& items,
                                const BucketOptions& options) {
  std::vector<Bucket> buckets;
  std::map<DType, size_t> open;  // for each element type, the bucket that takes further items
  // The items are taken from the last variable to the first, the order in which the backward pass
  // makes gradients.
  for (size_t index = items.size(); index-- > 0;) {
    const BucketItem& item = items[index];
    const auto element = static_cast<int64_t>(ElementSize(item.dtype));
    const auto found = open.find(item.dtype);
    // The size is compared before the item is added, so a bucket exceeds its limit by its last
    // item.
    if (found == open.end() ||
        buckets[found->second].elements * element > BytesMax(options, found->second == 0)) {
      open[item.dtype] = buckets.size();
      buckets.emplace_back();
      buckets.back().dtype = item.dtype;
    }
    Put(buckets[open[item.dtype]], index, item);
  }
  // Buckets of different types are filled side by side, so they are sorted by when they can start:
  // when the last gradient of the bucket is made, which is the item with its lowest index.
  std::stable_sort(buckets.begin(), buckets.end(), [](const Bucket& a, const Bucket& b) {
    return a.items.back() > b.items.back();
  });
  return buckets;
}

}  // namespace cohort
