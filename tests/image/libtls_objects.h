// SPDX-License-Identifier: BSD-3-Clause
//
// libtls_objects.h: what libtls_objects.cc exports.
#include <atomic>

void objects_count(std::atomic<int> *destroyed); // where the rank's objects count their ends: 1 and 1,000
void objects_use(int id);                        // writes into the thread's objects
bool objects_have(int id);                       // what was written
