#pragma once

// The resources that a worker must hold before it can run a closure: the program, the data set, the
// iterator. A worker process gets each resource once, before its first closure that needs the
// resource. A restarted worker gets its resources again, and its iterators resume at the last
// position that an answer reported.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/transport.h"
#include "coordinator/schedule/closure.h"

namespace cohort {

// A call that gives a worker a resource.
struct ResourceRequest {
  std::string key;  // key of the resource, such as "program:…" or "dataset:7"; unique in the job
  std::string method;  // method of the call, such as "/cohort.proto.WorkerService/RegisterProgram"
  Message message;
};

// Thread-compatible.
class ResourceCatalog {
 public:
  explicit ResourceCatalog(uint64_t epoch) : epoch_(epoch) {}

  // Returns the keys of the resources that `closure` needs, in the order in which they must be
  // made.
  static std::vector<std::string> KeysFor(const Closure& closure);

  // Returns the call that makes the resource `key` of `closure` on `worker`.
  ResourceRequest Request(const Closure& closure, const std::string& key, int worker) const;

  // Sets the epoch that later requests carry.
  void SetEpoch(uint64_t epoch) { epoch_ = epoch; }
  // Stores the worker's iterator position after the closure, and sets `closure.taken` to the
  // element that the closure read.
  void TakePositions(int worker, const proto::RunClosureResponse& answer, Closure& closure);

 private:
  // Returns the element at `position` of the data set, as the worker at `worker_position` sees the
  // data set, in a form that every worker can read.
  SplitInput ElementOf(const std::shared_ptr<const RegisteredDataset>& dataset,
                       int64_t worker_position, const proto::IteratorPosition& position);
  void SetPosition(uint64_t iterator_id, int worker, const proto::IteratorPosition& position);

  uint64_t epoch_;
  std::map<std::pair<uint64_t, int>, proto::IteratorPosition> positions_;
  // Copies of data sets for replays, in which one worker's shard is fixed for all workers, by the
  // id of the copy.
  std::map<uint64_t, std::shared_ptr<const RegisteredDataset>> shards_;
};

}  // namespace cohort
