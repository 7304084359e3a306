/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program_number.c: MPI_APPNUM where the launcher does not say it: srun --multi-prog. Each process publishes a number that
 * stands for its executable, with its addresses. Different executables are numbered in the order of their first processes.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "machine_ucx/ucxm.h"

uint64_t ucxm_program_id(void)
{
    char path[2048]; /* of a longer one, the beginning */
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    uint64_t id = 0xcbf29ce484222325u;

    for (ssize_t i = 0; i < n; i++)
        id = (id ^ (unsigned char)path[i]) * 0x100000001b3u;
    return id;
}

static bool contains(const uint64_t *ids, int n, uint64_t id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Only looks up processes before the first one of this program. */
int ucxm_program_number(void)
{
    uint64_t own = ucxm_program_id(), *ids;
    int n = 0;

    if (ucxm_launcher_says_app_num())
        return -1;
    ids = base_calloc((size_t)ucxm.place.max_procs, sizeof *ids, "the number of a program");
    for (int i = ucxm.place.job_first; i < ucxm.place.proc_id && ucxm_n_pes_of(i) > 0; i++) {
        uint64_t id = ucxm.processes[i].published->program_id;
        if (id == own)
            break;
        if (!contains(ids, n, id))
            ids[n++] = id;
    }
    free(ids);
    return n;
}
