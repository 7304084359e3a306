/* SPDX-License-Identifier: BSD-3-Clause
 *
 * independent.c: collective accesses as independent ones: each rank reads or writes its own pieces. Correct, as the standard
 * asks only for the result; slow if the ranks' pieces are small and interleaved.
 */
#include "ampi/io/two_phase.h"

struct ampi_two_phase {
    struct ampi_comm_shared *comm; /* of the file */
};

struct ampi_two_phase *ampi_two_phase_create(struct ampi_comm_shared *shared,
                                             const struct ampi_disk_hints *hints)
{
    struct ampi_two_phase *made = malloc(sizeof *made);

    (void)hints;
    if (made)
        made->comm = shared;
    return made;
}

void ampi_two_phase_set_hints(struct ampi_two_phase *shared, const struct ampi_disk_hints *hints)
{
    (void)shared;
    (void)hints;
}

void ampi_two_phase_destroy(struct ampi_two_phase *shared)
{
    free(shared);
}

void ampi_two_phase_start(struct ampi_two_phase *shared, struct ampi_comm *comm, struct ampi_disk_op *op)
{
    (void)shared;
    (void)comm;
    ampi_disk_start(op);
}

void ampi_two_phase_run(struct ampi_two_phase *shared, struct ampi_comm *comm, struct ampi_disk_op *op)
{
    (void)shared;
    (void)comm;
    ampi_disk_run(op);
}
