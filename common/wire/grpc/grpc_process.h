#pragma once

namespace cohort {

// Sets the options of gRPC and Abseil that are global to the process; a second call changes
// nothing. gRPC's own log lines become debug lines of this program's log, since gRPC also reports
// every problem as the status of a call or of Listen. Abseil's search for deadlocks is turned off:
// Debian builds Abseil with this search, which looks up every lock of gRPC in a graph. Internal to
// common/wire.
void SetUpGrpc();

}  // namespace cohort
