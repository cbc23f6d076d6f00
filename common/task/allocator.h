#pragma once

namespace cohort {

// For main, before threads start: large buffers stay on the heap instead of going back to the
// kernel after each message. Fresh pages cost up to half of the receive rate. One heap per core
// instead of eight: what one thread takes and another gives back, such as closures, would pile up
// in ever more of them.
void TuneAllocator();

}  // namespace cohort
