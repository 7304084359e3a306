/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_api.c: sessions and process sets (MPI 5.0, section 11.3).
 *
 * There are two process sets, mpi://WORLD and mpi://SELF. A rank is INITIALIZED while it has a session or the
 * world model is initialised (rank.h). Sessions' buffers for buffered sends are in p2p/.
 */
#include "ampi/object/session.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ampi/object/error.h"
#include "ampi/object/errhandler.h"
#include "ampi/object/gate.h"
#include "ampi/comm/group.h"
#include "ampi/object/info.h"
#include "ampi/datatype/program_memory.h"
#include "ampi/job/job.h"
#include "ampi/p2p/bsend_buffer.h"
#include "ampi/tool/stats.h"
#include "ampi/tool/trace.h"
#include "base/log.h"

static const char *const psets[] = {"mpi://WORLD", "mpi://SELF"};

static int raise_null(struct ampi_session *session, const char *argument)
{
    MPI_Session handle = (MPI_Session)session;

    return ampi_raise_on(session->errhandler, &handle, MPI_ERR_ARG, "%s is NULL", argument);
}

static int raise_info(struct ampi_session *session, MPI_Info info)
{
    MPI_Session handle = (MPI_Session)session;

    return ampi_raise_on(session->errhandler, &handle, MPI_ERR_INFO, "%p is not a valid info object",
                         (void *)info);
}

/* ---- Creation and end ---- */

static const struct {
    int level;
    const char *name;
} levels[] = {{MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"},
              {MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"},
              {MPI_THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"},
              {MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"}};

/* The requested level, as an index of `levels`; MPI_THREAD_FUNNELED if the name is unknown. Without a
 * request, it is the level of the world model if that is initialized, else MPI_THREAD_MULTIPLE, because
 * MPI_THREAD_SINGLE would restrict other sessions of the program (MPI 5.0, section 11.3.1). */
static size_t provided_level(const struct ampi_rank *self, const struct ampi_info *info)
{
    const char *wanted = ampi_info_get(info, "thread_level");
    int level = self->world_state == AMPI_RANK_INITIALIZED ? self->thread_level : MPI_THREAD_MULTIPLE;

    for (size_t i = 0; i < BASE_COUNT(levels); i++)
        if (wanted ? strcmp(wanted, levels[i].name) == 0 : level == levels[i].level)
            return i;
    return 1;
}

/* For the calling rank. */
static int create_session(struct ampi_rank *self, MPI_Info info, MPI_Errhandler errhandler,
                          MPI_Session *session)
{
    struct ampi_errhandler *handler = ampi_errhandler_of(errhandler);
    const struct ampi_info *hints = ampi_info_of(self, info);
    MPI_Session none = MPI_SESSION_NULL;
    struct ampi_session *object;
    size_t level;

    if (!handler || !ampi_errhandler_fits(handler, AMPI_ERRHANDLER_SESSION))
        return ampi_raise_self(MPI_ERR_ERRHANDLER, "%p is not a valid error handler for sessions",
                               (void *)errhandler);
    if (!hints && info != MPI_INFO_NULL)
        return ampi_raise_on(handler, &none, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    if (!session)
        return ampi_raise_on(handler, &none, MPI_ERR_ARG, "session is NULL");
    object = base_calloc(1, sizeof *object, "a session");
    object->magic = AMPI_MAGIC_SESSION;
    object->errhandler = handler;
    ampi_errhandler_ref(handler);
    ampi_errhandler_chosen(handler);
    level = provided_level(self, hints);
    object->thread_level = levels[level].level;
    object->info = ampi_info_create();
    ampi_info_set(object->info, "thread_level", levels[level].name);
    if (ampi_info_get(hints, "mpi_memory_alloc_kinds"))
        ampi_info_set(object->info, "mpi_memory_alloc_kinds", ampi_info_get(hints, "mpi_memory_alloc_kinds"));
    ampi_program_memory_add_kinds(object->info);
    ampi_gate_set_level(self, object->thread_level);
    ampi_rank_open_session(self);
    *session = (MPI_Session)object;
    ampi_thread_start_progress();
    ampi_trace_begin(self);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Session_init);
int PMPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session)
{
    bool is_rank = ampi_rank_or_move() != NULL; /* the thread that starts MPI becomes the rank */
    struct ult *entered =
        is_rank ? NULL : ampi_thread_start_mpi("MPI_Session_init", __builtin_return_address(0));
    int error;

    if (!is_rank && !entered)
        return ampi_raise_self(MPI_ERR_OTHER, "called on a thread that does not run a rank");
    error = create_session(ampi_enter_any_time("MPI_Session_init"), info, errhandler, session);
    ampi_gate_leave(entered);
    return error;
}

AMPI_EXPORT(Session_finalize);
int PMPI_Session_finalize(MPI_Session *session)
{
    struct ampi_rank *self = ampi_enter("MPI_Session_finalize");
    struct ampi_session *object;

    if (!session)
        return ampi_raise_self(MPI_ERR_ARG, "session is NULL");
    object = ampi_session_of(*session);
    if (!object)
        return ampi_session_raise_invalid(*session);
    ampi_bsend_flush(object->bsend); /* its remaining messages end with the session */
    object->magic = AMPI_MAGIC_DEAD;
    ampi_bsend_release(object->bsend);
    ampi_errhandler_unref(object->errhandler);
    ampi_info_destroy(object->info);
    free(object);
    *session = MPI_SESSION_NULL;
    ampi_rank_close_session(self);
    ampi_stats_end_session(self);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Session_get_info);
int PMPI_Session_get_info(MPI_Session session, MPI_Info *info_used)
{
    struct ampi_session *object;
    struct ampi_info *used;

    ampi_enter("MPI_Session_get_info");
    object = ampi_session_of(session);
    if (!object)
        return ampi_session_raise_invalid(session);
    if (!info_used)
        return raise_null(object, "info_used");
    used = ampi_info_dup(object->info);
    *info_used = (MPI_Info)used;
    return MPI_SUCCESS;
}

/* ---- Process sets ---- */

AMPI_EXPORT(Session_get_num_psets);
int PMPI_Session_get_num_psets(MPI_Session session, MPI_Info info, int *npset_names)
{
    struct ampi_rank *self = ampi_enter("MPI_Session_get_num_psets");
    struct ampi_session *object = ampi_session_of(session);

    if (!object)
        return ampi_session_raise_invalid(session);
    if (info != MPI_INFO_NULL && !ampi_info_of(self, info))
        return raise_info(object, info);
    if (!npset_names)
        return raise_null(object, "npset_names");
    *npset_names = (int)BASE_COUNT(psets);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Session_get_nth_pset);
int PMPI_Session_get_nth_pset(MPI_Session session, MPI_Info info, int n, int *pset_len, char *pset_name)
{
    struct ampi_rank *self = ampi_enter("MPI_Session_get_nth_pset");
    struct ampi_session *object = ampi_session_of(session);

    if (!object)
        return ampi_session_raise_invalid(session);
    if (info != MPI_INFO_NULL && !ampi_info_of(self, info))
        return raise_info(object, info);
    if (!pset_len || (*pset_len > 0 && !pset_name))
        return raise_null(object, pset_len ? "pset_name" : "pset_len");
    if (n < 0 || n >= (int)BASE_COUNT(psets) || *pset_len < 0)
        return ampi_raise_on(object->errhandler, &session, MPI_ERR_ARG, "n is %d and *pset_len is %d", n,
                             *pset_len);
    if (*pset_len > 0)
        snprintf(pset_name, (size_t)*pset_len, "%s", psets[n]);
    *pset_len = (int)strlen(psets[n]) + 1;
    return MPI_SUCCESS;
}

/* The index of the set with this name, in any case; raises MPI_ERR_ARG and returns -1 if there is none. */
static int find_pset(struct ampi_session *session, const char *pset_name)
{
    MPI_Session handle = (MPI_Session)session;

    for (int i = 0; pset_name && i < (int)BASE_COUNT(psets); i++) {
        if (strcasecmp(psets[i], pset_name) == 0)
            return i;
    }
    ampi_raise_on(session->errhandler, &handle, MPI_ERR_ARG, "there is no process set \"%s\"",
                  pset_name ? pset_name : "(NULL)");
    return -1;
}

AMPI_EXPORT(Session_get_pset_info);
int PMPI_Session_get_pset_info(MPI_Session session, const char *pset_name, MPI_Info *info)
{
    struct ampi_session *object;
    struct ampi_rank *self;
    struct ampi_info *facts;
    char size[16];
    int pset;

    self = ampi_enter("MPI_Session_get_pset_info");
    object = ampi_session_of(session);
    if (!object)
        return ampi_session_raise_invalid(session);
    if (!info)
        return raise_null(object, "info");
    pset = find_pset(object, pset_name);
    if (pset < 0)
        return MPI_ERR_ARG;
    snprintf(size, sizeof size, "%d", pset == 0 ? ampi_rank_world_size(self) : 1);
    facts = ampi_info_create();
    ampi_info_set(facts, "mpi_size", size);
    *info = (MPI_Info)facts;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Group_from_session_pset);
int PMPI_Group_from_session_pset(MPI_Session session, const char *pset_name, MPI_Group *newgroup)
{
    struct ampi_rank *self = ampi_enter("MPI_Group_from_session_pset");
    struct ampi_session *object = ampi_session_of(session);
    struct ampi_group *group;
    int pset;

    if (!object)
        return ampi_session_raise_invalid(session);
    if (!newgroup)
        return raise_null(object, "newgroup");
    pset = find_pset(object, pset_name);
    if (pset < 0)
        return MPI_ERR_ARG;
    if (pset != 0)
        group = ampi_group_create_range(self->world_rank, 1, 1);
    else if (self->spawned && self->spawned == ampi_job.spawned) /* perhaps in several processes */
        group = ampi_group_create_list(ampi_job.world_ranks, self->spawned->n_ranks);
    else
        group =
            ampi_group_create_range(self->world_rank - ampi_rank_number(self), 1, ampi_rank_world_size(self));
    *newgroup = ampi_group_handle_create(group, object);
    return MPI_SUCCESS;
}

/* ---- Error handlers ---- */

AMPI_EXPORT(Session_set_errhandler);
int PMPI_Session_set_errhandler(MPI_Session session, MPI_Errhandler errhandler)
{
    struct ampi_session *object;
    const char *misfit;

    ampi_enter("MPI_Session_set_errhandler");
    object = ampi_session_of(session);
    if (!object)
        return ampi_session_raise_invalid(session);
    misfit = ampi_errhandler_misfit(errhandler, AMPI_ERRHANDLER_SESSION);
    return misfit ? ampi_raise_on(object->errhandler, &session, MPI_ERR_ERRHANDLER, "%s", misfit)
                  : ampi_errhandler_set(&object->errhandler, errhandler, AMPI_ERRHANDLER_SESSION);
}

AMPI_EXPORT(Session_get_errhandler);
int PMPI_Session_get_errhandler(MPI_Session session, MPI_Errhandler *errhandler)
{
    struct ampi_session *object;

    ampi_enter("MPI_Session_get_errhandler");
    object = ampi_session_of(session);
    if (!object)
        return ampi_session_raise_invalid(session);
    if (!errhandler)
        return raise_null(object, "errhandler");
    return ampi_errhandler_get(&object->errhandler, &ampi_errors_are_fatal, errhandler);
}

AMPI_EXPORT(Session_call_errhandler);
int PMPI_Session_call_errhandler(MPI_Session session, int errorcode)
{
    struct ampi_session *object;

    ampi_enter_any_time("MPI_Session_call_errhandler");
    object = ampi_session_of(session);
    if (!object)
        return ampi_session_raise_invalid(session);
    ampi_raise_on(object->errhandler, &session, errorcode,
                  "the program called its error handler with error code %d", errorcode);
    return MPI_SUCCESS;
}
