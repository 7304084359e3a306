// SPDX-License-Identifier: BSD-3-Clause
//
// A rank in D: its own collected heap, thread-local and shared variables, exceptions, module constructors, a thread. Prints one line.
import core.memory, core.stdc.stdio, core.thread, std.conv;

extern (C) int MPI_Init(void*, void*);
extern (C) int MPI_Finalize();
extern (C) int rank_of_world();
extern (C) void barrier_of_world();

int local = 1;
__gshared int global;
static this() { local++; }
shared static this() { global++; }

void main()
{
    MPI_Init(null, null);
    int rank = rank_of_world(), errors = 0;
    int[][] kept;

    foreach (i; 0 .. 50)
    {
        auto block = new int[1000];
        block[] = rank * 1000 + i;
        kept ~= block;
        local++;
        global++;
        barrier_of_world();
        try
            throw new Exception(to!string(rank));
        catch (Exception e)
            errors += e.msg != to!string(rank);
        foreach (j; 0 .. 20)
            (new int[500])[] = -1;
        if (i % 10 == 0)
            GC.collect();
    }
    int seen;
    auto thread = new Thread({ seen = local; }).start(); // a new thread has its own: the module's constructor has run in it
    thread.join();
    foreach (i, block; kept)
        foreach (value; block)
            errors += value != rank * 1000 + cast(int) i;
    errors += (local != 52) + (global != 51) + (seen != 2);
    printf("rank %d: %d errors\n", rank, errors);
    fflush(stdout);
    MPI_Finalize();
}
