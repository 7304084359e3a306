/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opens libraries one by one with RTLD_LOCAL and calls a function of each: library.f90.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int n_errors = 0;

    MPI_Init(&argc, &argv);
    for (int i = 1; i + 1 < argc; i += 2) {
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        int (*check)(void) = library ? (int (*)(void))dlsym(library, argv[i + 1]) : NULL;
        int n = check ? check() : 1;
        if (n != 0)
            printf("%s: %d errors %s\n", argv[i], n, check ? "" : dlerror());
        n_errors += n;
    }
    MPI_Finalize();
    return n_errors != 0;
}
