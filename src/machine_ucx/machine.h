/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine.h: the seam between MPI and what connects processes. A machine moves bytes between PEs of different
 * processes and calls back; it knows nothing of ranks, tags or communicators.
 *
 * A machine is one table of functions (struct machine). This folder's is a shared object of its own, which is
 * opened when a launcher started the process as one of several; a job of one process never sees it. Another
 * machine is another table: the unit tests have two in memory (tests/unit/machine_loopback.h, which sends to
 * itself, and machine_staged.h, which lets the test be the other process).
 *
 * Life of a machine:
 *      attach      finds out from the launcher which process this is
 *      open        makes one endpoint of communication ("port") per PE and publishes their addresses; returns
 *                  when all processes have (one fence, no exchange of addresses: those are looked up at
 *                  first use)
 *      send, poll, fetch, release, ...
 *      close       completes what is under way, waits for the other processes, and disconnects
 *      abort       ends all processes
 *
 * Rules:
 *   1. A port is used by its PE's thread alone. Only attach, open and close concern all ports, and are called
 *      when no other thread uses the machine. abort may be called by any thread.
 *   2. Messages between two ports may overtake each other: who needs an order numbers them.
 *   3. handle and done callbacks run inside poll (done also inside forget and close) on the port's thread.
 *      They may call send, fetch and release of this port, but not poll.
 *   4. A process that is lost stays lost. Whoever finds out first says so, once, through client->lost; each
 *      PE then calls forget, and from there on nothing of that process reaches the PE's buffers.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a header, at most. */
#define MACHINE_HEADER_MAX 64

/* Results of operations, and what done callbacks get. */
enum machine_result {
    MACHINE_DONE = 0,    /* complete; done is not called if send or fetch return this */
    MACHINE_PENDING = 1, /* under way; done will be called */
    MACHINE_LOST = -1,   /* the other process cannot be reached, or is gone */
    MACHINE_FAILED = -2, /* something else; the machine has logged what */
};

/* The kind of memory that data lies in. */
enum machine_memory {
    MACHINE_HOST = 0,
    MACHINE_CUDA = 1,         /* a device's */
    MACHINE_CUDA_MANAGED = 2, /* the driver moves it to and fro */
};

/* Which process this is. */
struct machine_place {
    int proc_id;      /* 0 .. n_procs - 1 */
    int n_procs;      /* of the job */
    int node_first;   /* the lowest process of this node: names the node */
    int node_index;   /* this process among those of this node */
    int node_n_procs; /* processes of the job on this node */
};

/* The data of a message that has come. Valid while handle runs, and from then on until release or fetch if
 * handle returned true. */
struct machine_data {
    const void *bytes; /* the data; NULL: it is still at the sender, use fetch */
    size_t n_bytes;
    void *token;   /* for release and fetch */
    bool can_keep; /* handle may return true; always so if bytes is NULL */
};

/* A send or fetch is over: MACHINE_DONE, or what went wrong. */
typedef void (*machine_done_fn)(void *arg, int result);

/* Functions that the machine's user provides. */
struct machine_client {
    /* A message for a port. Returns true if the data is kept; false: the machine may drop it. */
    bool (*handle)(int pe_id, const void *header, size_t header_bytes, const struct machine_data *data);
    /* A process was found to be lost; called once for each, by any thread. Must not call the machine. May be
     * NULL. */
    void (*lost)(int proc_id, const char *why);
    /* Which process a message comes from, for the counts of traffic. NULL: nobody asks for them. */
    int (*source)(const void *header);
};

/* Counters of a port. */
struct machine_traffic {
    uint64_t n_sent;     /* messages that it has taken to send */
    uint64_t n_handled;  /* messages that it has given to handle */
    uint64_t n_fetching; /* fetches under way */
};

struct machine {
    const char *name;

    /* false: no launcher, or it does not answer; *error_out (static) says why. */
    bool (*attach)(struct machine_place *place_out, const char **error_out);
    bool (*open)(int n_pes, const struct machine_client *client, const char **error_out);

    /* How many PEs a process has; looked up at the first call for it, which may take a while. -1: it cannot
     * be found. */
    int (*n_pes_of)(int proc_id);

    /* In a few words, what it is: name, version, file, whether it takes GPUs' memory. From open on.
     * NULL: nothing to say. */
    void (*describe)(char *text, size_t text_bytes);

    /* True if send and fetch take data in such memory; host memory is always taken. From open on. */
    bool (*takes)(enum machine_memory memory);

    /* Sends header and data from a port to another process's. Both must stay unchanged until the send is
     * done, which says that they may be changed again (and, for data that was fetched by the other side, that
     * it was). memory says where the data lies; the header lies in host memory. Connects at first use. */
    int (*send)(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
                const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done,
                void *arg);

    /* Fetches data that was kept with bytes == NULL, all of it, into a buffer with room for it; uses up the
     * token. src_proc: where it lies; memory says where the buffer lies, whatever the sender's was. */
    int (*fetch)(int pe_id, int src_proc, void *token, void *buf, size_t n_bytes, enum machine_memory memory,
                 machine_done_fn done, void *arg);

    /* Drops data that was kept, fetched data excepted. */
    void (*release)(int pe_id, void *token);

    /* Moves things on and calls back; returns how many events there were. */
    int (*poll)(int pe_id);

    /* For sleeping: a descriptor that becomes readable when poll has something to do, provided that arm
     * returned true and poll was not called since; false: poll first, there may be something. fd -1: the port
     * must be polled. */
    int (*fd)(int pe_id);
    bool (*arm)(int pe_id);

    /* True while data is on its way to or from the port, which may be over soon. NULL: never. */
    bool (*is_moving)(int pe_id);

    /* By any thread, while the port's own does nothing. is_left_out says by process whose messages do not
     * count (NULL: nobody's). NULL: not counted; then nobody notices deadlocks. */
    void (*traffic)(int pe_id, const bool *is_left_out, struct machine_traffic *traffic_out);

    /* Waits for the others to close too, for so many seconds at most (0: no limit). If they have not by then
     * the launcher is left without a word, and takes the end of the process for a failure. */
    void (*close)(double limit_s);

    /* The process would rather go on than end when another one is lost: asks the launcher for that, and to be
     * told of losses. May take a while; the second call does nothing. */
    void (*tolerate)(void);

    /* On the port's thread, once for each process that is lost: ends what is under way between the port and
     * that process with MACHINE_LOST; sends and fetches return that from now on. */
    void (*forget)(int pe_id, int proc_id);

    /* Ends all processes of the job. May return: then the caller has to end its own. */
    void (*abort)(int exit_code, const char *why);
};

/* The symbol that the shared object exports, a struct machine. */
#define MACHINE_SYMBOL "machine_ucx_table"

#endif
