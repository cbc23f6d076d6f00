#include "coordinator/api/runtime.h"

#include "common/wire/route/real_world.h"

namespace cohort {

Runtime::Runtime(int threads, TransportKind transport)
    : world_(std::make_unique<RealWorld>(threads, transport)) {}

Runtime::~Runtime() = default;

World Runtime::world() { return world_->world(); }

}  // namespace cohort
