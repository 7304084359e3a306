/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opens a plugin by its name, which only the program's DT_RUNPATH finds, and another one that only the
 * DT_RUNPATH of a library of the program finds; by $ORIGIN; and fails for a name that does not exist. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

void *library_open(const char *name);

static int n_wrong;

static void expect(int is_right, const char *what)
{
    if (!is_right) {
        const char *error = dlerror();
        printf("wrong: %s (%s)\n", what, error ? error : "no error");
        n_wrong++;
    }
}

static int answer_of(void *plugin)
{
    int (*answer)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_answer") : NULL;

    return answer ? answer() : -1;
}

int main(int argc, char **argv)
{
    int rank, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    expect(answer_of(dlopen("plugin_a.so", RTLD_NOW)) == 1, "the program's DT_RUNPATH");
    expect(!dlopen("plugin_e.so", RTLD_NOW), "the library's DT_RUNPATH is not the program's");
    expect(answer_of(library_open("plugin_b.so")) == 2, "the library's DT_RUNPATH");
    expect(answer_of(dlopen("$ORIGIN/c/plugin_c.so", RTLD_NOW)) == 3, "$ORIGIN in the path");
    expect(answer_of(library_open("$ORIGIN/../d/plugin_d.so")) == 4, "$ORIGIN of the library");
    expect(answer_of(dlopen("plugin_b.so", RTLD_NOW)) == 2, "a name that is loaded already");
    expect(!dlopen("plugin_nowhere.so", RTLD_NOW) && strstr(dlerror(), "plugin_nowhere.so"), "an error");
    MPI_Allreduce(&n_wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && sum == 0)
        printf("ok\n");
    MPI_Finalize();
    return sum != 0;
}
