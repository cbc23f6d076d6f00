#pragma once

#include "proto/ps.pb.h"

namespace cohort {

// Makes the request that begins a staged restore. The caller still has to add the list of stored
// tensors.
inline proto::StageRestoreRequest StagingOf(const proto::RestoreShardRequest& restore) {
  proto::StageRestoreRequest request;
  request.set_epoch(restore.epoch());
  request.set_restore(restore.staged());
  request.set_prefix(restore.prefix());
  request.set_slots(restore.slots());
  request.set_new_slots(restore.new_slots());
  request.set_applied(restore.applied());
  return request;
}

}  // namespace cohort
