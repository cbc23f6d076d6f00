#pragma once

// What a server answers to one request of the reflection service: from the descriptors that are
// linked into this program. Internal to common/wire.

#include <string>
#include <vector>

#include "proto/reflection.pb.h"

namespace cohort {

// `services` are the names of those that the server has. What is asked for and not known is
// answered with an error inside the answer, NOT_FOUND.
grpc::reflection::v1alpha::ServerReflectionResponse ReflectionAnswer(
    const grpc::reflection::v1alpha::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

}  // namespace cohort
