/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: each rank has a team of OpenMP threads of its own, which a switch to other ranks inside a parallel
 * region leaves alone; they see the rank's variables.
 */
#include "image_test.h"

#include <omp.h>

static int total;
static int mine;
#pragma omp threadprivate(mine)

int main(void)
{
    omp_set_num_threads(3);
    for (int round = 0; round < 5; round++) {
        total = 0;
#pragma omp parallel reduction(+ : total)
        {
            int *address = &mine;

            *address += omp_get_thread_num() + 1;
#pragma omp master
            let_others_run();
#pragma omp barrier
            CHECK(omp_get_num_threads() == 3);
            total += mine;
        }
        CHECK(total == 6 * (round + 1));
        let_others_run();
    }
    puts("ok");
    return 0;
}
