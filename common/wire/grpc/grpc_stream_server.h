#pragma once

// The serving end of calls that share a stream (grpc_stream_call.h). Internal to common/wire: only
// its .cc files include this header.

#include <memory>
#include <set>
#include <string>

#include "common/base/mutex.h"
#include "common/wire/grpc/grpc_served_call.h"

namespace cohort {

class GrpcServedStream;

// The open streams of a server. An open stream would keep the server from stopping at once.
// Thread-safe.
class GrpcServedStreams {
 public:
  // Adds a stream to the open ones. Returns false if EndAll has run.
  bool Add(std::shared_ptr<GrpcServedStream> stream);
  void Remove(const std::shared_ptr<GrpcServedStream>& stream);
  // Ends each stream once its answers have been written.
  void EndAll();

 private:
  Mutex mutex_;
  // The open streams. The set is ordered by pointer, an order that is never used.
  std::set<std::shared_ptr<GrpcServedStream>> open_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

void ServeCalls(std::unique_ptr<GrpcIncoming> call,
                const std::shared_ptr<const GrpcDispatcher>& dispatcher);

}  // namespace cohort
