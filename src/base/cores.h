/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cores.h: the number of cores this process may use.
 */
#ifndef BASE_CORES_H
#define BASE_CORES_H

#include <stddef.h>

/* The number of cores in the affinity mask, or fewer if the control group (a container's CPU limit) grants
 * less. At least 1. */
int base_usable_cores(void);

/* The number of cores for each of n_procs processes of a job on this node: all usable cores if the launcher
 * has already bound the process to some of the node's cores, else an equal share. 0 if there are more
 * processes than cores. */
int base_core_share(int n_procs);

/* The total size of the last-level cache; a guess where the kernel does not report it. */
size_t base_cache_bytes(void);

#endif
