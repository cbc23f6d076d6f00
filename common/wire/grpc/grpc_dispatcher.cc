#include "common/wire/grpc/grpc_dispatcher.h"

#include "common/wire/grpc/grpc_bytes.h"

namespace cohort {

void GrpcDispatcher::TellNames(grpc::GenericServerContext& context) const {
  // A client asks by sending the key; the key's value is not used.
  if (context.client_metadata().count(kLocalNameKey) == 0) return;
  if (!local_name.empty()) context.AddInitialMetadata(kLocalNameKey, local_name);
  if (!stream_name.empty()) context.AddInitialMetadata(kStreamNameKey, stream_name);
}

}  // namespace cohort
