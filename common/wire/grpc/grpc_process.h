#pragma once

namespace cohort {

// What gRPC shares with the rest of a process, set as this project wants it; doing so twice changes
// nothing. Its own lines become lines of this program's log, for debugging: whatever it has to say
// also comes as the status of a call or of Listen. Debian builds Abseil with its search for
// deadlocks, a graph that every lock of gRPC is looked up in: it is off. Internal to common/wire.
void SetUpGrpc();

}  // namespace cohort
