/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tolerance.h: what a process of a job tells our mpirun when it would rather go on than end when another one
 * is lost: a PMIx event of this code, in the range that is for users of PMIx. Also used by src/launch/procs.
 */
#ifndef MACHINE_TOLERANCE_H
#define MACHINE_TOLERANCE_H

#define MACHINE_TOLERATES_EVENT (PMIX_EXTERNAL_ERR_BASE - 71)

/* Set in the environment of processes whose launcher understands that. */
#define MACHINE_TOLERANT_LAUNCHER "HEDDLE_TOLERANT_LAUNCHER"

#endif
