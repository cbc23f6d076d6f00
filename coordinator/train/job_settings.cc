#include "coordinator/train/job_settings.h"

#include "common/base/crc32c.h"

namespace cohort {

uint32_t SettingsOf(const JobSpec& job) {
  // Everything that may differ between two processes of the same job gets one value.
  JobSpec same = job;
  same.fit.epochs = 1;
  same.fit.closures_in_flight = 1;
  same.checkpoint = CheckpointSpec();
  same.recovery = RecoverySpec();
  same.export_to = ExportSpec();
  same.cluster = ClusterOptionsSpec();
  return Crc32c(JobToJson(same));
}

}  // namespace cohort
