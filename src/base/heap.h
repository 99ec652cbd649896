// base/heap.h
//
// Memory that was freed but that the allocator keeps. Both functions do nothing where the C library offers no
// such calls.
#pragma once

namespace gezel {

// From now on blocks of a MiB and more go back to the system as soon as they are freed. By default the
// allocator takes every large block that was freed for a sign that more will come, and then keeps dozens of
// MiB for each thread, which return_free_memory() does not reach. Once, before there are threads.
void keep_no_large_blocks();

// Gives back what lies between blocks in use. Walks every arena and may take tens of milliseconds after much
// was freed: for a pool thread and quiet moments.
void return_free_memory();

}  // namespace gezel
