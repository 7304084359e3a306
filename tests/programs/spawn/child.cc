// SPDX-License-Identifier: BSD-3-Clause
// A program that is spawned into another one's process: constructors, destructors, exceptions, streams, dlopen, thread_local
// variables of a library, and variables with the names of the parent's. Modes: see run_mode.
#include "tally.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <iostream>
#include <map>
#include <mpi.h>
#include <stdexcept>
#include <string>

extern "C" int value, tally_step(void);

// The library uses it in children.
int tally_step()
{
    return 10;
}

int value = 1000;
static int *const address = &value; // a relocation

struct Registry {
    std::map<std::string, int> entries;
    Registry()
    {
        entries["constructed"] = 1;
    }
    ~Registry()
    {
        if (entries.size() != 2)
            std::cout << "wrong: the registry has " << entries.size() << " entries" << std::endl;
    }
} registry;

static void check(bool is_right, const char *what)
{
    if (!is_right) {
        std::cout << "wrong: child: " << what << std::endl;
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

static void run_mode(const char *mode, int rank)
{
    if (std::strcmp(mode, "abort") == 0 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (std::strcmp(mode, "crash") == 0 && rank == 1)
        *(volatile int *)8 = 1;
    if (std::strcmp(mode, "stuck") == 0)
        MPI_Recv(&rank, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (std::strcmp(mode, "code") == 0 && rank == 1)
        std::exit(9);
}

int main(int argc, char **argv)
{
    int rank, *app_num, flag, sent[4];
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    check(parent != MPI_COMM_NULL, "no parent");
    check(argc > 1 && std::strstr(argv[0], "child"), "arguments");
    registry.entries[std::to_string(rank)] = rank;
    try {
        throw std::runtime_error(std::to_string(rank));
    } catch (const std::exception &e) {
        *address += std::stoi(e.what());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check(dlsym(RTLD_DEFAULT, "value") == &value || dlsym(RTLD_DEFAULT, "value") == nullptr, "dlsym");
    check(dlsym(RTLD_DEFAULT, "tally") == (void *)tally, "dlsym of a library's function");
    if (std::strcmp(argv[1], "quiet") == 0) {
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    if (std::strlen(argv[1]) > 3) {
        MPI_Barrier(parent);
        run_mode(argv[1], rank);
        MPI_Finalize();
        return 0;
    }
    check(argc == (argv[1][0] == 'a' ? 3 : 2) && !argv[argc], "the number of arguments");
    check(std::strcmp(argv[1], argv[1][0] == 'a' ? "a" : "b b") == 0, "an argument");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app_num, &flag);
    sent[0] = rank;
    sent[1] = flag ? *app_num : -1;
    sent[2] = value;
    sent[3] = tally();
    MPI_Send(sent, 4, MPI_INT, 0, 0, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}
