#pragma once

namespace cohort {

// Sets up malloc for large messages. Large buffers stay on the heap and are not returned to the
// kernel after each message, because fresh pages cost up to half of the receive rate. The process
// gets one heap per core instead of eight: memory that one thread allocates and another thread
// frees, such as a closure, would otherwise pile up in more and more heaps. Main calls this
// function before threads start.
void TuneAllocator();

}  // namespace cohort
