#pragma once

// The answer of a server to one request of the reflection service, made from the descriptors that
// are linked into this program. Internal to common/wire.

#include <string>
#include <vector>

#include "proto/reflection.pb.h"

namespace cohort {

// Answers a request; `services` are the names of the server's services. A question about an unknown
// name is answered with an error inside the answer, NOT_FOUND.
grpc::reflection::v1alpha::ServerReflectionResponse ReflectionAnswer(
    const grpc::reflection::v1alpha::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

}  // namespace cohort
