/* SPDX-License-Identifier: BSD-3-Clause
 *
 * entered.c: the collective that a blocked rank waits for, and the members that have not entered it. See report.h.
 *
 * The members of an intercommunicator's two sides enter the same collectives. Members are numbered over both sides, those of the
 * rank's own side first. Members of other processes are known if these were asked (missing.h). Reads and writes of a file have
 * numbers of their own, and wait for members of the same process only. The starts of persistent collectives have numbers of their own;
 * other PEs' are known only while no rank runs.
 */
#include <string.h>

#include "ampi/coll/between/missing.h"
#include "ampi/coll/engine/series.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/io/access.h"
#include "ampi/io/file.h"
#include "ampi/io/two_phase.h"
#include "ampi/job/job.h"
#include "ampi/job/report.h"
#include "base/log.h"

/* ---- Members ---- */

static int count_members(const struct ampi_entered *entered)
{
    const struct ampi_comm *comm = entered->comm;

    return comm->local->n_ranks + (comm->shared->is_inter ? comm->peer->n_ranks : 0);
}

/* The side of member i, which becomes its rank there. */
static const struct ampi_comm_side *side_of(const struct ampi_entered *entered, int *i)
{
    const struct ampi_comm *comm = entered->comm;

    if (*i < comm->local->n_ranks)
        return comm->local;
    *i -= comm->local->n_ranks;
    return comm->peer;
}

/* NULL: it belongs to another process. A freed handle lasts as long as the communicator. */
static const struct ampi_comm *handle_of(const struct ampi_comm_side *side, int i)
{
    const struct ampi_comm *handle = &side->handles[i];

    return side->layout->pe_of[i] != AMPI_PE_REMOTE ? handle : NULL;
}

static bool has_entered(const struct ampi_entered *entered, const struct ampi_comm *handle)
{
    if (entered->is_access)
        return ampi_two_phase_has_started(handle->shared->file->buffers, handle->rank, entered->seq);
    if (entered->series > 0)
        return !ampi_coll_series_lacks(handle, entered->series, entered->seq);
    return (int32_t)(handle->coll_seq - entered->seq) > 0;
}

/* Says whether member i is known not to have entered, and who it is. */
static bool is_missing(const struct ampi_entered *entered, int i, struct ampi_coll_absent *absent_out)
{
    const struct ampi_comm_side *side = side_of(entered, &i);
    const struct ampi_comm *handle = handle_of(side, i);
    const struct ampi_coll_absent *others =
        handle || entered->is_access ? NULL : ampi_coll_missing(side, entered->series, entered->seq);

    if (handle && !has_entered(entered, handle))
        *absent_out =
            (struct ampi_coll_absent){i, ampi_rank_number(handle->owner), ampi_rank_spawn(handle->owner)};
    else if (others && others[i].member >= 0)
        *absent_out = others[i];
    else
        return false;
    return true;
}

/* The first missing member, from number i on; -1: none. */
static int next_missing(const struct ampi_entered *entered, int i, struct ampi_coll_absent *absent_out)
{
    for (int n = count_members(entered); i < n; i++)
        if (is_missing(entered, i, absent_out))
            return i;
    return -1;
}

int ampi_entered_first_missing(const struct ampi_entered *entered)
{
    struct ampi_coll_absent absent;
    int i = next_missing(entered, 0, &absent);
    const struct ampi_comm_side *side = side_of(entered, &i);

    return ampi_group_world_rank(side->layout->group, i);
}

/* ---- The collective ---- */

/* Finds the oldest collective of a communicator that its owner has entered, but others have not. */
static void find_entered(struct ampi_comm *comm, void *arg)
{
    struct ampi_entered *out = arg;
    struct ampi_coll_absent absent;

    for (unsigned back = AMPI_COLL_SLOTS; back > 0 && !out->comm; back--) {
        struct ampi_entered one = {comm, 0, comm->coll_seq - back, false};
        if (back <= comm->coll_seq && comm->coll_pending >> one.seq % AMPI_COLL_SLOTS & 1 &&
            next_missing(&one, 0, &absent) >= 0)
            *out = one;
    }
}

/* The same for reads and writes of the file that owns the communicator. */
static void find_access(struct ampi_comm *comm, void *arg)
{
    struct ampi_entered *out = arg, one = {comm, 0, 0, true};
    struct ampi_coll_absent absent;

    if (!out->comm && comm->shared->file &&
        ampi_two_phase_find_waiting(comm->shared->file->buffers, comm->rank, &one.seq) &&
        next_missing(&one, 0, &absent) >= 0)
        *out = one;
}

/* The same for a persistent collective. */
static void find_started(const struct ampi_request *request, struct ampi_entered *out)
{
    struct ampi_entered one = {request->comm, ampi_coll_number_of(request), ampi_coll_args_of(request)->seq,
                               false};
    struct ampi_coll_absent absent;

    if (next_missing(&one, 0, &absent) >= 0)
        *out = one;
}

static void find_of_request(const struct ampi_request *request, bool is_quiet, struct ampi_entered *out)
{
    if (ampi_coll_number_of(request) > 0 && is_quiet)
        find_started(request, out);
    else if (ampi_coll_number_of(request) == 0 && request->kind->is_collective && request->comm)
        find_entered(request->comm, out);
    else if (ampi_io_collective_comm(request))
        find_access(ampi_io_collective_comm(request), out);
}

struct ampi_entered ampi_entered_of(const struct ult *u, bool is_quiet)
{
    struct ampi_request *const *wait_for = u->wait_for;
    const struct ampi_coll_args *args = u->collective;
    struct ampi_entered found = {NULL, 0, 0, false};

    if (args)
        find_entered(args->comm, &found);
    else if (u->n_wait_for == 0 && u->call && strncmp(u->call, "MPI_File", 8) == 0)
        ampi_comm_each(u->owner, find_access, &found);
    for (int i = 0; i < u->n_wait_for && !found.comm; i++)
        if (wait_for[i] && ampi_request_is_active(wait_for[i]))
            find_of_request(wait_for[i], is_quiet, &found);
    return found;
}

/* ---- Lines ---- */

void ampi_entered_add_comm(struct ampi_line *line, const struct ampi_entered *entered, const struct ult *u)
{
    const struct ampi_comm *comm = entered->comm;

    if (entered->is_access && u->call && strcmp(u->call, "MPI_File_close") == 0)
        ampi_line_add(line, " in a collective access that is not complete");
    if (!u->collective || !comm || comm == comm->owner->world || !u->call ||
        strncmp(u->call, "MPI_Win", 7) == 0 || strncmp(u->call, "MPI_File", 8) == 0 ||
        strcmp(u->call, "MPI_Finalize") == 0)
        return;
    if (comm->shared->is_inter)
        ampi_line_add(line, " on %s of sizes %d and %d", comm->name ? comm->name : "an intercommunicator",
                      comm->shared->side[0].n_ranks, comm->shared->side[1].n_ranks);
    else
        ampi_line_add(line, " on %s of size %d", comm->name ? comm->name : "a communicator",
                      comm->local->n_ranks);
}

/* Many ranks wait for the same members: the text is remembered during a report. */
static __thread struct {
    const struct ampi_comm_shared *shared; /* NULL: none */
    struct ampi_entered entered;
    char text[400];
} known;

void ampi_entered_begin(void)
{
    known.shared = NULL;
}

/* Writes the missing members that a spawn has made, and returns the number of the next one that has made some; 0: none. */
static int write_missing(const struct ampi_entered *entered, int spawn, struct base_text *out)
{
    size_t n_bytes = (size_t)count_members(entered) * sizeof(int);
    struct ampi_line_group missing = {.ranks = base_malloc(n_bytes, "a report")};
    struct ampi_coll_absent absent;
    int next = 0;

    for (int i = next_missing(entered, 0, &absent); i >= 0; i = next_missing(entered, i + 1, &absent)) {
        if (absent.spawn == spawn)
            missing.ranks[missing.n_ranks++] = absent.number;
        else if (absent.spawn > spawn && (next == 0 || absent.spawn < next))
            next = absent.spawn;
    }
    if (missing.n_ranks > 0) {
        base_text_add(out, out->len > 0 ? ", " : "");
        ampi_lines_write_ranks(&missing, out);
        if (spawn > 0) {
            base_text_add(out, " (spawn ");
            base_text_add_number(out, spawn);
            base_text_add(out, ")");
        }
    }
    free(missing.ranks);
    return next;
}

void ampi_entered_add_missing(struct ampi_line *line, const struct ampi_entered *entered)
{
    struct base_text out;
    int spawn = 0;

    if (!entered->comm)
        return;
    if (known.shared != entered->comm->shared || known.entered.seq != entered->seq ||
        known.entered.series != entered->series || known.entered.is_access != entered->is_access) {
        known.shared = entered->comm->shared;
        known.entered = *entered;
        out = base_text_in(known.text, sizeof known.text);
        do
            spawn = write_missing(entered, spawn, &out);
        while (spawn > 0);
    }
    ampi_line_add(line, "; not entered by %s", known.text);
}
