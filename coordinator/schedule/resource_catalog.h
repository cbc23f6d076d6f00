#pragma once

// The resources that a worker must hold before it can run a closure: the program, the data set and
// the iterator. A worker process gets each resource once, before its first closure that needs the
// resource. A restarted worker gets its resources again. Its iterators then continue after the last
// element that an answer reported.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/transport.h"
#include "coordinator/schedule/closure.h"

namespace cohort {

// A call that gives one resource to a worker.
struct ResourceRequest {
  // The resource's key, such as "program:…" or "dataset:7". Unique in the job.
  std::string key;
  // The path of the call's method, such as "/cohort.proto.WorkerService/RegisterProgram".
  std::string method;
  Message message;
};

// Builds the requests that create resources on workers (programs, data sets, iterators), and
// records the positions of iterators.
// Thread-compatible.
class ResourceCatalog {
 public:
  explicit ResourceCatalog(uint64_t epoch) : epoch_(epoch) {}

  // Returns the keys of the resources that `closure` needs, in the order in which the resources
  // must be made.
  static std::vector<std::string> KeysFor(const Closure& closure);

  // Returns the call that makes the resource `key`, which `closure` needs, on `worker`.
  ResourceRequest Request(const Closure& closure, const std::string& key, int worker) const;

  // Sets the epoch that the requests of this catalog carry from now on.
  void SetEpoch(uint64_t epoch) { epoch_ = epoch; }
  // Stores the worker's iterator position after the closure, and sets `closure.taken` to the
  // element that the closure has read. Both are taken from the worker's answer.
  void TakePositions(int worker, const proto::RunClosureResponse& answer, Closure& closure);

 private:
  // Returns an input that names the element at `position` of the data set, as the worker at
  // `worker_position` sees the data set. Every worker can read this input.
  SplitInput ElementOf(const std::shared_ptr<const RegisteredDataset>& dataset,
                       int64_t worker_position, const proto::IteratorPosition& position);
  void SetPosition(uint64_t iterator_id, int worker, const proto::IteratorPosition& position);

  uint64_t epoch_;
  std::map<std::pair<uint64_t, int>, proto::IteratorPosition> positions_;
  // Copies of data sets that are sharded by worker, for replays, by the id of the copy. In each
  // copy, all workers build the shard that one worker had.
  std::map<uint64_t, std::shared_ptr<const RegisteredDataset>> shards_;
};

}  // namespace cohort
