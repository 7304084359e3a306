/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fake.h: the inside of the fake driver. One lock guards everything. A condition variable signals each change
 * that operations or callers wait for; threads of streams without work wait for conditions of their own.
 */
#ifndef FAKE_H
#define FAKE_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fakecuda.h"

#define FAKE_EXPORT __attribute__((visibility("default")))
#define FAKE_DEVICES_MAX 16
#define FAKE_PAGE ((size_t)2 << 20) /* devices' memory is mapped in multiples of this */

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed;

/* ---- State of the driver (control.c) ---- */

extern struct fake_driver {
    bool is_initialized;
    int pid;       /* of the process that called cuInit: a forked child has no driver */
    int n_devices; /* visible ones */
    int machine_devices[FAKE_DEVICES_MAX]; /* number in the machine of each */
    size_t memory_bytes;                   /* of each device */
    size_t used_bytes[FAKE_DEVICES_MAX];
    int delay_us;
    int pageable_us; /* see FAKECUDA_PAGEABLE_US */
    bool has_peers;
    bool has_write_value;
    bool has_late_writes; /* see FAKECUDA_LATE_WRITES */
    bool is_eager;        /* kernels are loaded with their module */
    int n_connections;    /* see FAKECUDA_CONNECTIONS; 0: as many as streams */
    int rdma_flush;       /* see FAKECUDA_RDMA_FLUSH; -1: not needed */
    int n_flushes;        /* of remote writes */
    unsigned call_us;     /* how long a call that waits for a device takes before it looks for work */
    bool has_locks;       /* a call that waits for a device holds the lock of fake_wait_for_lock */
    bool has_all_locks;   /* so does each call that waits at times */
    bool is_held;
    bool are_kernels_held;
    uintptr_t next_place;
} fake;

/* First in every function, with __func__: counts the call and returns the error that the test has requested; 0: none. */
CUresult fake_enter(const char *function);

/* Counts a call by the kind of its stream as well. Lock held. */
void fake_count_stream(const char *function, enum fakecuda_stream kind);

/* The same for functions that need a current context, which is then in *context_out. */
struct fake_context;
CUresult fake_enter_context(const char *function, struct fake_context **context_out);

/* ---- Late writes (late_writes.c) ---- */

/* True if the value of an operation that stores one becomes visible later. */
struct fake_op;
bool fake_write_late(const struct fake_op *op);

/* Makes visible what is due. True if the word still has a value to come. Lock held. */
bool fake_is_written_late(const void *to);

/* ---- Contexts (context.c) ---- */

struct fake_stream;
struct fake_waits {
    struct fake_wait *list;
    int n;
};
struct fake_context {
    struct fake_context *next; /* of all; see fake_contexts */
    int device;
    int n_refs; /* primary: how often it is retained */
    bool is_primary;
    struct fake_context *parent; /* of a green one: its device's primary context; else NULL */
    bool is_alive;
    CUresult broken;                  /* an operation went wrong: every call returns this; 0: none */
    bool can_reach[FAKE_DEVICES_MAX]; /* peer access is enabled */
    struct fake_stream *legacy;       /* the stream NULL; made at first use */
    struct fake_stream *streams;      /* all of this context, destroyed ones included */
    struct fake_waits gate;           /* all later work waits for it: cuCtxWaitEvent */
    struct fake_waits peers;     /* later work of blocking streams and NULL does: copies of other devices */
    bool runs_host_function;     /* one at a time */
    size_t limits[CU_LIMIT_MAX]; /* as set; 0: not set */
    int n_limit_changes;         /* calls that change the stacks of kernels now */
    unsigned flags;              /* of cuCtxSetFlags */
};
extern struct fake_context *fake_contexts;
struct fake_context *fake_current(void);

/* A new context of a device, and its primary context, retained once more. Lock held. */
struct fake_context *fake_context_create(int device, bool is_primary);
struct fake_context *fake_context_retain(int device);

/* ---- Memory (memory.c) ---- */

enum fake_kind { FAKE_DEVICE, FAKE_MANAGED, FAKE_HOST, FAKE_REGISTERED };

struct fake_pool;
struct fake_range {
    uintptr_t at;
    size_t n_bytes;
    char *alias; /* where the bytes are */
    enum fake_kind kind;
    int device;
    struct fake_context *context;
    unsigned long long id;
    uintptr_t whole_at; /* what the range attributes say: an address reservation, or as at and n_bytes */
    size_t whole_bytes;
    struct fake_chunk *chunk;  /* that it is cut from; NULL: it has a mapping of its own */
    struct fake_pool *pool;    /* of cuMemAllocAsync; NULL: of another function */
    struct physical *physical; /* VMM: what is mapped here; else NULL */
    bool is_alias_shared;      /* the bytes belong to somebody else */
    bool is_unborn;            /* the stream has not come to its allocation yet, or a graph has freed it */
    bool is_freed;             /* a stream will free it */
    bool is_sync_memops;       /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    struct fake_stream *sync_stream; /* of the last synchronous call that is not over; NULL: none */
    uint64_t sync_number;            /* its operation there */
    bool is_open[FAKE_DEVICES_MAX];  /* VMM: to which devices cuMemSetAccess has opened it */
    int n_refs;                      /* its existence, and operations that are under way */
};

/* The range that an address lies in; NULL: host memory, or nothing. Lock held. */
struct fake_range *fake_range_at(uintptr_t address);
struct fake_range *fake_range_add(struct fake_range range);
void fake_range_remove(struct fake_range *range);
extern unsigned fake_n_removed; /* how many were removed so far */
void fake_range_unref(struct fake_range *range);

/* Device memory, as cuMemAlloc gets it, and its end (or that of other memory of cuMemAlloc...). Lock held. */
CUresult fake_allocate(struct fake_context *context, size_t n_bytes, CUdeviceptr *address);
void fake_end_range(struct fake_range *range);

/* Frees all memory that was allocated in a context. Lock held. */
void fake_drop_memory(struct fake_context *context);

/* False if memory of a pool or mapped memory has not been opened to a device (pool.c). Lock held. */
bool fake_is_open_to(const struct fake_range *range, int device);

/* Address space that nothing can be read from, a multiple of FAKE_PAGE; 0: none. */
uintptr_t fake_reserve(size_t n_bytes);

/* Counts n_bytes of a device's memory as used. False: there is not enough. */
bool fake_account(int device, size_t n_bytes);

/* ---- Streams (stream.c) ---- */

/* What a stream must have done: its first `number` operations. */
struct fake_wait {
    struct fake_stream *stream;
    uint64_t number;
};
/* Adds what the stream has yet to do of its first `number` operations; nothing if it has done them. Lock
 * held. */
void fake_waits_add(struct fake_waits *waits, struct fake_stream *stream, uint64_t number);
void fake_waits_add_all(struct fake_waits *waits, const struct fake_waits *added);
bool fake_waits_are_over(const struct fake_waits *waits);
void fake_waits_clear(struct fake_waits *waits);

/* Nodes of a graph. */
struct fake_nodes {
    struct fake_node **list;
    size_t n;
};

/* An operation of a stream. */
struct fake_op {
    struct fake_op *next;
    CUresult (*run)(struct fake_op *op);  /* without the lock */
    bool (*is_ready)(struct fake_op *op); /* with the lock, just before run; NULL: always */
    void (*is_over)(struct fake_op *op);  /* with the lock, just after run; or NULL */
    bool is_polled; /* is_ready looks at what the CPU stores: it is asked again and again */
    struct fake_context *context;
    struct fake_range *to_range; /* kept while it is under way; or NULL */
    struct fake_range *from_range;
    char *to;
    const char *from;
    char *captured; /* host data that was copied when the operation was queued */
    size_t n_bytes; /* of a row */
    size_t n_rows;  /* of a slice */
    size_t n_slices;
    size_t to_pitch;
    size_t from_pitch;
    size_t to_slice;
    size_t from_slice;
    uint64_t value;
    unsigned value_bytes;
    unsigned flags;
    void *object;            /* event, kernel or function */
    CUgraphNodeType type;    /* of the node that it becomes in a capture */
    struct fake_waits waits; /* what other streams must have done first */
    uint64_t number;         /* in the order in which all operations were queued */
    bool has_begun;
};

/* The kinds of streams are those of fakecuda.h. */
struct fake_stream {
    struct fake_context *context;
    struct fake_stream *next; /* of the context */
    enum fakecuda_stream kind;
    unsigned flags;
    int priority;
    unsigned long long id;
    uint64_t thread;                 /* PER_THREAD: whose; see fake_thread_number() */
    CUstreamAttrValue attributes[4]; /* see attribute_of() */
    struct fake_capture *capture;    /* that it is in; NULL: none */
    struct fake_nodes captured;      /* what its next node comes after */
    struct fake_op *first, *last;
    int connection; /* while it has work; see FAKECUDA_CONNECTIONS */
    uint64_t n_queued, n_done;
    pthread_cond_t has_work; /* for its thread: an operation after none, or its end */
    bool has_thread;
    bool is_destroyed;
};

#define FAKE_GREATEST_PRIORITY (-5)
#define FAKE_CONNECTIONS_MAX 32 /* of CUDA_DEVICE_MAX_CONNECTIONS */

/* The number of operations from which on a stream's queue is full: a call that submits to it waits. */
#define FAKE_QUEUE_MAX 1024

/* A zeroed operation. */
struct fake_op *fake_op_create(CUresult (*run)(struct fake_op *op));
CUresult fake_do_nothing(struct fake_op *op);
void fake_op_free(struct fake_op *op);

/* What is in a fresh stream of a context. Lock held. */
struct fake_stream *fake_stream_create(struct fake_context *context, enum fakecuda_stream kind, int priority);

/* The stream that a handle means in a context; NULL: none. Lock held. */
struct fake_stream *fake_stream_of(CUstream handle, struct fake_context *context);

/* What the handle NULL means: the legacy stream, or in what is compiled for the functions *_ptsz and *_ptds
 * the thread's. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define FAKE_MEANT(handle) ((handle) ? (handle) : CU_STREAM_PER_THREAD)
#else
#define FAKE_MEANT(handle) (handle)
#endif

/* Begins a call with a stream: counts it, finds its stream and its current context, and takes the lock. After
 * an error the lock is free. */
CUresult fake_begin(const char *function, CUstream handle, struct fake_stream **stream_out);

/* The same of calls that submit work: waits while the stream's queue is full. What the stream is captured
 * with may go on; the stream NULL has no work while a blocking stream is captured. */
CUresult fake_begin_work(const char *function, CUstream handle, struct fake_stream **stream_out);

/* The same of calls that ask whether work is done, or wait for it: the stream may not be captured. */
CUresult fake_begin_wait(const char *function, CUstream handle, struct fake_stream **stream_out);

/* Queues it, and the stream's thread frees it; or makes it a node, if the stream is captured. Lock held. */
void fake_queue(struct fake_stream *stream, struct fake_op *op);

/* A copy in the stream NULL, and memory of another device's context: the operation waits for that context's stream NULL and
 * blocking streams; when it is queued, their later work waits for it. Lock held. */
void fake_join_peer(struct fake_op *op, struct fake_context *peer);
void fake_hold_peer(struct fake_stream *stream, struct fake_context *peer);

/* Waits until the stream, or all streams of the context or of the device's contexts, have done what was
 * queued. Lock held (and given up meanwhile). */
void fake_wait_for(const struct fake_waits *waits);
void fake_wait_stream(struct fake_stream *stream);
void fake_wait_context(struct fake_context *context);
void fake_wait_all(void);
void fake_wait_contexts_of(int device); /* holds no lock of the driver */
void fake_wait_device(int device);

/* Before a context's next stream comes to be. Lock held. */
void fake_wait_for_stream_room(const struct fake_context *context);

/* Waits while another thread's call waits for a device and has_locks. Lock held. */
void fake_wait_for_lock(void);

/* The same for a context's streams: those of its green contexts belong to a primary one. */
bool fake_is_of_context(const struct fake_context *context, const struct fake_context *whole);

/* Ends a stream; it does what was queued. Lock held. */
void fake_stream_destroy(struct fake_stream *stream);

/* Gives the lock up for a little while, or until something changes. */
void fake_pause(bool is_polling);

/* At the end of a call that asks whether work is done: if it is not, its thread may need this core. */
void fake_lend_core(CUresult answer);

/* The number of the calling thread; never reused. */
uint64_t fake_thread_number(void);

/* The context whose kernel runs on this thread; NULL: none. */
extern __thread struct fake_context *fake_running;

/* A function of the host runs on this thread: it may not call CUDA. */
extern __thread bool fake_is_host_function;

/* ---- Pools (pool.c). Lock held in all of these ---- */

/* pool: NULL: the current one of the stream's device. */
CUresult fake_pool_allocate(struct fake_pool *pool, struct fake_stream *stream, size_t n_bytes,
                            CUdeviceptr *address);
CUresult fake_pool_free(struct fake_stream *stream, CUdeviceptr address);
CUresult fake_pool_free_now(struct fake_range *range);

/* ---- Kernels (module.c) ---- */

struct fake_function {
    struct fake_function *next;   /* of the module */
    struct fake_context *context; /* NULL: it is a library's */
    fakecuda_kernel_fn run;
    size_t args_bytes; /* 0: launches say it */
    bool is_loaded[FAKE_DEVICES_MAX];
    bool is_gone; /* its module was unloaded */
};

/* Before its first launch on the current device: waits for the device. Lock held. */
void fake_load(struct fake_function *function);

/* What a launch says but for the stream. */
struct fake_launch {
    CUfunction function;
    uint64_t blocks, threads;
    void **params, **extra;
};

/* A launch in the current context as an operation. Lock held. */
CUresult fake_launch_op(const struct fake_launch *launch, struct fake_op **op_out);

/* ---- Copies and fills (copy.c) ---- */

struct fake_copy {
    CUdeviceptr to, from;
    size_t to_pitch, from_pitch; /* bytes from row to row */
    size_t to_slice, from_slice; /* bytes from slice to slice */
    size_t n_bytes;              /* of a row */
    size_t n_rows;               /* of a slice */
    size_t n_slices;
};

struct fake_fill {
    CUdeviceptr to;
    unsigned value;
    unsigned value_bytes;
    size_t n; /* values of a row */
    size_t pitch;
    size_t n_rows;
};

/* is_sync: of a function without Async. */
CUresult fake_copy(const char *function, const struct fake_copy *what, CUstream handle, bool is_sync);
CUresult fake_fill(const char *function, const struct fake_fill *what, CUstream handle, bool is_sync);

/* Whether both are memory that the driver knows and that is open to the current context's device. */
bool fake_can_copy_on_device(CUdeviceptr to, CUdeviceptr from);

/* ---- Events (event.c) ---- */

struct fake_event {
    struct fake_event *next; /* link of the destroyed ones */
    struct fake_context *context;
    unsigned flags;
    bool is_recorded;
    bool is_destroyed;
    struct fake_waits waits; /* what it was recorded behind */
    struct timespec when;
    unsigned long long capture_id; /* it was recorded in a capture; 0: in none */
    struct fake_nodes captured;    /* what it was recorded behind there */
};

/* False: it is over. Lock held. */
bool fake_event_is_pending(struct fake_event *event);

/* ---- Graphs (graph.c). Lock held in all of these ---- */

struct fake_node {
    struct fake_op *op;
    struct fake_nodes after;            /* what it comes after */
    int n_refs;                         /* the graph, what was instantiated from it, and copies */
    struct fake_node *original;         /* whose operation it has; NULL: its own */
    const struct fake_node *stands_for; /* in an executable graph: the graph's node; only compared */
    bool is_marked;
};

struct fake_graph {
    struct fake_nodes nodes; /* none comes before one that it comes after */
};

void fake_nodes_add(struct fake_nodes *nodes, struct fake_node *node);
void fake_nodes_add_all(struct fake_nodes *nodes, const struct fake_nodes *added);
void fake_nodes_clear(struct fake_nodes *nodes);

struct fake_graph *fake_graph_create(void);
void fake_graph_free(struct fake_graph *graph);

/* A new node for an operation, which belongs to it from then on. */
struct fake_node *fake_graph_add(struct fake_graph *graph, struct fake_op *op);

struct fake_exec;
CUresult fake_exec_queue(struct fake_exec *exec, struct fake_stream *stream);

/* This one takes the lock itself. */
CUresult fake_exec_create(const char *function, struct fake_graph *graph, unsigned long long flags,
                          struct fake_exec **exec_out);

/* ---- Captures (capture.c). Lock held in all of these but fake_enter_unsafe ---- */

struct fake_capture {
    struct fake_capture *next; /* of all */
    unsigned long long id;
    struct fake_graph *graph;
    bool is_graph_given; /* it is the program's */
    CUstreamCaptureMode mode;
    uint64_t thread;            /* that began it */
    struct fake_stream *origin; /* where it began */
    bool is_invalid;
};

/* A capture in progress; NULL: it has ended. */
struct fake_capture *fake_capture_find(unsigned long long id);

void fake_capture_begin(struct fake_stream *stream, struct fake_graph *graph, CUstreamCaptureMode mode);
CUresult fake_capture_end(struct fake_stream *stream, struct fake_graph **graph_out);

/* Ends the capture of a stream that goes away. */
void fake_capture_drop(struct fake_stream *stream);

/* Makes an operation a node of the stream's capture. */
void fake_capture_op(struct fake_stream *stream, struct fake_op *op);

/* Something forbidden was done with a captured stream. Returns the error: this one, unless the capture was
 * invalid. */
CUresult fake_capture_refuse(struct fake_stream *stream, CUresult error);

/* Records an event in a captured stream, and makes a stream wait for such an event. */
void fake_capture_record(struct fake_stream *stream, struct fake_event *event);
CUresult fake_capture_wait(struct fake_stream *stream, struct fake_event *event);

/* The errors of calls that no thread may make while a capture goes on that is in the way (for its mode and
 * that of the calling thread), of those that concern a context, and of those that use the stream NULL. The
 * captures become invalid. */
CUresult fake_capture_check_unsafe(void);
CUresult fake_capture_check_context(struct fake_context *context);
CUresult fake_capture_check_legacy(struct fake_stream *stream, bool is_question);

/* As fake_enter_context, for calls that a capture may forbid. */
CUresult fake_enter_unsafe(const char *function, struct fake_context **context_out);

#endif
