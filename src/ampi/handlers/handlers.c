/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handlers.c: the start of a set of handlers, and the end of its messages. See handlers.h.
 */
#include "ampi/handlers/handlers.h"

#include <stdio.h>
#include <string.h>

#include "ampi/datatype/buffer.h"
#include "base/log.h"

/* The library's own collectives, behind their gates (object/gate.h). */
extern __typeof__(PMPI_Allgather) ampi_call_Allgather;
extern __typeof__(PMPI_Allreduce) ampi_call_Allreduce;

/* ---- Errors ---- */

int ampi_handlers_class(enum HEDDLE_Handlers_fault fault)
{
    switch (fault) {
    case HEDDLE_HANDLERS_FINE:
        return MPI_SUCCESS;
    case HEDDLE_HANDLERS_NO_RANK:
        return MPI_ERR_RANK;
    case HEDDLE_HANDLERS_NO_HANDLER:
        return MPI_ERR_TAG;
    case HEDDLE_HANDLERS_TOO_LONG:
        return MPI_ERR_COUNT;
    case HEDDLE_HANDLERS_NO_SLOT:
        return MPI_ERR_NO_SPACE;
    default:
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
}

void ampi_handlers_describe(const struct ampi_handlers *handlers, enum HEDDLE_Handlers_fault fault, int dest,
                            int tag, char *text, size_t text_bytes)
{
    switch (fault) {
    case HEDDLE_HANDLERS_NO_RANK:
        snprintf(text, text_bytes, "the destination %d is not a rank of the communicator, 0 to %d", dest,
                 handlers->comm->local->n_ranks - 1);
        break;
    case HEDDLE_HANDLERS_NO_HANDLER:
        snprintf(text, text_bytes, "rank %d has no handler with the tag %d", dest, tag);
        break;
    case HEDDLE_HANDLERS_TOO_LONG:
        snprintf(text, text_bytes, "the message is longer than a slot of rank %d, which has %u bytes", dest,
                 handlers->cards[dest].slot_bytes);
        break;
    case HEDDLE_HANDLERS_ELSEWHERE:
        snprintf(text, text_bytes, "rank %d is in another process: its handlers cannot be reached", dest);
        break;
    default:
        snprintf(text, text_bytes, "this rank's GPU cannot use memory of GPU %d, that of rank %d",
                 handlers->cards[dest].device, dest);
    }
}

int ampi_handlers_raise(const struct ampi_handlers *handlers, int error)
{
    const struct gpu_scheduler *scheduler = &handlers->scheduler;

    if (error == GPU_SCHEDULER_FULL)
        return ampi_raise(handlers->comm, MPI_ERR_ARG,
                          "%u blocks are too many: all sets of handlers together may have %d per "
                          "multiprocessor of a GPU (key \"blocks\" of the info object)",
                          scheduler->n_blocks, HEDDLE_HANDLERS_BLOCKS_MAX);
    return ampi_raise(handlers->comm, ampi_device_class(error), "%s", gpu_error_text(error));
}

int ampi_handlers_agree(struct ampi_handlers *handlers, int error)
{
    int worst = 0, mine = error != 0;
    int result = ampi_call_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, ampi_comm_handle(handlers->comm));

    return result ? result : worst ? MPI_ERR_OTHER : MPI_SUCCESS;
}

/* Raises the error of the last invalid send of the rank's kernels. */
static int raise_fault(const struct ampi_handlers *handlers)
{
    uint64_t fault = __atomic_exchange_n(&handlers->scheduler.page->fault, 0, __ATOMIC_ACQ_REL);
    char text[192];

    if (BASE_LIKELY(fault == 0))
        return MPI_SUCCESS;
    ampi_handlers_describe(handlers, (enum HEDDLE_Handlers_fault)(fault >> 48), (int)(uint32_t)fault,
                           (int)(fault >> 32 & 0xffff), text, sizeof text);
    return ampi_raise(handlers->comm, ampi_handlers_class((enum HEDDLE_Handlers_fault)(fault >> 48)),
                      "a kernel of this rank has sent a wrong message: %s", text);
}

/* ---- The start ---- */

static enum HEDDLE_Handlers_fault find_obstacle(const struct ampi_handlers *handlers, int rank)
{
    const struct ampi_handlers_card *card = &handlers->cards[rank];
    size_t n_bytes =
        (size_t)(card->slots - card->ring) + card->n_slots * HEDDLE_HANDLERS_STRIDE(card->slot_bytes);

    if (handlers->comm->local->layout->pe_of[rank] == AMPI_PE_REMOTE)
        return HEDDLE_HANDLERS_ELSEWHERE;
    return gpu_watch_can_use(handlers->scheduler.watch.device, (void *)(uintptr_t)card->ring, n_bytes)
               ? HEDDLE_HANDLERS_FINE
               : HEDDLE_HANDLERS_NO_ACCESS;
}

/* Fills the GPU's memory before the ring: struct HEDDLE_Handlers_device and the peers. */
static int fill_front(struct ampi_handlers *handlers)
{
    const struct ampi_handlers_card *own = &handlers->cards[handlers->comm->rank];
    char *memory = handlers->scheduler.memory;
    size_t n_bytes = (size_t)(own->ring - (uint64_t)(uintptr_t)memory);
    struct HEDDLE_Handlers_device *device = base_calloc(1, n_bytes, "a table of handlers");
    struct HEDDLE_Handlers_peer *peers = (struct HEDDLE_Handlers_peer *)(device + 1);
    int n_ranks = handlers->comm->local->n_ranks, error;

    *device = (struct HEDDLE_Handlers_device){.rank = (uint32_t)handlers->comm->rank,
                                              .n_ranks = (uint32_t)n_ranks,
                                              .n_blocks = handlers->scheduler.n_blocks,
                                              .n_slots = own->n_slots,
                                              .slot_bytes = own->slot_bytes,
                                              .idle_ns = handlers->idle_us * 1000,
                                              .ring = own->ring,
                                              .slots = own->slots,
                                              .page = (uint64_t)(uintptr_t)handlers->scheduler.page,
                                              .is_alone = 1};
    memcpy(device->entries, handlers->entries, sizeof device->entries);
    for (int i = 0; i < n_ranks; i++) {
        struct ampi_handlers_card *card = &handlers->cards[i];
        card->obstacle = (uint32_t)find_obstacle(handlers, i);
        peers[i] = (struct HEDDLE_Handlers_peer){.ring = card->ring,
                                                 .slots = card->slots,
                                                 .doorbell = card->doorbell,
                                                 .n_slots = card->n_slots,
                                                 .slot_bytes = card->slot_bytes,
                                                 .is_near = card->device == own->device,
                                                 .obstacle = card->obstacle};
        memcpy(peers[i].tags, card->tags, sizeof peers[i].tags);
        device->is_alone &= peers[i].is_near || card->obstacle == HEDDLE_HANDLERS_ELSEWHERE;
    }
    error = gpu_copy_wait(memory, device, n_bytes);
    free(device);
    return error;
}

/* Initializes the ring and its slots, which others may use as soon as they have the card. */
static int fill_ring(struct ampi_handlers *handlers)
{
    const struct ampi_handlers_card *own = &handlers->cards[handlers->comm->rank];
    size_t stride = HEDDLE_HANDLERS_STRIDE(own->slot_bytes), before = (size_t)(own->slots - own->ring);
    size_t n_bytes = before + own->n_slots * stride;
    char *image = base_calloc(1, n_bytes, "a queue of messages");
    int error;

    ((struct HEDDLE_Handlers_ring *)(void *)image)->tickets = HEDDLE_HANDLERS_AWAY;
    for (size_t i = 0; i < own->n_slots; i++)
        ((struct HEDDLE_Handlers_slot *)(void *)(image + before + i * stride))->word = (uint64_t)i << 32;
    error = gpu_copy_wait((void *)(uintptr_t)own->ring, image, n_bytes);
    free(image);
    return error;
}

int ampi_handlers_start(struct ampi_handlers *handlers)
{
    struct ampi_handlers_card own = handlers->cards[handlers->comm->rank];
    bool has_kernel = handlers->scheduler.kernel != NULL;
    int agreed, error = fill_ring(handlers);

    if ((agreed = ampi_call_Allgather(&own, sizeof own, MPI_BYTE, handlers->cards, sizeof own, MPI_BYTE,
                                      ampi_comm_handle(handlers->comm))))
        return agreed;
    if (!error)
        error = fill_front(handlers);
    if (!error && has_kernel)
        error = gpu_scheduler_start(&handlers->scheduler);
    agreed = ampi_handlers_agree(handlers, error);
    if (agreed && !error && has_kernel)
        gpu_scheduler_stop(&handlers->scheduler);
    ult_self()->call = "AMPI_GPU_Handlers_start";
    if (error)
        return ampi_handlers_raise(handlers, error);
    if (agreed)
        return ampi_raise(handlers->comm, agreed, "another rank has failed to start its handlers");
    handlers->is_started = true;
    return MPI_SUCCESS;
}

/* ---- The end of messages ---- */

static int read_word(uint64_t address, uint64_t *word_out)
{
    return gpu_copy_wait(word_out, (void *)(uintptr_t)address, sizeof *word_out);
}

/* Adds up all ranks' messages that are done, then all ranks' tickets; the first sum is complete before any
 * rank reads its tickets (heddle_handlers.h). *error: CUDA's. A rank with an error takes part, and
 * *n_failed_out is the number of such ranks. */
static int count(const struct ampi_handlers *handlers, uint64_t *n_done_out, uint64_t *n_sent_out,
                 uint64_t *n_failed_out, int *error)
{
    MPI_Comm comm = ampi_comm_handle(handlers->comm);
    uint64_t ring = handlers->cards[handlers->comm->rank].ring, mine[2] = {0}, done[2], sent[2];
    int result;

    if (!*error)
        *error = read_word(ring + offsetof(struct HEDDLE_Handlers_ring, n_done), &mine[0]);
    mine[1] = *error != 0;
    if ((result = ampi_call_Allreduce(mine, done, 2, MPI_UINT64_T, MPI_SUM, comm)))
        return result;
    if (!*error)
        *error = read_word(ring + offsetof(struct HEDDLE_Handlers_ring, tickets), &mine[0]);
    mine[0] >>= 1;
    mine[1] = *error != 0;
    if ((result = ampi_call_Allreduce(mine, sent, 2, MPI_UINT64_T, MPI_SUM, comm)))
        return result;
    *n_done_out = done[0];
    *n_sent_out = sent[0];
    *n_failed_out = done[1] + sent[1];
    return MPI_SUCCESS;
}

int ampi_handlers_wait(struct ampi_handlers *handlers)
{
    const char *call = ult_self()->call;
    bool has_kernel = handlers->scheduler.kernel != NULL;
    uint64_t n_done, n_sent, n_failed;
    int result, error = has_kernel ? gpu_scheduler_drain(&handlers->scheduler) : 0;

    do {
        if (!error && has_kernel)
            error = gpu_scheduler_rest(&handlers->scheduler);
        if ((result = count(handlers, &n_done, &n_sent, &n_failed, &error)))
            return result;
    } while (n_done != n_sent && n_failed == 0);
    ult_self()->call = call;
    if (error)
        return ampi_handlers_raise(handlers, error);
    if (n_failed)
        return ampi_raise(handlers->comm, MPI_ERR_OTHER, "the handlers of another rank have failed");
    return raise_fault(handlers);
}

void ampi_handlers_end(struct ampi_rank *rank)
{
    for (struct ampi_handlers *i = rank->handlers; i; i = i->next)
        if (i->is_started && i->scheduler.kernel)
            gpu_scheduler_stop(&i->scheduler);
}
