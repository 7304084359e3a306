/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu.h: moving and combining data in GPU memory; the seam between MPI (src/ampi) and CUDA (src/gpu).
 *
 * src/gpu is independent of MPI. Without CUDA's headers at build time, null.c replaces all of it: then
 * gpu_is_active stays false and none of these functions is called.
 *
 *      gpu_move       data from one layout to another, either side on the host or on a GPU: p2p, collectives
 *      gpu_combine    n inputs into one output with an operation: reductions
 *      gpu_pack ...   between a layout and consecutive memory: MPI_Pack, eager messages
 *
 * All are asynchronous: started here, completed by the PE's source (ult_source), which calls back on the PE
 * that started them. Each PE has its own streams and objects; PEs share nothing, so there are no locks.
 * Errors are CUDA's: `enum cudaError_enum` as an int, 0 is success; gpu_error_text has the driver's text.
 */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "base/layout.h"
#include "gpu_detect.h"
#include "ult/ult.h"

/* ---- Devices (device.c) ---- */

/* True if this library was built with CUDA. */
bool gpu_is_built(void);

/* True if the library was built with CUDA and this machine has its driver, whether or not the program has used CUDA. */
bool gpu_is_possible(void);

/* The number of devices; 0 without a driver. Opens the driver if it is present. */
int gpu_device_count(void);

/* Sets the assignment of devices to PEs (assign.c): "block" (blocks of PEs, the default), "cyclic", or a
 * comma-separated list of devices by PE, which repeats if there are more PEs. Returns false if the text is
 * invalid; no other function may be called then. Before the ranks begin. */
#define GPU_ASSIGN_MAX 64
bool gpu_assign(const char *text) BASE_MUST_CHECK;

/* The device of a PE. pe_index counts the PEs of this node. -1: there are no devices. Ends the job if the
 * list names a device that does not exist. */
int gpu_device_of_pe(int pe_index, int n_pes, int n_devices);

/* Prints the devices and, for a job of one process, the PEs and ranks of each: +help devices. n_ranks 0: unknown. */
void gpu_print_devices(int n_pes, int n_ranks);

/* The device of the calling PE; -1: none. Never opens or initializes the driver: only for processes that have done so. */
int gpu_device_of_self(void);

/* The driver's name and text of an error: "CUDA_ERROR_INVALID_VALUE: invalid argument". Static storage. */
const char *gpu_error_text(int error);

/* ---- The program's use of CUDA (gpu/rank/guard.h) ---- */

/* Sets whether each rank has its own default streams, whether a rank that waits for a GPU lets others run, and whether
 * repeated launches become a graph. All are true before. Before the ranks begin. */
void gpu_streams_choose(bool are_private, bool is_suspending, bool are_graphs);

/* The number of ranks of this process. With one rank, CUDA's behaviour is unchanged. Before the ranks begin. */
void gpu_streams_begin(int n_ranks);

/* Facts about the caller, provided by the layer that knows ranks: the rank of the calling OS thread, which
 * is not a PE's (NULL: none); and whether this is code of the running rank itself. Any thread. */
extern struct ult *(*gpu_rank_of_thread)(void);
extern bool (*gpu_is_code_of_rank)(const void *address);

/* The value of a variable in the environment of a rank, by its ULT; NULL: not set, or the rank has no environment of its
 * own. Any thread. */
extern const char *(*gpu_variable_of_rank)(const struct ult *rank, const char *name);

/* Until gpu_relax_end, captures of the program neither forbid calls of CUDA by this thread nor are ended by them
 * (relaxed.c). Returns the argument of gpu_relax_end. Any thread. */
int gpu_relax_begin(void);
void gpu_relax_end(int mode);

/* Called when the running rank, on its ULT in the program's code, gives CUDA a function to call on a thread of CUDA: the
 * function may call MPI if the rank's thread level allows it. Never switches. */
extern void (*gpu_expect_thread)(void);

/* Number of such functions that have not ended; those of graphs count for ever. */
extern _Atomic int gpu_n_callbacks;

/* True if the running rank has no pending MPI request. On a PE. */
extern bool (*gpu_has_no_messages)(void);

/* True once streams or kernels of this process wait for PEs although waits in CUDA do not let PEs make progress: each PE whose
 * rank has such streams needs a progress thread. The function is called when the program starts a thread, and says the same. */
extern bool gpu_needs_progress;
bool gpu_thread_begins(void);

/* A query that the PE repeats until the driver answers it. Private to src/gpu/rank/waits.h. */
struct gpu_question {
    struct gpu_question *next;
    void (*answered)(struct gpu_question *question); /* on the PE, from its progress; may free it */
    void *stream;                                    /* the stream to query */
    void *event;                                     /* the event to query; NULL: query the stream */
    void *context;      /* the context of the stream or event, if it matters; NULL: any */
    int result;         /* the driver's last result */
    uint64_t since_ns;  /* time of the first query */
    uint64_t ask_at_ns; /* time of the next query */
};

/* ---- Work of the program (works.c) ---- */

/* Notification that a stream's current work, or an event, is complete. The caller owns the struct and must
 * not change it until it is done. */
struct gpu_work {
    /* The work is done, or error is the reason why not. Runs on the PE that began it, from its progress,
     * never from within the functions that begin it. May not switch. */
    void (*done)(struct gpu_work *work, int error);
    struct gpu_question question; /* private, like the next field */
    bool is_own_event;
};

/* Begins to monitor the stream's current work (NULL: the running rank's default stream), or the event. An
 * error: nothing was begun. On a PE, if gpu_is_used(). Never switches. */
int gpu_work_of_stream(struct gpu_work *work, void *stream) BASE_MUST_CHECK;
int gpu_work_of_event(struct gpu_work *work, void *event) BASE_MUST_CHECK;

/* ---- A stream of the program that operations are enqueued in (stream_sync.c) ---- */

struct gpu_sync;
struct gpu_watch;

/* Notification that the stream has reached a point. Memory of the caller, unchanged until `reached` is called. */
struct gpu_point {
    /* All earlier work of the stream is done, or error is the reason why it never will be. On the PE, from
     * its progress; may not switch. */
    void (*reached)(struct gpu_point *point, int error);
    struct gpu_point *next; /* private, like the next fields */
    uint32_t number;
    uint32_t n_before; /* number of the last hold before it */
    bool is_resting;
    bool is_late;
};

/* A hold: the stream waits here until gpu_sync_release. Memory of the caller, unchanged until `left` is called. */
struct gpu_hold {
    /* This hold and all earlier ones are released. On the PE, from within gpu_sync_release; may free the
     * hold. */
    void (*left)(struct gpu_hold *hold);
    struct gpu_hold *next; /* private, like the other fields */
    uint32_t number;
    bool is_released;
    uint32_t kept; /* its number among the kept ones (rank/kept.h); 0: it is in the stream */
};

/* All functions are called on the PE that created the stream's gpu_sync. */

/* Creates the state of a stream, which must belong to the current context. Loads the library's kernels at
 * the first call. From then on, ranks that wait for a GPU let the PE make progress, if that is possible.
 * After an error nothing is created. May switch. */
int gpu_sync_create(void *stream, struct gpu_sync **sync_out) BASE_MUST_CHECK;

/* The stream must have no point and no hold left. */
void gpu_sync_destroy(struct gpu_sync *sync);

/* Adds a point, then a hold, to the stream; either may be NULL. In a full stream, a point alone is reached later than the
 * earlier work is done, but before the stream comes to a later hold. After an error nothing is added. May switch. */
int gpu_sync_add(struct gpu_sync *sync, struct gpu_point *point, struct gpu_hold *hold) BASE_MUST_CHECK;

/* Releases this hold; the stream resumes when all earlier holds are released. Never switches. */
void gpu_sync_release(struct gpu_sync *sync, struct gpu_hold *hold);

/* Handles the points that streams of the calling PE have reached, without waiting for the PE's next poll. Never switches. */
void gpu_sync_catch_up(void);

/* True if the stream is so full of points and holds that an operation for which nobody waits should not add work to it.
 * Never switches. */
bool gpu_sync_is_full(const struct gpu_sync *sync);

/* Suspends the caller while so many points and holds are in the stream that the driver might block. May switch. */
void gpu_sync_make_room(struct gpu_sync *sync);

/* ---- Small messages between such streams that GPUs exchange without the CPU (stream_slots.c) ---- */

/* Memory of a stream's GPU for a message that it sends. Belongs to the stream. */
struct gpu_slot {
    struct gpu_slot *next; /* private, like all other fields */
    struct gpu_sync *sync;
    uint64_t at;
    uint32_t turn;
    uint32_t n_bytes;
};

/* A receive of a stream: pinned words through which the PE announces the slot to the stream's kernel. Memory
 * of the caller, until gpu_inbox_put. */
struct gpu_inbox {
    struct gpu_sync *sync; /* private, like all other fields */
    volatile struct gpu_inbox_words *words;
    uint64_t words_at;
    void *to;
    size_t n_bytes;
};

/* The largest size of a message. */
extern const size_t gpu_slot_bytes;

/* Takes a slot for these bytes. NULL: none is free, or the stream's kernels cannot read the data. Never switches. */
struct gpu_slot *gpu_slot_take(struct gpu_sync *sync, const void *data, size_t n_bytes);

/* Adds a copy of the data into the slot, and then the point, to the stream. After an error nothing is added. May switch. */
int gpu_slot_fill(struct gpu_slot *slot, const void *data, struct gpu_point *point) BASE_MUST_CHECK;

/* The bytes in device memory, valid when the point is reached. */
void *gpu_slot_data(const struct gpu_slot *slot);

/* Frees the slot, when its point is reached and the data is not needed any more. On the PE that took it. */
void gpu_slot_put(struct gpu_slot *slot);

/* Prepares to receive n_bytes, at most gpu_slot_bytes. False: as for gpu_slot_take. Never switches. */
bool gpu_inbox_take(struct gpu_sync *sync, struct gpu_inbox *inbox, void *to, size_t n_bytes);
void gpu_inbox_put(struct gpu_inbox *inbox);

/* True if the inbox's GPU can read the slot. */
bool gpu_inbox_can(const struct gpu_inbox *inbox, const struct gpu_slot *slot);

/* Announce to the stream's kernel, once, the data that it receives: n_bytes of the slot, which may not be full yet;
 * or none, because the PE has received the message. On the inbox's PE. Never switch. */
void gpu_inbox_tell(struct gpu_inbox *inbox, const struct gpu_slot *slot, size_t n_bytes);
void gpu_inbox_release(struct gpu_inbox *inbox);

/* Adds to the stream: the point `arrived` (NULL: none), a wait until all inboxes have their announcements and full
 * slots, the copies of the data, and the point `done`. After an error nothing is added. May switch. */
int gpu_inbox_empty(struct gpu_sync *sync, struct gpu_inbox *const *inboxes, int n, struct gpu_point *arrived,
                    struct gpu_point *done) BASE_MUST_CHECK;

/* The stream cannot reach the point `done` before the PE has announced the data of an inbox. Until gpu_point_expect
 * the point does not count as an operation in progress, so that a deadlock is reported. On the stream's PE. */
void gpu_point_rest(struct gpu_point *point);
void gpu_point_expect(struct gpu_point *point);

/* Initializes a watch (below) of the stream's GPU, instead of gpu_watch_create. */
void gpu_sync_watch(const struct gpu_sync *sync, struct gpu_watch *watch);

/* The number of messages that streams of this process have received from slots. */
uint64_t gpu_slot_count(void);
void gpu_slot_count_one(void);

/* ---- Ends of messages in CUDA graphs, captured in such a stream (stream_graph.c) ---- */

/* A send or a receive that every launch of a graph repeats. Memory of the caller, until gpu_graph_forget. */
struct gpu_graph_end {
    /* A launch waits for the PE, and for gpu_graph_release. Called by that PE's progress; may not switch. */
    void (*reached)(struct gpu_graph_end *end);
    /* A launch has waited for some time, but the other end was never captured. Called once, as above. */
    void (*lonely)(struct gpu_graph_end *end);
    struct gpu_sync *sync;      /* private, like all other fields */
    struct gpu_graph_end *next; /* link of the list of ends that the PE polls */
    struct gpu_graph_words *words;
    uint64_t words_at;    /* their address for GPUs */
    uint64_t meeting_at;  /* the memory in which blocks of both ends meet; 0: no kernel moves the data */
    uint64_t done_at;     /* the word that the graph waits for ... */
    bool is_done_on_host; /* ... is words->released */
    int device;
    uint32_t n_chunks;
    void *data;
    size_t n_bytes;
    uint64_t lonely_since_ns;
    _Atomic int served_by; /* enum graph_server */
    bool is_watched;
    bool is_awaited;  /* by the nodes that are being added */
    bool is_started;  /* a launch has reached an end with is_done_on_host, and waits for the PE ... */
    bool is_released; /* ... or need not wait any more, but has not confirmed that */
};

#define GPU_SYNC_NO_CAPTURE 0

/* True if the stream is being captured; *id_out identifies the capture. GPU_SYNC_NO_CAPTURE: the capture has
 * become invalid. Never switches. */
bool gpu_sync_is_captured(struct gpu_sync *sync, uint64_t *id_out);

/* Prepares an end, whose functions are set, in a graph of this stream. data: consecutive bytes; NULL: they are not, so only the PE
 * can send or receive them. After an error nothing is prepared. May switch. */
int gpu_graph_prepare(struct gpu_sync *sync, struct gpu_graph_end *end, void *data,
                      size_t n_bytes) BASE_MUST_CHECK;

/* Decides once for both ends of a message of n_bytes, or for one whose other end is in another process (recv
 * NULL or send NULL). True: the GPUs exchange the message without the PEs. False: the PEs serve the ends.
 * second: the end that the calling PE has just prepared. The caller holds a lock against other PEs. */
bool gpu_graph_agree(struct gpu_graph_end *send, struct gpu_graph_end *recv, struct gpu_graph_end *second,
                     size_t n_bytes);

/* Adds nodes to the capture of the stream: they reach the ends `starts`, and then wait for the ends `waits`,
 * which may be earlier ones. One node does both if possible. May switch. */
int gpu_graph_add(struct gpu_sync *sync, struct gpu_graph_end *const *starts, int n_starts,
                  struct gpu_graph_end *const *waits, int n_waits) BASE_MUST_CHECK;

/* The PE has served the end: the launch continues. Never switches. */
void gpu_graph_release(struct gpu_graph_end *end);

/* The PE stops polling the end. */
void gpu_graph_forget(struct gpu_graph_end *end);

/* Errors of these functions with a special meaning, by CUDA's values. */
#define GPU_SYNC_OTHER_CONTEXT 201 /* CUDA_ERROR_INVALID_CONTEXT */
#define GPU_SYNC_UNSUPPORTED 801   /* CUDA_ERROR_NOT_SUPPORTED */
#define GPU_SYNC_CAPTURED 900      /* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED */

/* ---- Memory that kernels of the program write to (watch.c) ---- */

/* Memory that the PE polls. The struct belongs to the caller. */
struct gpu_watch {
    /* Polls the memory. Returns false if the watch is over; it may have freed the watch. error: the reason
     * why no kernel of the context will write any more; 0: none. On the PE, from its progress; may not
     * switch. */
    bool (*look)(struct gpu_watch *watch, int error);
    struct gpu_watch *next; /* private, like the next fields */
    void *context;          /* of the kernels */
    void *probe;            /* an event that is never recorded: a query of it returns the context's error */
    unsigned n_looks;
    int device; /* the context's; -1: it is not the GPU's primary one */
};

/* Creates a watch of kernels in the current context. From then on, ranks that wait for a GPU let the PE make
 * progress. Loads the library's kernels at the first call. After an error nothing is created. May switch. */
int gpu_watch_create(struct gpu_watch *watch) BASE_MUST_CHECK;

/* Destroys a watch that is not polled any more. */
void gpu_watch_destroy(struct gpu_watch *watch);

/* Starts polling: calls `look` until it returns false. On the watch's PE; not from within `look`. Never switches. */
void gpu_watch_begin(struct gpu_watch *watch);

/* True if kernels of the watch's device can use all n_bytes at this address. On a PE. */
bool gpu_watch_can_use(int device, const void *addr, size_t n_bytes);

/* ---- Data ---- */

/* `count` elements at buf, as in MPI. */
struct gpu_data {
    void *buf;
    int64_t count;
    struct base_layout *layout; /* of one element; NULL: a block of size_bytes / count bytes */
    int64_t extent_bytes;       /* distance between elements */
    int64_t true_lb_bytes;      /* displacement of an element's first byte if it has no layout */
    size_t size_bytes;          /* of all the data */
    const void *type;           /* for gpu_copy_host; NULL: bytes */
    /* Facts about the memory of its first byte, from a caller that moves the data again and again; NULL:
     * none. They must live until the move is done. */
    const struct gpu_facts *facts;
};

/* True if the data's facts describe the memory at this address completely. */
static inline bool gpu_data_is_known(const struct gpu_data *data, uintptr_t at)
{
    return gpu_facts_range(data->facts, (const void *)at) != NULL;
}

/* Consecutive bytes. */
static inline struct gpu_data gpu_bytes(void *addr, size_t n_bytes)
{
    return (struct gpu_data){
        .buf = addr, .count = (int64_t)n_bytes, .extent_bytes = 1, .size_bytes = n_bytes};
}

/* ---- Moving (gpu_move.c) ---- */

/* Notification that all work that a queue (copy/queue.h) got earlier is done. Memory of the caller, who must not change it until
 * handle is called. */
struct gpu_ticket {
    void (*handle)(struct gpu_ticket *ticket, int error); /* on this PE, from its progress; may not switch */
    struct gpu_ticket *next;                              /* next in the queue's list of waiting tickets */
    uint32_t number;                                      /* number that the GPU writes when it gets here */
};

/* One end of a move, as analysed by gpu_move.c. */
struct gpu_move_side {
    void *first;       /* address if it is one block */
    int kind;          /* an enum of gpu_move.c */
    int device;        /* -1: the host's memory */
    uintptr_t addr;    /* of a byte of it */
    bool is_foreign;   /* kernels of its own GPU cannot use it; unset if no kernel is used */
    uint64_t buffer;   /* the driver's id if it is device memory; 0: other memory */
    size_t room_bytes; /* if one block: bytes from `first` to the end of the allocation */
};

/* A chunk of a move in progress. */
struct gpu_move_chunk {
    struct gpu_ticket ticket;
    struct gpu_move *move;
    void *pinned;     /* pinned memory between the ends; NULL: none */
    void *scratch[2]; /* near the source, and near the destination */
    size_t offset;    /* of its first byte in the data */
    size_t n_bytes;
};

/* Remembers whether a repeated move between the same data, whose facts are given, can be merged with others
 * (batch.h). Memory of the caller; initially all 0. */
struct gpu_move_memo {
    uint64_t changes; /* gpu_change_count when it was decided; 0: not yet */
    size_t n_bytes;
    int device;
    int n_layouts;
    bool is_mergeable;
};

/* One move. The caller owns the struct (p2p: in the request) and must not change it until `done` is called. */
struct gpu_move {
    struct gpu_data dst;
    struct gpu_data src;
    size_t n_bytes;        /* to move; at most the size of either end, minus skipped bytes */
    size_t src_skip_bytes; /* bytes at the start of the source's data that are not moved */
    size_t dst_skip_bytes;
    struct gpu_move_memo *memo; /* NULL: none; must live until the move is done */
    /* The data has arrived, or error is the reason why not. Runs on the PE that started the move, from its
     * progress, never from within gpu_move_start. May not switch. */
    void (*done)(struct gpu_move *move, int error);
    bool is_dst_missing; /* for done: the error is that dst is not valid memory; src may be valid */
    /* Private to gpu_move.c and batch.c: */
    struct gpu_move *next; /* next of the PE's gathered moves */
    struct {
        int device;    /* that makes it */
        int n_layouts; /* sides that are not one block */
    } batch;           /* of gathered moves */
    bool is_stale;     /* it started from a stale cache entry */
    struct gpu_move_side from;
    struct gpu_move_side to;
    size_t chunk_bytes;       /* size of all chunks but the last */
    size_t taken_bytes;       /* already assigned to chunks */
    int n_chunks;             /* processed at a time */
    int n_busy;               /* chunks in progress */
    bool has_pinned;          /* chunks need pinned memory */
    bool has_scratch[2];      /* chunks need memory of the source's GPU, and of the destination's */
    bool is_hop;              /* both ends are pinned: goes through memory of the GPU from.device */
    bool is_split;            /* the drain is in its own queue, on the destination's GPU */
    int error;                /* the first */
    struct ult_wakeup wakeup; /* delivers a failure to the PE's progress */
    struct gpu_move_chunk chunks[2];
};

/* The CPU's part for data in host memory, set by the layer that knows the types: copies the bytes offset ..
 * offset + n_bytes - 1 of the data to consecutive memory (is_pack), or back. */
typedef void (*gpu_copy_host_fn)(const struct gpu_data *data, size_t offset, size_t n_bytes, void *flat,
                                 bool is_pack);
extern gpu_copy_host_fn gpu_copy_host;

/* The same without kernels: the block of memory that contains byte `offset` of the data. Returns the
 * address of that byte and the number of bytes from there to the end of the block. */
typedef void *(*gpu_block_at_fn)(const struct gpu_data *data, size_t offset, size_t *n_bytes_out);
extern gpu_block_at_fn gpu_block_at;

/* Called for each move when it starts and when it is done, on its PE; may be NULL. May not switch. */
extern void (*gpu_move_watcher)(const struct gpu_move *move, bool is_done, int error);

/* Called for each kernel that a rank launches, on any of its threads; may be NULL. May not switch. */
extern void (*gpu_launch_watcher)(const void *function);

/* Starts a move between any kinds of memory. Never switches, never blocks on the GPU. On a PE. */
void gpu_move_start(struct gpu_move *move);

/* Minimum size of consecutive data from pinned memory to pinned memory that goes through a GPU's copy
 * engines: they are faster than the CPU, which is free meanwhile. */
extern size_t gpu_hop_min_bytes;
bool gpu_can_hop(const void *to, const void *from, size_t n_bytes);

/* Moves and waits: suspends the calling ULT until done. Returns the error. May switch. */
int gpu_move_wait(const struct gpu_data *dst, const struct gpu_data *src, size_t n_bytes) BASE_MUST_CHECK;

/* The same for consecutive bytes. */
static inline int gpu_copy_wait(void *to, void *from, size_t n_bytes)
{
    struct gpu_data dst = gpu_bytes(to, n_bytes), src = gpu_bytes(from, n_bytes);

    return gpu_move_wait(&dst, &src, n_bytes);
}

/* gpu_move_wait without a switch, where switching is not allowed: the PE waits. */
int gpu_move_now(const struct gpu_data *dst, const struct gpu_data *src, size_t n_bytes) BASE_MUST_CHECK;

/* ---- Many copies at once (copies.c) ---- */

/* A copy from one block of memory to another. */
struct gpu_copy {
    void *dst;
    const void *src;
    size_t n_bytes;
};

/* Copies that one kernel makes. The caller owns the struct and must not change it until it is done;
 * `copies` may be freed earlier. */
struct gpu_copies {
    const struct gpu_copy *copies;
    int n;
    int device; /* the device that runs the kernel */
    /* Like gpu_combine's. */
    void (*done)(struct gpu_copies *copies, int error);
    struct gpu_ticket ticket; /* private */
    int error;
};

/* Allocations that were found to be valid and accessible from a device; initially all 0. For queries about
 * many blocks in a row, during which nothing can be freed. */
struct gpu_known {
    struct {
        uint64_t buffer;
        int device;
    } entries[16];
};

/* True if both ends are valid and the device's kernels can use them. Facts: about the ends' memory; NULL:
 * none. */
bool gpu_copies_can(int device, const struct gpu_copy *copy, const struct gpu_facts *dst_facts,
                    const struct gpu_facts *src_facts, struct gpu_known *known);

/* True if the memory at this address is valid and the device's kernels can use it. exact: the current range
 * of the address; NULL: the driver is asked. */
bool gpu_kernel_can_use(int device, const void *addr, const struct gpu_range *exact, struct gpu_known *known);

/* Starts copies, for each of which gpu_copies_can returned true. Never switches, never waits for a GPU. An
 * error: nothing was started. */
int gpu_copies_start(struct gpu_copies *copies) BASE_MUST_CHECK;

/* The same, and waits: for code that may not switch. */
int gpu_copies_now(int device, const struct gpu_copy *copies, int n) BASE_MUST_CHECK;

/* ---- The resident kernel (resident.c) ---- */

/* Time for which a kernel stays on the GPU after a small copy within a GPU or to a peer, to make the next
 * ones; 0: no resident kernel. Set before the ranks begin, by gpu_resident_set. */
extern long gpu_resident_us;

/* Applies the value of +gpu service: microseconds, 0: no resident kernel, -1: the default. */
void gpu_resident_set(long us);

/* The resident kernel's copies: it is faster than other ways up to this size, or up to a quarter of it if
 * an address or the size is not a multiple of 16. */
#define GPU_RESIDENT_MAX ((size_t)64 << 10)

/* True if the calling PE's resident kernel is on this device and takes orders. */
bool gpu_resident_is_there(int device);

/* Number of evictions of the resident kernel by blocking CUDA calls, in this process. */
uint64_t gpu_resident_times_sent_away(void);

/* ---- Combining (combine.c) ---- */

/* Consecutive elements of a type and an operation of gpu/kernels/kernels.h. The caller owns the struct and
 * the arrays, and must not change them until it is done. */
struct gpu_combine {
    void *const *outs;         /* n_outs of them, each consecutive elements; may be among the inputs */
    const void *const *inputs; /* n_inputs, each consecutive elements in any memory */
    void *old;                 /* gets the elements of input 0; overlaps nothing else; NULL: not needed */
    /* Facts about the memory of the outs, followed by those of the inputs. The array, and each entry, may be
     * NULL. They must live until the operation is done. */
    const struct gpu_facts *const *facts;
    int n_outs;
    int n_inputs;
    int64_t count_elems;
    int op;        /* enum gpu_op */
    int type;      /* enum gpu_type */
    int device;    /* the device that computes; -1: the first GPU that owns an output, or else an input */
    bool is_aside; /* may run at the same time as others on this GPU */
    /* gpu_combine_start: the operation is done, or error is the reason why not. Runs on the PE that started
     * it, from its progress. May not switch. */
    void (*done)(struct gpu_combine *combine, int error);
};

/* True if there is a kernel for this operation and type: never if built without nvcc, and not for all pairs of MPI. */
bool gpu_can_combine(int op, int type);

/* Every output = inputs[n - 1] op (... (inputs[1] op inputs[0])), which is rank order for operations that
 * are commutative, bit for bit equal to the CPU's result (any NaN for a NaN). An element is read from all
 * inputs before it is written to an output. The kernel writes outputs that the device can access, in its
 * own memory or in a peer's; others are copied.
 *
 * Starts the operation: never switches, never waits for a GPU. An error: nothing was started, and `done` is
 * not called. On a PE. */
int gpu_combine_start(struct gpu_combine *combine) BASE_MUST_CHECK;

/* The same, and waits: for code that may not switch. */
int gpu_combine_now(const struct gpu_combine *combine) BASE_MUST_CHECK;

/* ---- One element (swap.c) ---- */

/* Compare and swap: `old` gets the element at `target`. If that equals the one at `expected`, the target becomes the
 * one at `desired`. The four do not overlap, and are in any memory. Nothing else may change the target meanwhile. */
#define GPU_SWAP_BYTES_MAX 16
struct gpu_swap {
    void *target;
    const void *expected;
    const void *desired;
    void *old;
    size_t n_bytes; /* of an element, at most GPU_SWAP_BYTES_MAX */
};

/* True if kernels of the GPU that owns the target can do the operation. On a PE. */
bool gpu_swap_can(const struct gpu_swap *swap);

/* Does the operation. The PE waits, and never switches. Returns CUDA's error. */
int gpu_swap_now(const struct gpu_swap *swap) BASE_MUST_CHECK;

/* ---- Memory for the program (memory.c) ---- */

/* Allocates memory of the rank's current device, managed memory or pinned memory; frees it. Return CUDA's
 * error. On a PE, if gpu_is_used(). May wait for the GPU; never switch. */
int gpu_memory_alloc(enum gpu_memory kind, size_t n_bytes, void **memory_out) BASE_MUST_CHECK;
int gpu_memory_free(enum gpu_memory kind, void *memory) BASE_MUST_CHECK;

#endif
