// SPDX-License-Identifier: BSD-3-Clause
//
// A library with 190 KB of thread_local data in all, and an object with a destructor. Linked with the program, or
// opened by it.
#include "library.h"

#include <atomic>

static std::atomic<int> destroyed;

extern "C" thread_local int library_number = 7;

namespace {
int target = 5;
thread_local int *pointer = &target;
thread_local char many[190000];
thread_local struct Object {
    int id = -1;
    ~Object() { destroyed++; }
} object;
} // namespace

int library_set(int id)
{
    int before = library_number;

    object.id = library_number = id;
    many[0] = many[sizeof many - 1] = static_cast<char>(id);
    return before;
}

int library_has(int id)
{
    char c = static_cast<char>(id);

    return object.id == id && library_number == id && many[0] == c && many[sizeof many - 1] == c && pointer == &target &&
           *pointer == 5;
}

int library_destroyed()
{
    return destroyed;
}
