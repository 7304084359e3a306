/* SPDX-License-Identifier: BSD-3-Clause
 *
 * meet.h: meetings of ranks that need no communicator in common.
 *
 * Communicators are also created by ranks that share none, or by a part of one's members. They meet under a
 * key: the function, the group, and what the program gave to tell several meetings apart. Whoever comes last
 * builds for all.
 */
#ifndef AMPI_MEET_H
#define AMPI_MEET_H

#include "ampi/group.h"
#include "ampi/request.h"

/* What one member brings; lives on its stack. */
struct ampi_meet {
    /* The key, the same at all members. */
    const char *function;     /* its name; compared as a string */
    struct ampi_group *group; /* who meets */
    uint64_t context_id;      /* of the communicator whose tags these are; 0: none */
    int tag;
    const char *stringtag; /* NULL: none */

    void (*build)(struct ampi_meet **members, int n_members); /* run once, by the last; may not switch */
    int member;                                               /* the caller's rank in the group */
    void *give;                                               /* for build: what this member brings */
    void *got;                                                /* set by build: what this member gets */
    int error;                                                /* set by build */

    struct ampi_request request; /* what the member waits on */
    struct ult_note note;        /* brings the completion from the PE of the last */
    struct ampi_rank *owner;
};

/* Waits until all members of the group have come; returns me->error. May switch. */
int ampi_meet_run(struct ampi_meet *me);

#endif
