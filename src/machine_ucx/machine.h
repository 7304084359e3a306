/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine.h: the seam between MPI and the transport between processes. A machine moves bytes between PEs of
 * different processes and calls back; it is independent of ranks, tags and communicators.
 *
 * A machine is one table of functions (struct machine). This folder's is a separate shared object, which is
 * opened only if a launcher started the process as one of several; a job of one process never loads it.
 * Another machine is another table: the unit tests have two in memory (tests/unit/machine_loopback.h, which
 * sends to itself, and machine_staged.h, where the test acts as the other process).
 *
 * Life of a machine:
 *      attach      gets the place of this process from the launcher
 *      open        creates one communication endpoint ("port") per PE and publishes their addresses; returns
 *                  when all processes have done so (one fence, no exchange of addresses: they are looked up
 *                  at first use)
 *      send, poll, fetch, release, ...
 *      close       completes communication, waits for the other processes, and disconnects
 *      abort       ends all processes
 *
 * Rules:
 *      1. Only its PE's thread uses a port. Only attach, open and close concern all ports; they are called
 *         when no other thread uses the machine. Any thread may call abort.
 *      2. Messages between two ports may overtake each other: clients that need an order number them.
 *      3. handle and done callbacks run inside poll (done also inside forget and close) on the port's
 *         thread. They may call send, fetch and release of this port, but not poll.
 *      4. A machine that is out of memory ends its process, with a message.
 *      5. A failed process stays failed. The first thread to notice reports it, once, through
 *         client->failed; each PE then calls forget, and from then on no data of that process reaches the
 *         PE's buffers.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum size of a header. */
#define MACHINE_HEADER_MAX 64

/* Results of operations, and arguments of done callbacks. */
enum machine_result {
    MACHINE_DONE = 0,         /* complete; if send or fetch return this, done is not called */
    MACHINE_PENDING = 1,      /* in progress; done will be called */
    MACHINE_PEER_FAILED = -1, /* the other process has failed or is unreachable */
    MACHINE_FAILED = -2,      /* only of copy in struct machine_rma: the kernel refuses */
};

/* The kind of memory of a buffer. */
enum machine_memory {
    MACHINE_HOST = 0,
    MACHINE_CUDA = 1,         /* device memory */
    MACHINE_CUDA_MANAGED = 2, /* migrated by the driver */
};

/* The place of this process. */
struct machine_place {
    int proc_id;       /* 0 .. n_procs - 1 */
    int n_procs;       /* of the job, at its start */
    int max_procs;     /* processes have numbers below this one; those from n_procs on may be started later */
    int spawn_first;   /* of a process that was started later: the first of those started together; else 0 */
    int spawn_n_procs; /* their number; else n_procs */
    bool wants_universe;  /* set by attach's caller: the program connects to other jobs or spawns processes */
    bool streams_wait;    /* set by attach's caller: streams or kernels of a GPU may wait for this process */
    const char *universe; /* the universe's folder; NULL: none */
    bool asks_pmix;       /* another launcher than Heddle's mpirun: start asks it for processes */
    int job_first;        /* in a universe (members.c) this job's processes have the numbers from here ... */
    int job_end;          /* ... to this - 1, and the others are other jobs'. 0: there is no universe */
    int node_first;       /* the lowest process of this node: identifies the node */
    int node_index;       /* this process's index among those of this node */
    int node_n_procs;     /* processes of the job on this node */
    int app_num;          /* number of its program among those of the job */
    bool keeps_going;     /* the launcher does not end the job when a process fails */
};

/* The data of a message that has arrived. Valid while handle runs, and afterwards until release or fetch if
 * handle returned true. */
struct machine_data {
    const void *bytes; /* the data; NULL: it is still at the sender, use fetch */
    size_t n_bytes;
    void *token;   /* for release and fetch */
    bool can_keep; /* handle may return true; always set if bytes is NULL */
};

/* A send or fetch has ended: MACHINE_DONE, or an error. */
typedef void (*machine_done_fn)(void *arg, int result);

/* Functions that the machine's client provides. */
struct machine_client {
    /* Handles a message for a port. Returns true to keep the data; false: the machine may drop it. */
    bool (*handle)(int pe_id, const void *header, size_t header_bytes, const struct machine_data *data);
    /* Reports a process that failed after open; called once for each, by any thread. Must not call the machine. May be
     * NULL. */
    void (*failed)(int proc_id, const char *why);
    /* The process that a message comes from, for the traffic counters. NULL: not needed. */
    int (*source)(const void *header);
    /* Called in close, again and again, when all that has arrived is handled and nothing is fetched. NULL: not needed. */
    void (*idle)(void);
};

/* How the memory of another process can be accessed without help of that process. */
enum machine_access {
    MACHINE_NO_ACCESS,     /* not at all: data goes in messages */
    MACHINE_DIRECT_ACCESS, /* copy: without a key, complete when it returns */
    MACHINE_KEYED_ACCESS,  /* put and get, with a key of the memory; complete at the other side after flush */
};

/* A piece of a process's host memory. */
struct machine_piece {
    uintptr_t address;
    size_t n_bytes;
};
#define MACHINE_PIECES_MAX 1024 /* in one call */

/* Access to other processes' memory. From open to close. Never touches memory of a process after forget was called
 * for it. */
struct machine_rma {
    /* Any thread; the first call for a process may take a while. */
    enum machine_access (*access)(int proc_id);

    /* DIRECT: copies between pieces of this process and of the other, in order, up to the end of the shorter side.
     * It may copy less: *n_bytes_out is the number of copied bytes, at least one with MACHINE_DONE. MACHINE_FAILED:
     * the kernel refuses this memory, or this process. Any thread. */
    int (*copy)(int proc_id, bool is_put, const struct machine_piece *own, int n_own,
                const struct machine_piece *others, int n_others, size_t *n_bytes_out);

    /* KEYED: gives other processes access to memory of this one until conceal. The key is valid for any process,
     * malloc'ed, and owned by the caller. NULL: not possible. Any thread. */
    void *(*expose)(void *memory, size_t n_bytes, void **key_out, size_t *key_bytes_out);
    void (*conceal)(void *exposed);

    /* Converts another process's key for accesses of this port through a PE of that process. NULL: not possible.
     * Both on the port's thread. */
    void *(*import_key)(int pe_id, int proc_id, int dest_pe, const void *key);
    void (*drop_key)(void *imported);

    /* With an imported key. As send: MACHINE_DONE, _PENDING (done will be called) or _PEER_FAILED. When an
     * operation is done, the buffer of this process may be used again; when a flush is done, earlier puts are visible at
     * the other side. Both buffers are in host memory. */
    int (*put)(int pe_id, int proc_id, int dest_pe, void *imported, const void *from, uint64_t to,
               size_t n_bytes, machine_done_fn done, void *arg);
    int (*get)(int pe_id, int proc_id, int dest_pe, void *imported, void *into, uint64_t from, size_t n_bytes,
               machine_done_fn done, void *arg);
    int (*flush)(int pe_id, int proc_id, int dest_pe, machine_done_fn done, void *arg);
};

/* Counters of a port. */
struct machine_traffic {
    uint64_t n_sent;     /* messages accepted for sending */
    uint64_t n_handled;  /* messages delivered to handle */
    uint64_t n_fetching; /* fetches, puts, gets and flushes in progress */
    uint64_t n_armed;    /* calls of arm that returned true */
};

/* A program to start. */
struct machine_program {
    const char *path;  /* its file, absolute */
    char *const *argv; /* NULL-terminated */
    const char *dir;   /* its folder, absolute */
    int n_procs;
};

/* The result of start. */
struct machine_start {
    _Atomic int state; /* 0 until the launcher has answered; then MACHINE_STARTED or MACHINE_NOT_STARTED */
    char error[128];   /* the launcher's answer */
};
enum { MACHINE_STARTED = 1, MACHINE_NOT_STARTED = -1 };

struct machine {
    const char *name;

    /* Returns false if there is no launcher, or it does not reply; *error_out (static) is the reason. Of *place the caller
     * sets wants_universe and streams_wait. */
    bool (*attach)(struct machine_place *place, const char **error_out);
    /* Returns false, too, if a process has failed before all have called open. */
    bool (*open)(int n_pes, const struct machine_client *client, const char **error_out);

    /* The number of PEs of a process; looked up at the first call for it, which may take a while. -1:
     * unknown process. */
    int (*n_pes_of)(int proc_id);

    /* True if a process is on this node and may share memory with this one. From open on, any thread. NULL: never. */
    bool (*is_near)(int proc_id);

    /* True if a process runs on this node. Two processes never disagree about it. Any thread. NULL: all do. */
    bool (*is_on_node)(int proc_id);

    /* True if a process has been started; and if it has not ended, either. Any thread, from attach on. NULL: all have. */
    bool (*is_started)(int proc_id);
    bool (*is_present)(int proc_id);

    /* True if a process has called close, only answers messages, and waits for the others. Any thread. NULL: not known. */
    bool (*is_parting)(int proc_id);

    /* True if a process has failed since this one was attached. If it is of the same job, client.failed was called or
     * will be. Any thread. NULL: none has that was not announced. */
    bool (*is_failing)(int proc_id);

    /* A short description: name, version, file, support for GPU memory. From open on. NULL: none. */
    void (*describe)(char *text, size_t text_bytes);

    /* True if send and fetch support this kind of memory; host memory is always supported. From open on. */
    bool (*takes)(enum machine_memory memory);

    /* Sends header and data from a port to another process's. Both must stay unchanged until the send is
     * done: then they may be changed (and data that the other side fetches has been fetched). memory is the
     * kind of the data's memory; the header is in host memory. Connects at first use. */
    int (*send)(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
                const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done,
                void *arg);

    /* The same for data that the other side will fetch at once: it goes with the message where asking first
     * would take long (TCP). NULL: use send. */
    int (*push)(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
                const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done,
                void *arg);

    /* Fetches kept data with bytes == NULL, all of it, into a buffer that is large enough; consumes the
     * token. src_proc: the process that holds the data; memory: the kind of the buffer's memory,
     * independent of the sender's. */
    int (*fetch)(int pe_id, int src_proc, void *token, void *buf, size_t n_bytes, enum machine_memory memory,
                 machine_done_fn done, void *arg);

    /* Drops data that was kept, except fetched data. */
    void (*release)(int pe_id, void *token);

    /* Makes progress and calls back; returns the number of events. */
    int (*poll)(int pe_id);

    /* For sleeping: a descriptor that becomes readable when poll has work, provided that arm returned
     * true and poll was not called since; false: poll first, there may be work. fd -1: the port must be
     * polled. */
    int (*fd)(int pe_id);
    bool (*arm)(int pe_id);

    /* True while data is moving to or from the port, which may end soon. NULL: never. */
    bool (*is_moving)(int pe_id);

    /* Reads the port's counters; any thread, while the port's own does nothing. is_left_out[process]
     * excludes the messages of that process (NULL: none). NULL: no counters; then deadlocks are not
     * detected. */
    void (*traffic)(int pe_id, const bool *is_left_out, struct machine_traffic *traffic_out);

    /* Names the processes of other jobs, and of other spawns, for which close waits too: an array by process. NULL: there are
     * none. */
    void (*link)(const bool *is_linked);

    /* Asks the launcher to start programs, as one job, with further variables in their environment (NULL-terminated). Only if
     * place.asks_pmix is set. Any thread; returns before the launcher has answered. */
    void (*start)(const struct machine_program *programs, int n_programs, char *const *env,
                  struct machine_start *start);

    /* Waits for the others to close too, for limit_s seconds at most (0: no limit). If they have not by
     * then, disconnects from the launcher without finalizing, and it treats the end of the process as a
     * failure. */
    void (*close)(double limit_s);

    /* Asks the launcher not to end this process when another one fails, and to report failures. From attach
     * on, once. May take a while. */
    void (*tolerate)(void);

    /* On the port's thread, once for each failed process: ends communication between the port and that
     * process with MACHINE_PEER_FAILED; sends and fetches return that from now on. */
    void (*forget)(int pe_id, int proc_id);

    /* NULL: there is none. */
    const struct machine_rma *rma;

    /* Ends all processes of the job. May return: then the caller has to end its own. */
    void (*abort)(int exit_code, const char *why);

    /* The number of this process's program among those of the job, if the launcher has not said it; else -1. May take a
     * while. From open on. NULL: the launcher always says it. */
    int (*app_num)(void);
};

/* The exported symbol of the shared object, a struct machine. */
#define MACHINE_SYMBOL "machine_ucx_table"

#endif
