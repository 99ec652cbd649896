// base/heap.h
//
// Memory that was freed but that the allocator keeps.
#pragma once

namespace gezel {

// Gives what the allocator holds and nobody uses back to the system. Walks every arena and may take tens of
// milliseconds after much was freed: for a pool thread and quiet moments. Does nothing where the C library
// offers no such call.
void return_free_memory();

}  // namespace gezel
