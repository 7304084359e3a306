/* SPDX-License-Identifier: BSD-3-Clause */
/* Spawns other programs into the process. Usage: parent two CHILD CHILD | many CHILD | one CHILD MODE | refused FILE */
#include "tally.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int value = 1; /* the children have variables of this name, too */

static void check(int is_right, const char *what)
{
    if (!is_right) {
        printf("wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

/* The lines of /proc/self/maps that contain the text. */
static int count_maps(const char *text)
{
    char *line = NULL;
    size_t size = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    int n = 0;

    while (getline(&line, &size, maps) > 0)
        n += strstr(line, text) != NULL;
    free(line);
    fclose(maps);
    return n;
}

/* Two programs, with two and three ranks, in one MPI_COMM_WORLD. */
static void spawn_two(char **programs)
{
    char *first[] = {"a", "", NULL}, *second[] = {"b b", NULL}, **args[] = {first, second};
    int counts[] = {2, 3}, codes[] = {9, 9, 9, 9, 9}, got[4], size, rank;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm inter;

    MPI_Comm_spawn_multiple(2, programs, args, counts, infos, 0, MPI_COMM_WORLD, &inter, codes);
    MPI_Comm_remote_size(inter, &size);
    check(size == 5, "the number of children");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; rank == 0 && i < 5; i++) {
        check(codes[i] == MPI_SUCCESS, "array_of_errcodes");
        MPI_Recv(got, 4, MPI_INT, i, 0, inter, MPI_STATUS_IGNORE);
        check(got[0] == i && got[1] == i / 2 - i / 4, "rank, or MPI_APPNUM");
        check(got[2] == 1000 + i, "the child's variable");
        check(got[3] == 10, "the library's variable, and the function that the child replaces");
    }
    MPI_Comm_disconnect(&inter);
}

static void spawn_one(char *program, char *mode, int n)
{
    char *args[] = {mode, NULL};
    MPI_Comm inter;

    MPI_Comm_spawn(program, args, n, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    if (strcmp(mode, "quiet") == 0)
        MPI_Comm_disconnect(&inter);
    else
        MPI_Barrier(inter);
}

int main(int argc, char **argv)
{
    MPI_Comm inter;
    int n_maps;

    MPI_Init(&argc, &argv);
    value += tally();
    if (strcmp(argv[1], "two") == 0) {
        spawn_two(argv + 2);
    } else if (strcmp(argv[1], "many") == 0) {
        spawn_one(argv[2], "quiet", 4);
        n_maps = count_maps("memfd:heddle");
        for (int i = 0; i < 100; i++)
            spawn_one(argv[2], "quiet", 4);
        check(n_maps == count_maps("memfd:heddle"), "the program is loaded once");
        check(count_maps("") < 101 * 4 * 20 + 500, "mappings");
    } else if (strcmp(argv[1], "one") == 0) {
        spawn_one(argv[2], argv[3], 2);
    } else {
        MPI_Comm_spawn(argv[2], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                       MPI_ERRCODES_IGNORE);
    }
    check(value == 2 && tally() == 2, "the parent's variables");
    MPI_Finalize();
    puts("ok");
    return 0;
}
