#pragma once

namespace cohort {

// For main, before threads start: large buffers stay on the heap instead of going back to the
// kernel after each message. Fresh pages cost up to half of the receive rate.
void TuneAllocator();

}  // namespace cohort
