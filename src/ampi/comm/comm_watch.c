/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_watch.c: the communicators of this process, for events (object/event.h) and reports.
 *
 * All handles of a PE are watched if one of its ranks wants events, because a message concerns two of them, and if ampi_comm_watches_all. The list has every
 * communicator of the program, from its creation until its memory is freed; the lock guards it and `is_on`.
 */
#include <pthread.h>

#include "ampi/comm/comm.h"
#include "ampi/comm/contexts.h"
#include "ampi/procs/procs.h"
#include "ult/shuffle.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct ampi_comm_shared *ampi_comm_first_watched;
static uint64_t n_watched_ever;
static bool is_on[AMPI_PES_MAX];
bool ampi_comm_watches_all;

struct ampi_prober ampi_prober_watch;

static void watch_handle(struct ampi_comm *comm, bool on)
{
    comm->at_post = (uint8_t)((comm->at_post & ~AMPI_AT_POST_EVENTS) | (on ? AMPI_AT_POST_EVENTS : 0));
    comm->coll_pending =
        (comm->coll_pending & ~AMPI_COLL_PENDING_WATCHED) | (on ? AMPI_COLL_PENDING_WATCHED : 0);
    for (int i = ampi_comm_n_clients;
         i-- > 0;) /* endpoints leave the matching engine before p2p changes it */
        if (ampi_comm_clients[i]->watch)
            ampi_comm_clients[i]->watch(comm, on);
}

/* The handles of a side's members on the PE. */
static void watch_side(struct ampi_comm_side *side, int pe_id, bool on)
{
    const struct ampi_layout *layout = side->layout;
    int part = layout && layout->n_parts > 0 ? layout->part_of_pe[pe_id] : -1;

    for (int i = part < 0 ? 0 : layout->part_first[part]; part >= 0 && i < layout->part_first[part + 1]; i++)
        watch_handle(&side->handles[layout->part_members[i]], on);
}

static void shuffle_side(struct ampi_comm_side *side)
{
    for (int i = 0; i < side->n_ranks; i++)
        if (side->handles[i].owner)
            side->handles[i].at_post |= AMPI_AT_POST_SHUFFLED;
}

static void add(struct ampi_comm_shared *shared)
{
    if (shared->is_hidden)
        return;
    for (int i = 0; (ult_shuffles || ampi_comm_watches_all) && i < 2; i++)
        shuffle_side(&shared->side[i]);
    pthread_mutex_lock(&lock);
    shared->number = ++n_watched_ever;
    shared->next_watched = ampi_comm_first_watched;
    shared->link_watched = &ampi_comm_first_watched;
    if (ampi_comm_first_watched)
        ampi_comm_first_watched->link_watched = &shared->next_watched;
    ampi_comm_first_watched = shared;
    for (int pe_id = 0; pe_id < ampi_job.n_pes; pe_id++)
        for (int i = 0; i < 2 && (is_on[pe_id] || ampi_comm_watches_all); i++)
            watch_side(&shared->side[i], pe_id, true);
    pthread_mutex_unlock(&lock);
}

static void drop(struct ampi_comm_shared *shared)
{
    pthread_mutex_lock(&lock); /* neighbours in the list change the link */
    if (shared->link_watched)
        *shared->link_watched = shared->next_watched;
    if (shared->next_watched)
        shared->next_watched->link_watched = shared->link_watched;
    pthread_mutex_unlock(&lock);
}

void ampi_comm_watch_pe(int pe_id, bool on)
{
    pthread_mutex_lock(&lock);
    is_on[pe_id] = on;
    for (struct ampi_comm_shared *shared = ampi_comm_first_watched; shared; shared = shared->next_watched)
        for (int i = 0; i < 2; i++)
            watch_side(&shared->side[i], pe_id, on || ampi_comm_watches_all);
    pthread_mutex_unlock(&lock);
}

void ampi_comm_each(const struct ampi_rank *rank, void (*visit)(struct ampi_comm *comm, void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    for (struct ampi_comm_shared *shared = ampi_comm_first_watched; shared; shared = shared->next_watched)
        for (int i = 0; i < 2; i++) {
            const struct ampi_layout *layout = shared->side[i].layout;
            int at = layout ? ampi_group_find(layout->group, rank->world_rank) : MPI_UNDEFINED;
            if (at != MPI_UNDEFINED && shared->side[i].handles[at].magic == AMPI_MAGIC_COMM)
                visit(&shared->side[i].handles[at], arg);
        }
    pthread_mutex_unlock(&lock);
}

bool ampi_comm_any_has(int world_rank)
{
    bool is_found = false;

    pthread_mutex_lock(&lock);
    for (struct ampi_comm_shared *shared = ampi_comm_first_watched; shared && !is_found;
         shared = shared->next_watched)
        for (int i = 0; i < 2 && !is_found; i++)
            is_found = shared->side[i].layout &&
                       ampi_group_find(shared->side[i].layout->group, world_rank) != MPI_UNDEFINED;
    pthread_mutex_unlock(&lock);
    return is_found;
}

void ampi_comm_watch_connect(void)
{
    static const struct ampi_comm_client client = {.create = add, .destroy = drop};

    ampi_comm_add_client(&client);
}
