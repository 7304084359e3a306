/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Determines the MPI that a program is linked with. Used by target_program.c and connects.c.
 */
#ifndef LAUNCH_LIBRARIES_H
#define LAUNCH_LIBRARIES_H

#include <stdbool.h>

struct launch_libraries {
    bool has_ours;           /* it needs libmpi_abi.so.1, directly or through a library */
    bool is_only_preloaded;  /* only libraries of LD_PRELOAD need it */
    bool needs_library_path; /* the loader finds no MPI library, or that of another MPI */
    char other_mpi[64];      /* the library of another MPI that it needs, or "" */
};

/* Asks the loader of a dynamic program (which must be glibc's: others would run the program). If that
 * fails, the result is "no MPI". */
void launch_libraries_list(const char *path, struct launch_libraries *libraries_out);

/* True if this program can connect to other jobs on this node. loader: of programs. (connects.c) */
bool launch_can_connect(const char *path, const char *loader);

/* Asks the loader whether this node has UCX and PMIx, which several processes and universes need. */
bool launch_libraries_have_transport(const char *loader);

#endif
