/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handlers.h: sets of handlers, functions of the program that run on a rank's GPU when a message comes (heddle_mpi_handlers.h). The words that kernels
 * and PEs share are described in heddle_handlers.h.
 *
 *      1 OPEN      --AMPI_GPU_Handlers_start-->   2 STARTED: handlers run
 *      2 STARTED   --AMPI_GPU_Handlers_free, the end of MPI_Finalize-->   freed
 */
#ifndef AMPI_HANDLERS_H
#define AMPI_HANDLERS_H

#include "ampi/comm/comm.h"
#include "gpu/streams/scheduler.h"

/* The data that the ranks of a set exchange at the start. Addresses are valid within a process only. */
struct ampi_handlers_card {
    uint64_t ring;
    uint64_t slots;
    uint64_t doorbell;
    uint64_t tags[HEDDLE_HANDLERS_TAGS / 64];
    int32_t device;
    uint32_t n_slots;
    uint32_t slot_bytes;
    uint32_t obstacle; /* enum HEDDLE_Handlers_fault: why the rank that received the card cannot send to
                        * its owner */
};

struct ampi_handlers {
    uint32_t magic; /* AMPI_MAGIC_HANDLERS */
    bool is_started;
    struct ampi_rank *owner;
    struct ampi_handlers *next; /* link of the rank's list of sets */
    struct ampi_comm *comm;     /* a duplicate of the program's */
    struct gpu_scheduler scheduler;
    struct ampi_handlers_card *cards; /* by rank; the own card is filled in first */
    size_t memory_bytes;              /* of scheduler.memory */
    uint64_t idle_us;
    struct HEDDLE_Handlers_entry entries[HEDDLE_HANDLERS_TAGS];
};

/* Collective. Each member passes CUDA's error, an MPI error class, or MPI_SUCCESS. Returns MPI_SUCCESS if
 * all passed it, else MPI_ERR_OTHER. May switch. */
int ampi_handlers_agree(struct ampi_handlers *handlers, int error);

/* The collective parts of the calls. Raise errors. May switch. */
int ampi_handlers_start(struct ampi_handlers *handlers);
int ampi_handlers_wait(struct ampi_handlers *handlers);

/* Raises an error of CUDA, or GPU_SCHEDULER_FULL. */
int ampi_handlers_raise(const struct ampi_handlers *handlers, int error) BASE_COLD;

/* Writes the sentence that explains why a send is impossible. */
void ampi_handlers_describe(const struct ampi_handlers *handlers, enum HEDDLE_Handlers_fault fault, int dest,
                            int tag, char *text, size_t text_bytes) BASE_COLD;
int ampi_handlers_class(enum HEDDLE_Handlers_fault fault);

/* Ends the rank's sets of handlers. All ranks have called MPI_Finalize. May switch. */
void ampi_handlers_end(struct ampi_rank *rank);

#endif
