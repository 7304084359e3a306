/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fake.h: the inside of the fake driver. One lock guards everything; one condition tells of every change.
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

#include "fakecuda.h"

#define FAKE_EXPORT __attribute__((visibility("default")))
#define FAKE_DEVICES_MAX 16
#define FAKE_PAGE ((size_t)2 << 20) /* devices' memory is mapped in multiples of this */

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed;

/* ---- State of the driver (control.c) ---- */

extern struct fake_driver {
    bool is_initialized;
    int pid; /* of the process that called cuInit: a forked child has no driver */
    int n_devices;
    size_t memory_bytes; /* of each device */
    size_t used_bytes[FAKE_DEVICES_MAX];
    int delay_us;
    bool has_peers;
    bool has_write_value;
    bool is_held;
    bool are_kernels_held;
    uintptr_t next_place;
} fake;

/* First in every function, with __func__: counts the call and returns the error that it shall fail with; 0:
 * go on. */
CUresult fake_enter(const char *function);

/* The same for functions that need a current context, which is then in *context_out. */
struct fake_context;
CUresult fake_enter_context(const char *function, struct fake_context **context_out);

/* ---- Contexts (context.c) ---- */

struct fake_stream;
struct fake_context {
    int device;
    int n_refs; /* primary: how often it is retained */
    bool is_primary;
    bool is_alive;
    CUresult broken;                  /* an operation went wrong: every call returns this; 0: none */
    bool can_reach[FAKE_DEVICES_MAX]; /* peer access is enabled */
    struct fake_stream *legacy;       /* the stream NULL; made at first use */
    struct fake_stream *streams;      /* all of this context */
};
struct fake_context *fake_current(void);

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
    struct fake_chunk *chunk;       /* that it is cut from; NULL: it has a mapping of its own */
    struct fake_pool *pool;         /* of cuMemAllocAsync; NULL: of another function */
    struct physical *physical;      /* VMM: what is mapped here; else NULL */
    bool is_alias_shared;           /* the bytes belong to somebody else */
    bool is_open[FAKE_DEVICES_MAX]; /* VMM: to which devices cuMemSetAccess has opened it */
    int n_refs;                     /* its existence, and operations that are under way */
};

/* The range that an address lies in; NULL: host memory, or nothing. Lock held. */
struct fake_range *fake_range_at(uintptr_t address);
struct fake_range *fake_range_add(struct fake_range range);
void fake_range_remove(struct fake_range *range);
extern unsigned fake_n_removed; /* how many were removed so far */
void fake_range_unref(struct fake_range *range);

/* Frees all memory that was allocated in a context. Lock held. */
void fake_drop_memory(struct fake_context *context);

/* False if memory of a pool or mapped memory has not been opened to a device (vmm.c). Lock held. */
bool fake_is_open_to(const struct fake_range *range, int device);

/* Address space that nothing can be read from, a multiple of FAKE_PAGE; 0: none. */
uintptr_t fake_reserve(size_t n_bytes);

/* Takes n_bytes of a device's memory into account. false: there are not so many. */
bool fake_account(int device, size_t n_bytes);

/* ---- Streams (stream.c) ---- */

/* An operation of a stream. */
struct fake_op {
    struct fake_op *next;
    CUresult (*run)(struct fake_op *op);  /* without the lock */
    bool (*is_ready)(struct fake_op *op); /* with the lock; NULL: always */
    struct fake_context *context;
    struct fake_range *to_range; /* kept while it is under way; or NULL */
    struct fake_range *from_range;
    char *to;
    const char *from;
    char *captured; /* host data that was copied when the operation was queued */
    size_t n_bytes; /* of a row */
    size_t n_rows;
    size_t to_pitch;
    size_t from_pitch;
    uint64_t value;
    unsigned value_bytes;
    unsigned flags;
    void *object; /* event, kernel or function */
    struct fake_wait {
        struct fake_stream *stream;
        uint64_t number;
    } * waits; /* what other streams must have done first */
    int n_waits;
};

struct fake_stream {
    struct fake_context *context;
    struct fake_stream *next; /* of the context */
    unsigned flags;
    int priority;
    struct fake_op *first, *last;
    uint64_t n_queued, n_done;
    bool has_thread;
    bool is_destroyed;
};

/* A zeroed operation. */
struct fake_op *fake_op_create(CUresult (*run)(struct fake_op *op));

/* The stream that a handle means in a context; NULL: none. Lock held. */
struct fake_stream *fake_stream_of(CUstream handle, struct fake_context *context);

/* Queues it; the stream's thread frees it. Lock held. */
void fake_queue(struct fake_stream *stream, struct fake_op *op);

/* Waits until the stream, or all streams of the context, have done what was queued. Lock held (and given up
 * meanwhile). */
void fake_wait_stream(struct fake_stream *stream);
void fake_wait_context(struct fake_context *context);

/* The context whose kernel runs on this thread; NULL: none. */
extern __thread struct fake_context *fake_running;

#endif
