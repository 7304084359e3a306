// SPDX-License-Identifier: BSD-3-Clause
//
// The library of tls_objects.cc: thread_local objects with constructors and destructors.
#include "libtls_objects.h"

#include <string>

static std::atomic<int> *destroyed_of_rank;

namespace {
struct Object {
    std::string text = "long enough to be allocated on the heap";
    int value;

    explicit Object(int v) : value(v) {}
    ~Object()
    {
        if (text.size() == 39)
            destroyed_of_rank->fetch_add(value);
    }
};

thread_local Object small(1);
struct alignas(4096) Large : Object {
    char room[190000] = {};
    Large() : Object(1000) {}
};
thread_local Large large;
} // namespace

void objects_count(std::atomic<int> *destroyed)
{
    destroyed_of_rank = destroyed;
}

void objects_use(int id)
{
    small.text[0] = large.text[0] = large.room[189999] = static_cast<char>(id);
}

bool objects_have(int id)
{
    char c = static_cast<char>(id);

    return small.text[0] == c && large.text[0] == c && large.room[189999] == c && small.text.compare(1, 3, "ong") == 0 &&
           reinterpret_cast<unsigned long>(&large) % 4096 == 0;
}
