#pragma once

// The resources that a worker must hold before it can run a closure: the program, the data set, the
// iterator. A worker process gets each resource once, before its first closure that needs it; a
// restarted one gets them again, and its iterators resume at the last position that a reply
// reported.

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
  std::string key;     // "program:…", "dataset:7": unique in the job
  std::string method;  // "/cohort.proto.WorkerService/RegisterProgram"
  Message message;
};

// Thread-compatible.
class ResourceCatalog {
 public:
  explicit ResourceCatalog(uint64_t epoch) : epoch_(epoch) {}

  // Keys of what `closure` needs, in the order in which they must be made.
  static std::vector<std::string> KeysFor(const Closure& closure);

  // Returns the call that makes the resource `key` of `closure` on `worker`.
  ResourceRequest Request(const Closure& closure, const std::string& key, int worker) const;

  // Sets the epoch of the requests from now on.
  void SetEpoch(uint64_t epoch) { epoch_ = epoch; }
  // Keeps the position of the closure's iterator after it on the worker, and what the closure took.
  void TakePositions(int worker, const proto::RunClosureResponse& answer, Closure& closure);

 private:
  // Returns the element at a position of a data set as the worker at `worker_position` sees it, for
  // any worker to read.
  SplitInput ElementOf(const std::shared_ptr<const RegisteredDataset>& dataset,
                       int64_t worker_position, const proto::IteratorPosition& position);
  void SetPosition(uint64_t iterator_id, int worker, const proto::IteratorPosition& position);

  uint64_t epoch_;
  std::map<std::pair<uint64_t, int>, proto::IteratorPosition> positions_;
  // Data sets as one worker sees them, by their own id.
  std::map<uint64_t, std::shared_ptr<const RegisteredDataset>> shards_;
};

}  // namespace cohort
