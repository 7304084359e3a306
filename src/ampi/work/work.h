/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work.h: work requests (heddle_mpi_work.h): the operations, their kinds, and the engine that runs them.
 *
 * The life of a request, with the functions that change its state:
 *
 *      1 ARRIVED   submitted, in the engine's inbox   --ampi_work_turn-->            2 PENDING
 *      2 PENDING   in order, waits for earlier ones   --take (round.c)-->            3 TAKEN by a batch, by the CPU, or by a kernel that stays
 *      3 TAKEN     --its batch is done, its errand (cpu.c), or its orders (orders.c): ampi_work_finish-->   4 DONE: the MPI request completes on its owner's PE
 *
 * Calls that concern data (sync, invalidate, pin) are operations in the same queue, on the stack of the ULT that waits for them.
 *
 * One engine serves all ranks and GPUs of the process. Any PE may run it, one at a time: whoever finds it busy goes on, and polls again
 * while it has operations. So a PE that computes delays nobody. The rejected design, a PE that owns each GPU, did.
 *
 * Invariants:
 *   1. Operations whose bytes conflict are taken in the order of their arrival: an operation that is not taken blocks later ones (round.c).
 *   2. All fields of the engine but `arrived` belong to the PE that runs it.
 *   3. An operation belongs to the engine from its submission until ampi_work_finish, then to its owner's PE.
 */
#ifndef AMPI_WORK_H
#define AMPI_WORK_H

#include "ampi/p2p/request.h"
#include "ampi/work/copy_table.h"
#include "ampi/work/policy.h"
#include "gpu/work/stay.h"

#pragma GCC visibility push(default)
#include "heddle_mpi_work.h"
#pragma GCC visibility pop

#define AMPI_WORK_DEVICES 64
#define AMPI_WORK_BATCHES 8               /* of a GPU, at a time */
#define AMPI_WORK_TABLE_BYTES (64u << 10) /* of a batch */
#define AMPI_WORK_DRAINS 512
#define AMPI_WORK_SIZES 32 /* classes of sizes: powers of two of the number of blocks */

/* Where requests go: +work. */
enum ampi_work_mode { AMPI_WORK_GPU, AMPI_WORK_CPU, AMPI_WORK_BOTH };

enum ampi_work_what {
    AMPI_WORK_RUN,
    AMPI_WORK_SYNC,    /* the host's memory becomes current */
    AMPI_WORK_DROP,    /* the GPU's copies become invalid */
    AMPI_WORK_RECEIVE, /* both: the host will write to some of the bytes */
    AMPI_WORK_FREE,    /* as DROP, unless a request that is not done uses the bytes: then nothing */
    AMPI_WORK_PIN,
    AMPI_WORK_UNPIN
};

/* A kind, for all ranks of the process that have registered it; never freed. */
struct ampi_work_kind {
    struct ampi_work_kind *next;
    char *name;
    void *_Atomic kernel; /* a CUfunction of the newest handle, or of the last one; NULL: only the CPU */
    int device;           /* -1: none */
    int n_threads;
    void *_Atomic staying; /* the same: the kernel that stays on the GPU; NULL: none */
    size_t args_bytes;
    struct ampi_work_handle *handles; /* of ranks that have not ended */
    struct ampi_work_batch *open;     /* in a round: the batch that takes its requests; NULL: none */
    int n_on_cpu;                     /* requests for which the CPU was chosen, and which are not done */
    int n_launched;                   /* batches that are launched and not done */
    /* Of pending requests: when.c. */
    struct ampi_work_kind *next_pending; /* of engine.kinds */
    bool is_listed;                      /* there */
    unsigned n_pending;
    uint64_t pending_blocks;
    size_t pending_bytes; /* in a table */
    uint64_t since_ns;    /* when the first of them came, or when the kind's last batch was launched */
    bool may_go;          /* in this turn */
    bool was_held;        /* could not go in the last round */
    bool is_reported;     /* +check usage: it has written what another rank wrote */
    double block_ns;      /* running average of a block on the GPU; 0: not measured yet */
    double cpu_ns[AMPI_WORK_SIZES]; /* ... of a request on a CPU, by size; 0: not measured yet */
    double unit_ns
        [AMPI_WORK_SIZES]; /* the least of the first TRIALS (cpu.c): the policy's unit, which does not change */
    unsigned char n_trials[AMPI_WORK_SIZES];
    double small_ns; /* running average of a batch that a kernel that stays could run; 0: not measured */
    double order_ns; /* ... of a request that it has run */
};

/* A rank's handle of a kind. */
struct ampi_work_handle {
    uint32_t magic; /* AMPI_MAGIC_WORK */
    struct ampi_rank *owner;
    struct ampi_work_kind *kind;
    AMPI_GPU_Work_cpu_fn *cpu;     /* in the rank's copy of the program */
    void *kernel;                  /* the same: gone when the rank ends, or may be once the handle is freed */
    void *staying;                 /* the same; NULL: none */
    struct ampi_work_handle *next; /* of the kind */
};

struct ampi_work_buffer {
    struct ampi_rows rows;
    int access;
    int place;                     /* its number in the submission */
    bool is_device;                /* memory of the kind's GPU */
    struct ampi_work_entry *entry; /* while it is taken, until the launch */
    void *address; /* the buffer as the program gave it: rows.from, less the type's lower bound */
};

/* An operation. */
struct ampi_work {
    struct ampi_work *next; /* of the list that it is on */
    enum ampi_work_what what;
    struct ampi_work_pe *pe; /* its owner's */
    struct ampi_rank *owner;
    int n_buffers;
    struct ampi_work_buffer *buffers;
    int n_places;  /* RUN: buffers of the submission; those without bytes are not among n_buffers */
    bool is_apart; /* no buffer begins within another one */
    int error;     /* MPI's class */
    int gpu_error; /* CUDA's: then `error` comes from it */
    struct ult_wakeup wakeup;
    struct ult *waiter;          /* not RUN: the ULT that is suspended; NULL: not yet */
    bool is_done;                /* not RUN */
    struct ampi_work_kind *kind; /* RUN; FREE with an error: of the request that uses the bytes */
    int user;                    /* ... and its rank */
    /* RUN: */
    struct ampi_request *request;
    AMPI_GPU_Work_cpu_fn *cpu; /* NULL: none */
    unsigned n_blocks;
    void *args;
    int n_refusals; /* times that the GPU had no room for it, though it was idle */
    bool is_for_cpu;
    bool is_queued; /* its estimate is in pe->errands_ns */
    struct ult_errand errand;
    atomic_bool cpu_is_done;
    double estimate_ns;  /* of its time on the CPU */
    uint64_t cpu_ns;     /* the real one */
    uint64_t chosen_ns;  /* when the CPU was chosen; 0: it was not */
    uint64_t ordered_ns; /* when a kernel that stays was told to run it */
    unsigned n_left;     /* blocks of it that it has not done */
    size_t moved_bytes;  /* that came from the GPU for it */
    size_t room_bytes;   /* for arguments and buffers, behind the struct */
};

/* A part of the launch: requests of one kind. */
struct ampi_work_batch {
    struct ampi_work_kind *kind; /* NULL: not in use */
    struct ampi_work *first;
    struct ampi_work **end;
    unsigned n_requests;
    unsigned n_blocks;
    size_t table_bytes;   /* so far */
    uint64_t table;       /* on the GPU, AMPI_WORK_TABLE_BYTES */
    unsigned char *image; /* the table in the host's memory */
    int stream;
    uint64_t step; /* 0: not launched */
    uint64_t begun_ns;
};

/* Data on its way to the GPU. */
struct ampi_work_upload {
    struct ampi_work_entry *entry; /* NULL: the table of a batch */
    uint64_t to;
    const void *from;
    size_t n_bytes;
};

/* Data on its way from the GPU, in pinned memory. */
struct ampi_work_drain {
    uintptr_t to;
    const void *from;
    size_t n_bytes;
    uint64_t step; /* of GPU_WORKER_OUT */
};

/* A kernel that stays on a GPU. */
struct ampi_work_stay {
    struct gpu_stay *gpu;        /* NULL: none */
    struct ampi_work_kind *kind; /* of the last launch; NULL: it has left, and does not count any more */
    struct ampi_work *at[HEDDLE_WORK_PLACES]; /* the request that a place runs a block of; NULL: none */
    int n_busy;                               /* such places */
    unsigned n_polls;                         /* since a block was done */
    unsigned n_orders;                        /* requests done since the launch */
    unsigned n_wanted;                        /* small batches, one soon after another, since the launch */
    unsigned reluctance;                      /* n_wanted must reach this number */
    uint64_t wanted_ns;                       /* when the last small batch was done */
};

struct ampi_work_device {
    int number;
    int error; /* CUDA's: nothing runs here any more */
    struct gpu_worker *worker;
    struct ampi_work_table table;
    struct ampi_work_stay stay;
    struct ampi_work_batch batches[AMPI_WORK_BATCHES];
    int n_batches;                    /* in use */
    struct ampi_work_upload *uploads; /* of this round */
    int n_uploads;
    int uploads_room;
    struct ampi_work_drain drains[AMPI_WORK_DRAINS];
    int n_drains;
    struct ampi_ranges draining; /* their bytes of the host's memory */
    bool is_draining;            /* in a round: steps of GPU_WORKER_OUT are queued that have not ended */
    double pending_ns;  /* estimate for the pending requests, less those that this turn gives to the CPU */
    double launched_ns; /* +work both: ... of the launches under way */
    uint64_t done_ns;   /* when the last batch was done */
    uint64_t least_ns;  /* that a batch has taken: a launch and the poll that finds it done; 0: none yet */
};

struct ampi_work_counts {
    uint64_t n_requests, n_launches, n_ordered, n_cpu, n_evictions, in_bytes, in_copies, out_bytes,
        out_copies;
};

struct ampi_work_engine {
    _Atomic(struct ampi_work *) arrived BASE_CACHE_ALIGNED; /* newest first */
    atomic_bool is_running;
    _Atomic(struct ampi_work_pe *) pes;         /* newest first */
    struct ampi_work *first BASE_CACHE_ALIGNED; /* PENDING, in order */
    struct ampi_work **end;
    int n_urgent;                   /* of them: other than RUN */
    struct ampi_work_kind *kinds;   /* with pending requests, and some that had some */
    bool has_changed;               /* since the last round */
    bool must_go;                   /* an operation on data waits for requests that could not go */
    bool is_forced;                 /* in a round: all kinds may go */
    struct ampi_work *on_cpu;       /* started, and not done */
    unsigned n_on_cpu;              /* these, and requests that wait for their data */
    unsigned n_active;              /* requests that have arrived and are not done */
    atomic_int n_pes;               /* in `pes` */
    struct ampi_work_policy policy; /* +work both */
    uint64_t began_ns;              /* when the first request came */
    double trials_ns;   /* of requests on the CPU whose time was not known, with the moves of their data */
    double in_byte_ns;  /* running averages: to a GPU, the PE's time for a byte; 0: not measured */
    double out_byte_ns; /* from a GPU, until the host has it */
    struct ampi_work *finished; /* to be delivered when the engine is free again */
    struct ampi_ranges reads;   /* bytes of this round's operations so far */
    struct ampi_ranges writes;
    struct ampi_ranges pins;
    struct ampi_work_device *devices[AMPI_WORK_DEVICES];
    int n_devices; /* devices[i] is not NULL for some i below it */
    struct ampi_work_counts counts;
};
extern struct ampi_work_engine ampi_work_engine;

/* The state of a PE. */
struct ampi_work_pe {
    struct ult_source source; /* pending: operations of its ranks that are not delivered */
    struct ult_pe *pe;
    struct ampi_work *spare;   /* operations to be used again */
    struct ampi_work_pe *next; /* of engine.pes; never freed */
    atomic_bool is_submitting; /* an operation came, and the PE has not been idle since */
    int n_quiet;               /* polls since the last operation of its ranks */
    double errands_ns;         /* estimate of the requests that its CPU runs or will run */
};

/* On the stack of a ULT that waits for all requests of its rank. */
struct ampi_work_waiter {
    struct ampi_work_waiter *next;
    struct ult *ult;
};

/* The state of a rank, at ampi_rank.work. */
struct ampi_work_rank {
    int n_active;                     /* requests that are not done */
    struct ampi_work_waiter *waiters; /* in ampi_work_wait_all: threads of the rank, too */
};

/* ---- engine.c ---- */

/* The calling PE's state. */
struct ampi_work_pe *ampi_work_pe_self(void);

/* Gives an operation to the engine; the engine runs at the PE's next poll, or by ampi_work_turn. Never switches. */
void ampi_work_push(struct ampi_work *work);

/* Runs the engine, unless another PE does. is_idle: the PE has nothing else to do. Never switches. */
void ampi_work_turn(bool is_idle);

/* The operation is over. */
void ampi_work_finish(struct ampi_work *work);

/* Waits until all requests of the rank are done. May switch. */
void ampi_work_wait_all(struct ampi_work_rank *rank);

/* Does an operation that is not RUN, which is on the caller's stack: `what` and its only buffer are filled. May switch. */
void ampi_work_do_operation(struct ampi_work *work);

/* The same, for the calling rank: error is 0 or CUDA's. May switch. */
int ampi_work_do(enum ampi_work_what what, uintptr_t from, uintptr_t to) BASE_MUST_CHECK;

/* The engine's state of a device; creates it. NULL: not possible, *error_out. Not by the engine. */
struct ampi_work_device *ampi_work_device_open(int number, int *error_out);

/* The device does not work any more: all its operations end with this error. */
void ampi_work_device_fail(struct ampi_work_device *device, int error) BASE_COLD;

/* ---- round.c ---- */

/* Takes all pending operations that can be taken. True: some were, or another round would take more. */
bool ampi_work_round(bool is_idle);

/* ---- when.c ---- */

/* A request is pending, or is not any more. */
void ampi_work_when_add(const struct ampi_work *work);
void ampi_work_when_remove(const struct ampi_work *work);

/* Decides which kinds may go. True: a round is due. */
bool ampi_work_when_choose(bool is_idle);

/* A round has tried all that may go. */
void ampi_work_when_tried(void);

/* ---- data.c ---- */

enum ampi_work_result {
    AMPI_WORK_READY,
    AMPI_WORK_WAIT, /* for something that is under way, or for the launch of the round's batches */
    AMPI_WORK_FULL  /* the GPU has no room, and nothing is under way that would make any */
};

/* Finds or creates the entries of a request's buffers, makes sure that what it reads is on its way to the GPU, and marks what it writes.
 * Nothing has changed for the request unless READY is returned. */
enum ampi_work_result ampi_work_data_take(struct ampi_work_device *device, struct ampi_work *work);

/* The same if nothing has to move or to be done before. False: nothing has changed. */
bool ampi_work_data_use_if_there(struct ampi_work_device *device, struct ampi_work *work);

/* Where a buffer that has an entry is on the GPU. */
static inline uint64_t ampi_work_gpu_address(const struct ampi_work_buffer *buffer)
{
    return buffer->entry->address + ((uintptr_t)buffer->address - buffer->entry->from);
}

/* Makes the host's copy of these bytes current. True: it is. */
bool ampi_work_data_settle(const struct ampi_rows *rows);

/* True if no upload reads the host's memory directly any more. */
bool ampi_work_data_is_read(void);

/* Drops the GPUs' copies of the bytes. */
void ampi_work_data_drop(const struct ampi_rows *rows);

/* The same, and the program may free the host's memory: their places on the GPUs become free, too. */
void ampi_work_data_forget(const struct ampi_rows *rows);

/* Ends the round's steps of data from and to the GPU. */
int ampi_work_data_flush(struct ampi_work_device *device) BASE_MUST_CHECK;

/* Copies data that has come into the host's memory. */
void ampi_work_data_arrived(struct ampi_work_device *device);

void ampi_work_upload_add(struct ampi_work_device *device, struct ampi_work_upload upload);

/* ---- launch_batch.c ---- */

/* The bytes of a request in a table. */
size_t ampi_work_table_bytes(const struct ampi_work *work);

/* Adds a request to its kind's open batch. */
enum ampi_work_result ampi_work_batch_add(struct ampi_work_device *device, struct ampi_work *work);

/* Launches the open batches. */
void ampi_work_batches_launch(struct ampi_work_device *device);

/* Finishes the batches that are done. */
void ampi_work_batches_poll(struct ampi_work_device *device);

/* ---- orders.c ---- */

/* A batch of the kind is done that the places of a kernel that stays could have run. Launches one if that is worth it. */
void ampi_work_stay_want(struct ampi_work_device *device, struct ampi_work_kind *kind, uint64_t duration_ns,
                         uint64_t now_ns);

/* True if a kernel of the kind is there, and has a free place. */
bool ampi_work_stay_has_room(const struct ampi_work_device *device, const struct ampi_work_kind *kind);

/* Gives a request to the kernel, if that is there and can run it at once. */
bool ampi_work_stay_take(struct ampi_work_device *device, struct ampi_work *work);

/* Finishes the requests that it has run. */
void ampi_work_stay_poll(struct ampi_work_device *device);

/* The device has failed. */
void ampi_work_stay_fail(struct ampi_work_device *device) BASE_COLD;

/* ---- cpu.c ---- */

extern enum ampi_work_mode ampi_work_mode;

/* True if the request should run on the CPU now. */
bool ampi_work_cpu_is_better(struct ampi_work_device *device, const struct ampi_work *work, bool is_idle);

/* A request is done. */
void ampi_work_counted(const struct ampi_work *work);

/* Data has gone to a GPU. */
void ampi_work_moved_in(size_t n_bytes, uint64_t duration_ns);

/* The CPU will do a request, whose data may still be on its way from GPUs. */
void ampi_work_cpu_chosen(struct ampi_work *work);

/* Starts a request on its owner's PE; finds those that have run. */
void ampi_work_cpu_start(struct ampi_work *work);
void ampi_work_cpu_poll(void);

/* A batch has taken so long. */
void ampi_work_measured(struct ampi_work_device *device, struct ampi_work_batch *batch, uint64_t duration_ns);

/* An estimate of the time that the launches under way still need. */
double ampi_work_launched_ns(const struct ampi_work_device *device);

/* Adds a measurement to a running average; 0: there is none yet. */
void ampi_work_average(double *average, double value);

/* An estimate of the GPU's time for a block. */
double ampi_work_block_ns(const struct ampi_work_kind *kind);

/* ---- work_api.c ---- */

/* The rank ends: its kernels are not used any more. */
void ampi_work_kinds_leave(const struct ampi_rank *rank);

/* ---- work_usage.c ---- */

/* An operation has arrived: it is behind all earlier ones in the engine's queue. */
void ampi_work_usage_look(struct ampi_work *work);

/* For ampi_work_free. */
int ampi_work_usage_free(const void *memory, size_t n_bytes);

/* ---- work_end.c ---- */

/* Called by the last functions of MPI of a rank. May switch. */
void ampi_work_end(struct ampi_rank *rank);

/* Bytes that data on a GPU may have a copy of. Any thread. */
void ampi_work_widen(const struct ampi_rows *rows);

/* False: no request has ever used a byte of [from, to). Any thread. */
bool ampi_work_may_use(uintptr_t from, uintptr_t to);

void ampi_work_connect(void);

#endif
