/* SPDX-License-Identifier: BSD-3-Clause
 *
 * meet.h: meetings of ranks that need no communicator in common.
 *
 * Communicators are also created by ranks that share none, or by a part of one's members. They meet under a
 * key: the function, the group, and what the program gave to tell several meetings apart. Whoever comes last
 * builds for all. Where members live in several processes, each process's members meet first; the process of
 * the first member of the group is told of them all, and tells all processes when everybody has come: then
 * each builds for its own members.
 */
#ifndef AMPI_MEET_H
#define AMPI_MEET_H

#include "ampi/comm/group.h"
#include "ampi/p2p/request.h"

/* Bytes that a member brings for all processes. */
struct ampi_meet_gift {
    const void *bytes;
    size_t n_bytes;
};

/* A member's part in a meeting; lives on its stack. */
struct ampi_meet {
    /* The key, the same at all members. */
    const char *function;     /* its name; compared as a string */
    struct ampi_group *group; /* who meets */
    uint64_t context_id;      /* of the communicator whose tags these are; 0: none */
    int tag;
    const char *stringtag; /* NULL: none */

    /* Run once in each process; may not switch. Members of other processes are NULL. */
    void (*build)(struct ampi_meet **members, int n_members);
    int member;                         /* the caller's rank in the group */
    void *give;                         /* for build: what this member brings, within the process */
    struct ampi_meet_gift gift;         /* for build: what it brings for all processes */
    const struct ampi_meet_gift *gifts; /* in build: all members' gifts, by rank in the group */
    uint64_t new_context_id; /* in build: for a communicator over these processes; 0: one process */
    void *got;               /* set by build: what this member gets */
    int error;               /* set by build */

    struct ampi_request request; /* what the member waits on */
    struct ult_note note;        /* brings the completion from the PE of the last */
    struct ampi_rank *owner;
};

/* Waits until all members of the group have come; returns me->error, MPI_ERR_PROC_ABORTED if one is lost. May
 * switch. */
int ampi_meet_run(struct ampi_meet *me);

/* ---- Between meet.c and meet/meet_procs.c ---- */

/* All members of this process have come (the others are NULL): tells the first member's process. */
void ampi_meet_tell(struct ampi_meet *const *members, int n_members, uint64_t number);

/* The members of all processes have come. On the PE that called ampi_meet_tell. */
void ampi_meet_finish(uint64_t number, uint64_t new_context_id, const struct ampi_meet_gift *gifts);

/* Processes are lost: meetings with their ranks end with MPI_ERR_PROC_ABORTED. Any PE. */
void ampi_meet_lose(void);

/* Gives the rooms below what they need of this one (job/connect.c). */
void ampi_meet_connect(void);

#endif
