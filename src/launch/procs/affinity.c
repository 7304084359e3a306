/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Divides the usable cores among the processes. CPUs are sorted by socket and core, so that both hardware
 * threads of a core go to the same process if possible. Used by spawn.c.
 */
#include "launch/procs/mpirun_procs.h"

#include <stdio.h>
#include <stdlib.h>

struct cpu {
    int socket; /* 0 if the kernel does not report it */
    int core;   /* number of the core in its socket; the CPU's number if the kernel does not report it */
    int number; /* of the CPU */
};

static int read_topology(int number, const char *name, int otherwise)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", number, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return otherwise;
    int value;
    if (fscanf(file, "%d", &value) != 1)
        value = otherwise;
    fclose(file);
    return value;
}

static int compare(const void *left, const void *right)
{
    const struct cpu *a = left, *b = right;
    if (a->socket != b->socket)
        return a->socket < b->socket ? -1 : 1;
    if (a->core != b->core)
        return a->core < b->core ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

bool procs_affinity_share(int proc_id, int num_procs, cpu_set_t *cores_out)
{
    static struct cpu cpus[CPU_SETSIZE];
    static int num_cpus = -1;

    if (num_cpus < 0) {
        cpu_set_t usable;
        num_cpus = 0;
        if (sched_getaffinity(0, sizeof usable, &usable) == 0)
            for (int i = 0; i < CPU_SETSIZE; i++)
                if (CPU_ISSET(i, &usable))
                    cpus[num_cpus++] = (struct cpu){read_topology(i, "physical_package_id", 0),
                                                    read_topology(i, "core_id", i), i};
        qsort(cpus, (size_t)num_cpus, sizeof cpus[0], compare);
    }
    if (num_procs < 2 || num_procs > num_cpus)
        return false;
    CPU_ZERO(cores_out);
    for (long i = (long)num_cpus * proc_id / num_procs; i < (long)num_cpus * (proc_id + 1) / num_procs; i++)
        CPU_SET(cpus[i].number, cores_out);
    return true;
}
