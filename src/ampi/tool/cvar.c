/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cvar.c: control variables (MPI 5.0, section 15.3.6): settings of the command line, the environment and the build. They are
 * fixed while ranks run, so all of them are constant.
 */
#include <string.h>

#include "ampi/coll/engine/selection.h"
#include "ampi/tool/tool.h"
#include "base/settings.h"
#include "ampi/p2p/message.h"
#include "base/log.h"

static long get_ranks(void)
{
    return ampi_job.n_ranks;
}

static long get_pes(void)
{
    return ampi_job.n_pes;
}

static long get_stack_bytes(void)
{
    return (long)base_settings.stack_bytes;
}

static long get_verbosity(void)
{
    return base_settings.verbosity;
}

static long get_virtual(void)
{
    return ampi_job.is_virtual;
}

static long get_processes(void)
{
    return ampi_job.n_procs;
}

static long get_spin_polls(void)
{
    return ult_spin_polls();
}

static long get_eager_max(void)
{
    return AMPI_EAGER_MAX_BYTES;
}

static const struct cvar {
    const char *name;
    enum ampi_tool_category category;
    MPI_Datatype type; /* MPI_INT, MPI_UNSIGNED_LONG or MPI_CHAR */
    int verbosity;
    long (*get)(void);             /* NULL: a text */
    const char *(*get_text)(void); /* MPI_CHAR: the text */
    const char *description;
} cvars[] = {
    {"heddle_ranks", AMPI_TOOL_JOB, MPI_INT, MPI_T_VERBOSITY_USER_BASIC, get_ranks, NULL,
     "ranks of the job (+vp, mpirun -n)"},
    {"heddle_pes", AMPI_TOOL_JOB, MPI_INT, MPI_T_VERBOSITY_USER_BASIC, get_pes, NULL,
     "PEs (OS threads) that run the ranks of this process (+p)"},
    {"heddle_processes", AMPI_TOOL_JOB, MPI_INT, MPI_T_VERBOSITY_USER_BASIC, get_processes, NULL,
     "processes that run the ranks of the job (mpirun --procs)"},
    {"heddle_virtual", AMPI_TOOL_JOB, MPI_INT, MPI_T_VERBOSITY_USER_DETAIL, get_virtual, NULL,
     "1 if ranks run on copies of the program, 0 if the process is one rank"},
    {"heddle_stack_bytes", AMPI_TOOL_JOB, MPI_UNSIGNED_LONG, MPI_T_VERBOSITY_USER_BASIC, get_stack_bytes,
     NULL, "stack size of a rank (+stacksize); 0: the limit of `ulimit -s`"},
    {"heddle_verbosity", AMPI_TOOL_JOB, MPI_INT, MPI_T_VERBOSITY_USER_BASIC, get_verbosity, NULL,
     "number of +v options"},
    {"heddle_spin_polls", AMPI_TOOL_SCHEDULER, MPI_INT, MPI_T_VERBOSITY_TUNER_DETAIL, get_spin_polls, NULL,
     "maximum number of polls by a PE without a ready rank before it sleeps"},
    {"heddle_eager_max_bytes", AMPI_TOOL_MESSAGES, MPI_INT, MPI_T_VERBOSITY_TUNER_BASIC, get_eager_max, NULL,
     "longest message that is sent before its receive is known (eager limit)"},
    {"heddle_coll", AMPI_TOOL_MESSAGES, MPI_CHAR, MPI_T_VERBOSITY_TUNER_DETAIL, NULL,
     ampi_coll_selection_text,
     "changes of the sizes from which collectives use each algorithm; the environment variable HEDDLE_COLL "
     "sets it"},
};

#define N_CVARS ((int)BASE_COUNT(cvars))

struct MPI_ABI_T_cvar_handle {
    uint32_t magic; /* AMPI_MAGIC_TOOL_CVAR */
    const struct cvar *cvar;
};

int ampi_tool_cvar_count(void)
{
    return N_CVARS;
}

enum ampi_tool_category ampi_tool_cvar_category(int index)
{
    return cvars[index].category;
}

AMPI_EXPORT(T_cvar_get_num);
int PMPI_T_cvar_get_num(int *num_cvar)
{
    int error = ampi_tool_check();

    if (error || !num_cvar)
        return error ? error : MPI_T_ERR_INVALID;
    *num_cvar = N_CVARS;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_cvar_get_info);
int PMPI_T_cvar_get_info(int cvar_index, char *name, int *name_len, int *verbosity, MPI_Datatype *datatype,
                         MPI_T_enum *enumtype, char *desc, int *desc_len, int *bind, int *scope)
{
    int error = ampi_tool_check();
    const struct cvar *cvar;

    if (error || cvar_index < 0 || cvar_index >= N_CVARS)
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    cvar = &cvars[cvar_index];
    ampi_tool_put_string(cvar->name, name, name_len);
    ampi_tool_put_string(cvar->description, desc, desc_len);
    ampi_tool_put_int(cvar->verbosity, verbosity);
    ampi_tool_put_int(MPI_T_BIND_NO_OBJECT, bind);
    ampi_tool_put_int(MPI_T_SCOPE_CONSTANT, scope);
    if (datatype)
        *datatype = cvar->type;
    if (enumtype)
        *enumtype = MPI_T_ENUM_NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_cvar_get_index);
int PMPI_T_cvar_get_index(const char *name, int *cvar_index)
{
    int error = ampi_tool_check();

    if (error || !name || !cvar_index)
        return error ? error : MPI_T_ERR_INVALID;
    for (int i = 0; i < N_CVARS; i++) {
        if (strcmp(cvars[i].name, name) == 0) {
            *cvar_index = i;
            return MPI_SUCCESS;
        }
    }
    return MPI_T_ERR_INVALID_NAME;
}

AMPI_EXPORT(T_cvar_handle_alloc);
int PMPI_T_cvar_handle_alloc(int cvar_index, void *obj_handle, MPI_T_cvar_handle *handle, int *count)
{
    int error = ampi_tool_check();

    if (error || cvar_index < 0 || cvar_index >= N_CVARS)
        return error ? error : MPI_T_ERR_INVALID_INDEX;
    if (!handle || !count)
        return MPI_T_ERR_INVALID;
    *handle = base_malloc(sizeof **handle, "a handle of the tool interface");
    (*handle)->magic = AMPI_MAGIC_TOOL_CVAR;
    (*handle)->cvar = &cvars[cvar_index];
    *count = (*handle)->cvar->get_text ? (int)strlen((*handle)->cvar->get_text()) + 1 : 1;
    return MPI_SUCCESS;
}

static int check_handle(MPI_T_cvar_handle handle)
{
    int error = ampi_tool_check();

    if (error || !ampi_handle_has_magic(handle, AMPI_MAGIC_TOOL_CVAR))
        return error ? error : MPI_T_ERR_INVALID_HANDLE;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_cvar_handle_free);
int PMPI_T_cvar_handle_free(MPI_T_cvar_handle *handle)
{
    int error = check_handle(handle ? *handle : MPI_T_CVAR_HANDLE_NULL);

    if (error)
        return error;
    (*handle)->magic = AMPI_MAGIC_DEAD;
    free(*handle);
    *handle = MPI_T_CVAR_HANDLE_NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_cvar_read);
int PMPI_T_cvar_read(MPI_T_cvar_handle handle, void *buf)
{
    int error = check_handle(handle);

    if (error || !buf)
        return error ? error : MPI_T_ERR_INVALID;
    if (handle->cvar->get_text)
        memcpy(buf, handle->cvar->get_text(), strlen(handle->cvar->get_text()) + 1);
    else if (handle->cvar->type == MPI_INT)
        *(int *)buf = (int)handle->cvar->get();
    else
        *(unsigned long *)buf = (unsigned long)handle->cvar->get();
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_cvar_write);
int PMPI_T_cvar_write(MPI_T_cvar_handle handle, const void *buf)
{
    int error = check_handle(handle);

    return error ? error : MPI_T_ERR_CVAR_SET_NEVER;
}
