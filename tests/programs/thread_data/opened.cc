// SPDX-License-Identifier: BSD-3-Clause
//
// Shows: thread_local data of a library that ranks open is each rank's; a rank that has not opened it does not find it
// by name, even if another rank has opened it for all modules; closing and opening it again keeps the data.
#include <cstdio>
#include <dlfcn.h>
#include <mpi.h>
#include <thread>

static int rank, size, n_wrong;

static void expect(bool condition, const char *what)
{
    if (condition)
        return;
    n_wrong++;
    std::printf("rank %d: wrong: %s\n", rank, what);
}

static void *open_library()
{
    void *library = dlopen("./liblibrary.so", RTLD_NOW | RTLD_GLOBAL);

    if (!library)
        std::printf("%s\n", dlerror());
    return library;
}

int main(int argc, char **argv)
{
    void *library = nullptr;
    int (*set)(int), (*has)(int);
    int before = -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        library = open_library();
    if (rank == 0)
        expect(dlsym(RTLD_DEFAULT, "library_number") != nullptr, "the variable after dlopen");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        expect(dlsym(RTLD_DEFAULT, "library_number") == nullptr, "the variable before dlopen");
        library = open_library();
    }
    if (!library)
        return 1;
    set = reinterpret_cast<int (*)(int)>(dlsym(library, "library_set"));
    has = reinterpret_cast<int (*)(int)>(dlsym(library, "library_has"));
    expect(set(rank + 100) == 7, "the initial value");
    MPI_Barrier(MPI_COMM_WORLD);
    expect(has(rank + 100), "the values of this rank");
    std::thread([&] { before = set(1); }).join();
    expect(before == 7, "the initial value in a thread");
    expect(*static_cast<int *>(dlsym(RTLD_DEFAULT, "library_number")) == rank + 100, "dlsym");
    dlclose(library);
    MPI_Barrier(MPI_COMM_WORLD);
    open_library();
    expect(has(rank + 100), "the values after closing and opening");
    MPI_Allreduce(MPI_IN_PLACE, &n_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && n_wrong == 0)
        std::printf("ok\n");
    MPI_Finalize();
    return 0;
}
