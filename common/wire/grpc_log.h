#pragma once

namespace cohort {

// Whatever gRPC has to say also comes as the status of a call or of Listen, so its own lines become
// lines of this program's log, for debugging. The setting belongs to the process; making it twice
// changes nothing. Internal to common/wire.
void TakeGrpcLog();

}  // namespace cohort
