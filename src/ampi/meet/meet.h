/* SPDX-License-Identifier: BSD-3-Clause
 *
 * meet.h: meetings of ranks that need not share a communicator.
 *
 * Communicators are also created by ranks that share none, or by a part of one's members. They meet under a
 * key: the function, the group, and the program's values that distinguish several meetings. The last rank
 * to arrive builds for all. If members are in several processes, each process's members meet first. The
 * first member's process coordinates: it collects arrivals and broadcasts completion; then each process
 * builds for its own members.
 */
#ifndef AMPI_MEET_H
#define AMPI_MEET_H

#include "ampi/comm/group.h"
#include "ampi/p2p/request.h"

/* Data of a member for all processes. */
struct ampi_meet_payload {
    const void *bytes;
    size_t n_bytes;
};

/* A member's state in a meeting; on its stack. */
struct ampi_meet {
    /* The key, equal for all members. */
    const char *function;     /* its name; compared as a string */
    struct ampi_group *group; /* the members */
    uint64_t context_id;      /* of the communicator that the tags belong to; 0: none */
    int tag;
    const char *stringtag; /* NULL: none */

    /* Run once in each process; may not switch. Members of other processes are NULL. */
    void (*build)(struct ampi_meet **members, int n_members);
    int member;                               /* the caller's rank in the group */
    void *give;                               /* for build: the member's data, within the process */
    struct ampi_meet_payload payload;         /* for build: the member's data for all processes */
    const struct ampi_meet_payload *payloads; /* in build: all members' payloads, by rank in the group */
    uint64_t new_context_id; /* in build: for a communicator over these processes; 0: one process */
    void *got;               /* set by build: the member's result */
    int error;               /* set by build */

    struct ampi_request request; /* the member waits on it */
    struct ult_wakeup wakeup;    /* delivers the completion from the PE of the last member */
    struct ampi_rank *owner;
};

/* Waits until all members of the group have arrived; returns me->error, or MPI_ERR_PROC_ABORTED if one has
 * failed. May switch. */
int ampi_meet_run(struct ampi_meet *me);

/* ---- Between meet.c and meet/meet_procs.c ---- */

/* All members of this process have arrived (the others are NULL): notifies the first member's process. */
void ampi_meet_announce(struct ampi_meet *const *members, int n_members, uint64_t number);

/* The members of all processes have arrived. On the PE that called ampi_meet_announce. */
void ampi_meet_finish(uint64_t number, uint64_t new_context_id, const struct ampi_meet_payload *payloads);

/* struct ampi_procs_client: the members of a meeting may have freed all communicators that they shared. */
bool ampi_meet_is_linked(bool *is_linked);

/* For reports, while no rank runs: calls visit for each incomplete meeting, with the table's lock. key: of a member; members: as in
 * build, NULL also for those that have not arrived. */
void ampi_meet_each(void (*visit)(const struct ampi_meet *key, struct ampi_meet *const *members, void *arg),
                    void *arg);

/* The same: the numbers of members of other processes that have not arrived, if these were asked; returns how many. key: as above. */
int ampi_meet_absent(const struct ampi_meet *key, const int **numbers_out);

/* Processes have failed: meetings with their ranks end with MPI_ERR_PROC_ABORTED. Any PE. */
void ampi_meet_handle_failure(void);

/* Registers this room's functions with lower rooms (job/connect.c). */
void ampi_meet_connect(void);

#endif
