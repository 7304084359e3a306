/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints for each rank whether the launchers' variables had the rank's number before main, because programs
 * choose their GPUs by it. For rank_env_test.sh. usage: rank_env NAME=KIND..., where KIND is rank, size,
 * local_rank, local_size, none (the variable must not be there) or kept (it must have the value "kept").
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static char *early_local_rank; /* as a program's static object sees it */

__attribute__((constructor)) static void look_early(void)
{
    early_local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
}

static const char *find_in(char **array, const char *name)
{
    size_t n_name = strlen(name);

    for (; array && *array; array++)
        if (strncmp(*array, name, n_name) == 0 && (*array)[n_name] == '=')
            return *array + n_name + 1;
    return NULL;
}

static int is_right(const char *value, const char *kind, int rank, int size, int local_rank, int local_size)
{
    if (strcmp(kind, "none") == 0)
        return !value;
    if (strcmp(kind, "kept") == 0)
        return value && strcmp(value, "kept") == 0;
    return value && atoi(value) == (strcmp(kind, "rank") == 0         ? rank
                                    : strcmp(kind, "size") == 0       ? size
                                    : strcmp(kind, "local_rank") == 0 ? local_rank
                                                                      : local_size);
}

int main(int argc, char **argv, char **envp)
{
    int rank, size, local_rank, local_size, n_right = 0;
    MPI_Comm node;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_size(node, &local_size);
    for (int i = 1; i < argc; i++) {
        char *name = argv[i], *kind = strchr(argv[i], '=');
        const char *values[] = {NULL, NULL, NULL};

        *kind++ = '\0';
        values[0] = getenv(name);
        values[1] = find_in(environ, name);
        values[2] = find_in(envp, name);
        for (int k = 0; k < 3; k++) {
            int right = is_right(values[k], kind, rank, size, local_rank, local_size);
            n_right += right;
            if (!right)
                printf("rank %d: %s is %s, not the %s\n", rank, name, values[k] ? values[k] : "not there",
                       kind);
        }
        if (strcmp(name, "OMPI_COMM_WORLD_LOCAL_RANK") == 0 &&
            !is_right(early_local_rank, kind, rank, size, local_rank, local_size))
            printf("rank %d: a constructor saw %s\n", rank, early_local_rank ? early_local_rank : "nothing");
    }
    printf("rank %d of %d: %d right\n", rank, size, n_right / 3);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}
