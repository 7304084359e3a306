/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cores.h: how many cores this process may use.
 */
#ifndef BASE_CORES_H
#define BASE_CORES_H

#include <stddef.h>

/* The cores of the affinity mask, or fewer if the control group (a container's CPU limit) gives less time
 * than that. At least 1. */
int base_usable_cores(void);

/* The share of one of n_procs processes of a job on this node: all usable cores if the launcher has bound the
 * process to some of the node's already, else as many for each. 0 if there are more processes than cores. */
int base_core_share(int n_procs);

/* The size of the last-level cache, all of it; a guess where the kernel does not say. */
size_t base_cache_bytes(void);

#endif
