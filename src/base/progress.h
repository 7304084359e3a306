/* SPDX-License-Identifier: BSD-3-Clause
 *
 * progress.h: the ranks' activities, in memory that mpirun --progress shares with the job's processes. These write it
 * twice a second (ampi/job/progress.c), mpirun draws it (launch/show_progress.c). A text may change while it is read;
 * its last byte is always 0.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdint.h>

#define BASE_PROGRESS_TEXT_BYTES 48
#define BASE_PROGRESS_PERIOD_NS 500000000

struct base_progress {
    _Atomic uint32_t n_ranks;               /* of the job; 0: not known yet */
    char texts[][BASE_PROGRESS_TEXT_BYTES]; /* by rank: "blocked in MPI_Recv"; "": nothing known */
};

#endif
