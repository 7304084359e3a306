/* SPDX-License-Identifier: BSD-3-Clause
 *
 * other_mpi.h: the libraries of other MPIs, by the names of their files. Used by src/launch and src/ampi.
 */
#ifndef BASE_OTHER_MPI_H
#define BASE_OTHER_MPI_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The name of this library. */
#define BASE_OWN_MPI "libmpi_abi.so.1"

/* True if a file with this name, without its folder, is a library of another MPI. */
static inline bool base_is_other_mpi(const char *name)
{
    static const char *const starts[] = {
        "libmpi.so",     "libmpi_abi.so",   "libmpich.so",         "libmpichcxx.so", "libmpicxx.so",
        "libmpi_cxx.so", "libmpifort.so",   "libmpi_mpifh.so",     "libmpi_cray.so", "libmpi_gnu.so",
        "libmpi_ibm.so", "libmpi_intel.so", "libmpi_usempif08.so", "libmvapich.so",  "libmpi_nvidia.so",
    };

    for (size_t i = 0; strcmp(name, BASE_OWN_MPI) != 0 && i < sizeof starts / sizeof starts[0]; i++) {
        size_t len = strlen(starts[i]);

        if (strncmp(name, starts[i], len) == 0 && (name[len] == '.' || name[len] == '\0'))
            return true;
    }
    return false;
}

#endif
