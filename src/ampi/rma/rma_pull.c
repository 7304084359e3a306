/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_pull.c: large accumulates on memory of other processes that the machine can copy from (DIRECT, machine.h). Such an
 * OP carries the address of the origin's data. The target's PE copies the data piece by piece into a small buffer, which
 * stays in the processor's cache, and combines it from there: one copy instead of three, and the combination is as atomic
 * as every other one. The origin's buffer stays in use until the answer comes.
 *
 * The kernel refuses to copy some memory that the origin can access (rma_access.c). Then the answer has the number of
 * bytes that are done, and the origin sends the rest.
 */
#include "ampi/rma/rma_remote.h"

#include "ampi/procs/procs.h"
#include "base/log.h"

/* Data of at least this size is pulled. */
#define PULL_BYTES_MIN ((MPI_Count)32 << 10)

/* Bytes that are copied, then combined under the target's flag, at a time. */
#define PIECE_BYTES ((size_t)64 << 10)

static bool is_block(const struct ampi_rma_side *side)
{
    return ampi_type_is_block(side->type, side->count);
}

bool ampi_rma_can_pull(const struct ampi_rma *rma)
{
    const struct ampi_win_shared *shared = rma->win->shared;
    int world_rank = ampi_group_world_rank(shared->comm->side[0].layout->group, rma->rank);

    return ampi_machine->rma && !rma->result.type && rma->op->predefined != MPI_NO_OP &&
           ampi_rma_bytes(&rma->origin) >= PULL_BYTES_MIN && is_block(&rma->origin) &&
           is_block(&rma->target) && shared->flavor != MPI_WIN_FLAVOR_DYNAMIC &&
           !shared->targets[rma->rank].is_device &&
           !ampi_device_has(rma->origin.buf, rma->origin.count, rma->origin.type) &&
           ampi_machine->rma->access(ampi_procs_of_rank(world_rank)) == MACHINE_DIRECT_ACCESS;
}

/* Copies all of n_bytes; the machine's result. */
static int copy(int proc_id, char *into, uintptr_t from, size_t n_bytes)
{
    int result = MACHINE_DONE;

    for (size_t done = 0, some; done < n_bytes && result == MACHINE_DONE; done += some) {
        struct machine_piece own = {(uintptr_t)into + done, n_bytes - done};
        struct machine_piece other = {from + done, n_bytes - done};
        result = ampi_machine->rma->copy(proc_id, false, &own, 1, &other, 1, &some);
    }
    return result;
}

size_t ampi_rma_pull(struct ampi_win *at, int proc_id, const struct ampi_op *op, enum ampi_basic basic,
                     struct ampi_rma_piece to, uintptr_t from)
{
    size_t elem_bytes = ampi_rma_elem_bytes(basic);
    size_t most = base_min_u64(PIECE_BYTES / elem_bytes * elem_bytes, to.n_bytes), done, some;
    char *data;

    if (ampi_machine->rma->access(proc_id) != MACHINE_DIRECT_ACCESS)
        return 0;
    data = base_malloc(most, "data of a one-sided operation");
    for (done = 0; done < to.n_bytes; done += some) {
        some = base_min_u64(most, to.n_bytes - done);
        if (copy(proc_id, data, from + done, some) != MACHINE_DONE)
            break;
        /* Host memory is combined without an error. */
        ampi_rma_combine_pieces(at, op, basic, &(struct ampi_rma_piece){to.address + done, some}, 1, data,
                                NULL);
    }
    free(data);
    return done;
}
