/* SPDX-License-Identifier: BSD-3-Clause
 *
 * info_env.c: the contents of MPI_INFO_ENV and MPI_Info_create_env (MPI 5.0, section 11.2.1): command,
 * argv, maxprocs, host, arch, wdir, thread_level, mpi_memory_alloc_kinds. `soft` and `file` are missing: they were not given.
 */
#include "ampi/job/job.h"
#include "ampi/object/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "ampi/datatype/program_memory.h"
#include "ampi/object/rank.h"

static const char *thread_level_name(int level)
{
    switch (level) {
    case MPI_THREAD_FUNNELED:
        return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
        return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE:
        return "MPI_THREAD_MULTIPLE";
    default:
        return "MPI_THREAD_SINGLE";
    }
}

/* Sets a key. A value longer than an info value is omitted rather than truncated: half a path is worse than
 * none. */
static void set(struct ampi_info *info, const char *key, const char *value)
{
    if (value && strlen(value) < MPI_MAX_INFO_VAL)
        ampi_info_set(info, key, value);
}

char *ampi_info_env_join(int argc, char *const *argv)
{
    char joined[MPI_MAX_INFO_VAL] = "";
    size_t n_bytes = 0;

    for (int i = 1; i < argc && argv[i]; i++) {
        size_t length = strlen(argv[i]);
        if (n_bytes + length + 2 > sizeof joined)
            return NULL;
        if (n_bytes > 0)
            joined[n_bytes++] = ' ';
        memcpy(joined + n_bytes, argv[i], length + 1);
        n_bytes += length;
    }
    return n_bytes > 0 ? strdup(joined) : NULL;
}

/* ampi_info_env_create with the arguments that the program passes; argc 0: unknown. */
static struct ampi_info *create_with(const struct ampi_rank *rank, int argc, char *const *argv)
{
    struct ampi_info *info = ampi_info_create();
    struct utsname machine;
    char path[MPI_MAX_INFO_VAL];
    char number[16];
    bool has_own = rank && (rank->spawned || rank->program);
    int max_ranks = rank && rank->max_ranks  ? rank->max_ranks
                    : ampi_job.n_program > 0 ? ampi_job.n_program
                                             : ampi_job.n_ranks;
    char *arguments = ampi_info_env_join(argc, argv);

    set(info, "command", argc > 0 && argv[0] ? argv[0] : ampi_job.program);
    set(info, "argv", argc > 0 ? arguments : has_own ? rank->arguments : ampi_job.arguments);
    free(arguments);
    if (max_ranks > 0) {
        snprintf(number, sizeof number, "%d", max_ranks);
        set(info, "maxprocs", number);
    }
    set(info, "host", ampi_job.host);
    if (uname(&machine) == 0)
        set(info, "arch", machine.machine);
    if (getcwd(path, sizeof path))
        set(info, "wdir", path);
    ampi_program_memory_add_kinds(info);
    if (rank)
        set(info, "thread_level", thread_level_name(rank->thread_level));
    return info;
}

struct ampi_info *ampi_info_env_create(const struct ampi_rank *rank)
{
    return create_with(rank, 0, NULL);
}

AMPI_EXPORT(Info_create_env);
int PMPI_Info_create_env(int argc, char *argv[], MPI_Info *info)
{
    struct ampi_rank *self = ampi_enter_any_time("MPI_Info_create_env");

    if (!info)
        return ampi_raise_self(MPI_ERR_ARG, "info is NULL");
    if (argc < 0 || (argc > 0 && !argv))
        return ampi_raise_self(MPI_ERR_ARG, "argc is %d and argv is %p", argc, (void *)argv);
    *info = (MPI_Info)create_with(self, argc, argv);
    return MPI_SUCCESS;
}
