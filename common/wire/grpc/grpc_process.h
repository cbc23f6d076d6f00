#pragma once

namespace cohort {

// Sets what gRPC shares with the rest of the process; a second call changes nothing. gRPC's own
// lines become debug lines of this program's log: whatever gRPC has to say also comes as the status
// of a call or of Listen. Abseil's search for deadlocks is turned off: Debian builds Abseil with
// it, as a graph that every lock of gRPC is looked up in. Internal to common/wire.
void SetUpGrpc();

}  // namespace cohort
