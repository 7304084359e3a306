// SPDX-License-Identifier: BSD-3-Clause
//
// Shows that exceptions and std::thread work in a program whose library uses MPI.
extern "C" {
#include "library.h"
}

#include <cstdio>
#include <stdexcept>
#include <thread>

static int n_caught;

static void fail()
{
    throw std::runtime_error("it fails");
}

static void count()
{
    try {
        fail();
    } catch (const std::exception &) {
        n_caught++;
    }
}

int main()
{
    count();
    std::thread(count).join();
    library_begin();
    std::printf("sum %d, caught %d\n", library_sum(), n_caught);
    library_end();
}
