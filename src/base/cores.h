/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cores.h: how many cores this process may use.
 */
#ifndef BASE_CORES_H
#define BASE_CORES_H

/* The cores of the affinity mask, or fewer if the control group (a container's CPU limit) gives less time than that. At least 1. */
int base_usable_cores(void);

#endif
