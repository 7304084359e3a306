/* SPDX-License-Identifier: BSD-3-Clause
 *
 * registry.h: ports and published names of the job, or of its universe (MPI 5.0, section 12.4).
 *
 * A port belongs to the process that opened it, its home: connects and accepts meet there, in order, and each of the
 * two roots gets the other's rank and a number of this connection. Published names are in process 0, in a universe in files
 * (names.c). Names of ports hold a random number, so that only ranks that were given a name can use it. Ranks of other jobs
 * can use it only if both jobs belong to the universe.
 */
#ifndef AMPI_REGISTRY_H
#define AMPI_REGISTRY_H

#include "ampi/p2p/request.h"

enum ampi_registry_op {
    AMPI_REGISTRY_CLOSE = 1, /* of a port. Waiting connects and accepts end with MPI_ERR_PORT */
    AMPI_REGISTRY_CHECK,     /* succeeds if the port is open */
    AMPI_REGISTRY_ACCEPT,    /* waits for a connect */
    AMPI_REGISTRY_CONNECT,   /* waits for an accept */
    AMPI_REGISTRY_WITHDRAW,  /* ends an accept or connect that waits, with MPI_ERR_PENDING; internal */
    AMPI_REGISTRY_PUBLISH,   /* of a name; MPI_ERR_SERVICE: it is published already */
    AMPI_REGISTRY_UNPUBLISH, /* MPI_ERR_SERVICE: it is not published, with this port */
    AMPI_REGISTRY_LOOKUP     /* MPI_ERR_NAME: it is not published */
};

/* A call of the registry; on the caller's stack. */
struct ampi_registry_call {
    enum ampi_registry_op op;
    const char *port;    /* name of the port; NULL: LOOKUP */
    const char *service; /* the published name; NULL: none */
    double timeout_s;    /* longest wait, in seconds; ACCEPT, CONNECT: negative: no limit. LOOKUP: none */

    int error;                      /* the result */
    int peer_world_rank;            /* ACCEPT, CONNECT: the other root */
    char answer[MPI_MAX_PORT_NAME]; /* ACCEPT, CONNECT: the name of the connection; LOOKUP: the port */

    int home;                        /* the process that serves the call */
    struct ampi_registry_call *next; /* next in the PE's list of calls that wait for another process */
    struct ampi_request request;     /* the caller waits on it */
    struct ult *waiter;              /* the caller's, which may sleep meanwhile */
    struct ult_wakeup wakeup;        /* carries the result from another PE */
};

/* Opens a port of this process and writes its name, which fits MPI_MAX_PORT_NAME. False: the kernel
 * gives no random number. Never switches. */
bool ampi_registry_open_port(char *name_out) BASE_MUST_CHECK;

/* Makes a call; returns its error class. MPI_ERR_PORT: the port is not open, or its process has ended; MPI_ERR_PENDING: the time is over,
 * MPI_ERR_PROC_ABORTED: the process that serves the call has failed. May switch. */
int ampi_registry_run(struct ampi_registry_call *call);

/* While the root of a connection waits: between the two calls its process is not reported as blocked for ever if ranks of
 * other jobs may come. begin_wait returns what end_wait needs. */
bool ampi_registry_begin_wait(enum ampi_registry_op op, const char *port) BASE_MUST_CHECK;
void ampi_registry_end_wait(bool is_waiting);

/* The reason why a port is not open: "... is not an open port of this job". */
void ampi_registry_explain(const char *port, char *text, size_t text_bytes);

/* ---- Between registry.c and names.c ---- */

/* In a universe: PUBLISH, UNPUBLISH or LOOKUP. MPI_ERR_NO_SPACE: the file cannot be written; MPI_ERR_PENDING: another process has
 * the lock, and the time is over. May switch. */
int ampi_names_run(struct ampi_registry_call *call);

/* False if the port's process has ended. True for names that are not ports of this universe. */
bool ampi_registry_is_alive(const char *port);

/* Registers this room's functions with lower rooms (job/connect.c). */
void ampi_registry_connect(void);

#endif
