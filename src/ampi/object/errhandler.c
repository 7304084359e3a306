/* SPDX-License-Identifier: BSD-3-Clause
 *
 * errhandler.c: error handler objects and attaching them (MPI 5.0, section 9.3).
 *
 * Owns the three predefined handlers, and creates and frees users' handlers. error.c calls them. Windows
 * and files attach handlers with the functions of errhandler.h.
 */
#include "ampi/object/errhandler.h"

#include <strings.h>

#include "ampi/object/error.h"
#include "ampi/object/rank.h"
#include "base/log.h"

struct ampi_errhandler ampi_errors_are_fatal = {.magic = AMPI_MAGIC_ERRHANDLER,
                                                .predefined = MPI_ERRORS_ARE_FATAL};
struct ampi_errhandler ampi_errors_abort = {.magic = AMPI_MAGIC_ERRHANDLER, .predefined = MPI_ERRORS_ABORT};
struct ampi_errhandler ampi_errors_return = {.magic = AMPI_MAGIC_ERRHANDLER, .predefined = MPI_ERRORS_RETURN};

static bool is_predefined(const struct ampi_errhandler *errhandler)
{
    return errhandler->predefined != MPI_ERRHANDLER_NULL;
}

struct ampi_errhandler *ampi_errhandler_of(MPI_Errhandler handle)
{
    if (handle == MPI_ERRORS_ARE_FATAL)
        return &ampi_errors_are_fatal;
    if (handle == MPI_ERRORS_ABORT)
        return &ampi_errors_abort;
    if (handle == MPI_ERRORS_RETURN)
        return &ampi_errors_return;
    return ampi_handle_has_magic(handle, AMPI_MAGIC_ERRHANDLER) ? (struct ampi_errhandler *)handle : NULL;
}

static MPI_Errhandler handle_of(struct ampi_errhandler *errhandler)
{
    return is_predefined(errhandler) ? errhandler->predefined : (MPI_Errhandler)errhandler;
}

/* By number. */
static const struct initial {
    const char *name;
    MPI_Errhandler handle;
} initial[] = {{"mpi_errors_are_fatal", MPI_ERRORS_ARE_FATAL},
               {"mpi_errors_abort", MPI_ERRORS_ABORT},
               {"mpi_errors_return", MPI_ERRORS_RETURN}};

int ampi_errhandler_find(const char *name)
{
    for (int i = 0; i < (int)BASE_COUNT(initial); i++)
        if (strcasecmp(name, initial[i].name) == 0)
            return i;
    return -1;
}

MPI_Errhandler ampi_errhandler_numbered(int number)
{
    return initial[number].handle;
}

void ampi_errhandler_ref(struct ampi_errhandler *errhandler)
{
    if (errhandler && !is_predefined(errhandler))
        atomic_fetch_add_explicit(&errhandler->refs, 1, memory_order_relaxed);
}

void ampi_errhandler_unref(struct ampi_errhandler *errhandler)
{
    if (errhandler && !is_predefined(errhandler) &&
        atomic_fetch_sub_explicit(&errhandler->refs, 1, memory_order_acq_rel) == 1) {
        errhandler->magic = AMPI_MAGIC_DEAD;
        free(errhandler);
    }
}

bool ampi_errhandler_fits(const struct ampi_errhandler *errhandler, enum ampi_errhandler_for kind)
{
    return is_predefined(errhandler) || errhandler->kind == kind;
}

const char *ampi_errhandler_misfit(MPI_Errhandler handle, enum ampi_errhandler_for kind)
{
    static const char *const misfits[] = {
        "this error handler is for communicators", "this error handler is for windows",
        "this error handler is for files", "this error handler is for sessions"};
    const struct ampi_errhandler *errhandler = ampi_errhandler_of(handle);

    if (!errhandler)
        return handle == MPI_ERRHANDLER_NULL ? "the error handler is MPI_ERRHANDLER_NULL"
                                             : "the error handler is not valid, or has been freed";
    return ampi_errhandler_fits(errhandler, kind) ? NULL : misfits[errhandler->kind];
}

int ampi_errhandler_set(struct ampi_errhandler **slot, MPI_Errhandler handle, enum ampi_errhandler_for kind)
{
    struct ampi_errhandler *errhandler = ampi_errhandler_of(handle);
    const char *misfit = ampi_errhandler_misfit(handle, kind);

    if (misfit)
        return ampi_raise_self(MPI_ERR_ERRHANDLER, "%s", misfit);
    ampi_errhandler_ref(errhandler);
    ampi_errhandler_unref(*slot);
    *slot = errhandler;
    ampi_errhandler_chosen(errhandler);
    return MPI_SUCCESS;
}

void ampi_errhandler_chosen(const struct ampi_errhandler *errhandler)
{
    if (errhandler != &ampi_errors_are_fatal && errhandler != &ampi_errors_abort)
        ampi_upper.expect_errors();
}

int ampi_errhandler_get(struct ampi_errhandler *const *slot, struct ampi_errhandler *when_null,
                        MPI_Errhandler *handle_out)
{
    struct ampi_errhandler *errhandler = *slot ? *slot : when_null;

    if (!handle_out)
        return ampi_raise_self(MPI_ERR_ARG, "errhandler is NULL");
    ampi_errhandler_ref(errhandler);
    *handle_out = handle_of(errhandler);
    return MPI_SUCCESS;
}

/* ---- Creating and freeing handlers ---- */

/* A new handler without its function; NULL after raising an error. */
static struct ampi_errhandler *create(enum ampi_errhandler_for kind, bool has_function,
                                      MPI_Errhandler *handle_out)
{
    struct ampi_errhandler *errhandler;

    if (!has_function || !handle_out) {
        ampi_raise_self(MPI_ERR_ARG, "%s is NULL", has_function ? "errhandler" : "the handler function");
        return NULL;
    }
    errhandler = base_calloc(1, sizeof *errhandler, "an error handler");
    errhandler->magic = AMPI_MAGIC_ERRHANDLER;
    atomic_init(&errhandler->refs, 1);
    errhandler->predefined = MPI_ERRHANDLER_NULL;
    errhandler->kind = kind;
    *handle_out = (MPI_Errhandler)errhandler;
    return errhandler;
}

AMPI_EXPORT(Comm_create_errhandler);
int PMPI_Comm_create_errhandler(MPI_Comm_errhandler_function *comm_errhandler_fn, MPI_Errhandler *errhandler)
{
    struct ampi_errhandler *object;

    ampi_enter("MPI_Comm_create_errhandler");
    object = create(AMPI_ERRHANDLER_COMM, comm_errhandler_fn != NULL, errhandler);
    if (!object)
        return MPI_ERR_ARG;
    object->fn.comm = comm_errhandler_fn;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Win_create_errhandler);
int PMPI_Win_create_errhandler(MPI_Win_errhandler_function *win_errhandler_fn, MPI_Errhandler *errhandler)
{
    struct ampi_errhandler *object;

    ampi_enter("MPI_Win_create_errhandler");
    object = create(AMPI_ERRHANDLER_WIN, win_errhandler_fn != NULL, errhandler);
    if (!object)
        return MPI_ERR_ARG;
    object->fn.win = win_errhandler_fn;
    return MPI_SUCCESS;
}

AMPI_EXPORT(File_create_errhandler);
int PMPI_File_create_errhandler(MPI_File_errhandler_function *file_errhandler_fn, MPI_Errhandler *errhandler)
{
    struct ampi_errhandler *object;

    ampi_enter("MPI_File_create_errhandler");
    object = create(AMPI_ERRHANDLER_FILE, file_errhandler_fn != NULL, errhandler);
    if (!object)
        return MPI_ERR_ARG;
    object->fn.file = file_errhandler_fn;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Session_create_errhandler);
int PMPI_Session_create_errhandler(MPI_Session_errhandler_function *session_errhandler_fn,
                                   MPI_Errhandler *errhandler)
{
    struct ampi_errhandler *object;

    ampi_enter_any_time("MPI_Session_create_errhandler");
    object = create(AMPI_ERRHANDLER_SESSION, session_errhandler_fn != NULL, errhandler);
    if (!object)
        return MPI_ERR_ARG;
    object->fn.session = session_errhandler_fn;
    return MPI_SUCCESS;
}

/* Predefined handlers are accepted too: the result of MPI_Comm_get_errhandler must be freed, whatever it
 * is. */
AMPI_EXPORT(Errhandler_free);
int PMPI_Errhandler_free(MPI_Errhandler *errhandler)
{
    struct ampi_errhandler *object;

    ampi_enter_any_time("MPI_Errhandler_free");
    if (!errhandler)
        return ampi_raise_self(MPI_ERR_ARG, "errhandler is NULL");
    object = ampi_errhandler_of(*errhandler);
    if (!object)
        return ampi_raise_self(MPI_ERR_ERRHANDLER, "%p is not a valid error handler", (void *)*errhandler);
    *errhandler = MPI_ERRHANDLER_NULL;
    ampi_errhandler_unref(object);
    return MPI_SUCCESS;
}
