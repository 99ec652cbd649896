// http/os.h
//
// The few operating-system facts that a serving process needs.
#pragma once
#include "base/process.h"

namespace gezel::http::os {

int process_id();
// A client that goes away while we write shall be an error of that write, not a signal that ends the process.
void ignore_broken_pipes();
// 1,024 connections and their workers need more descriptors than a shell's usual soft limit; the hard limit
// stays.
void raise_descriptor_limit();
Fd duplicate_stdin();
// The connection was reset, or both of its directions are closed. False for a peer that only stopped sending.
bool is_broken(int socket);

}  // namespace gezel::http::os
