#pragma once

namespace cohort {

// Keeps large buffers on the heap instead of giving them back to the kernel after each message,
// because fresh pages cost up to half of the receive rate. Uses one heap per core instead of eight:
// memory that one thread takes and another gives back, such as closures, would pile up in ever more
// heaps. Called by main before threads start.
void TuneAllocator();

}  // namespace cohort
