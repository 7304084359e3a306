/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that names are looked up as in a process of the rank's own: what other ranks have opened does not count.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int n_constructed;
int answer(void), wrapper_answer(void);

static int n_wrong;

static void expect(int is_right, const char *what)
{
    if (!is_right)
        n_wrong++, printf("wrong: %s\n", what);
}

static void *open_plugin(const char *path, int mode)
{
    void *plugin = dlopen(path, mode);

    if (!plugin)
        n_wrong++, printf("%s\n", dlerror());
    return plugin;
}

static int call(void *plugin, const char *name)
{
    int (*function)(void) = (int (*)(void))dlsym(plugin, name);

    return function ? function() : -1;
}

/* Ranks of even and odd number open different libraries with RTLD_GLOBAL, one after the other. */
static void check_global(int is_odd)
{
    void *plugin, *self = dlopen(NULL, RTLD_NOW);

    if (is_odd)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        open_plugin("./scope_hook.so", RTLD_NOW | RTLD_GLOBAL);
    plugin = open_plugin(is_odd ? "./scope_2.so" : "./scope_1.so", RTLD_NOW | RTLD_GLOBAL);
    if (!is_odd)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(n_constructed == 1, "only plugins of this rank are constructed");
    expect(call(plugin, "plugin_number") == 1 + is_odd, "a plugin calls its own function");
    expect(call(plugin, "plugin_users") == 1, "an object that exists once per process");
    expect(call(RTLD_DEFAULT, "number") == 1 + is_odd, "RTLD_DEFAULT");
    expect(call(self, "number") == 1 + is_odd, "dlopen(NULL)");
    dlerror();
    expect(call(RTLD_DEFAULT, "hook") == (is_odd ? -1 : 7), "RTLD_DEFAULT, of one rank");
    expect(!dlerror() == !is_odd, "dlerror");
}

/* Both open the same library: what it refers to depends on what a rank has opened before. */
static void check_plans(int is_odd)
{
    void *third = open_plugin("./scope_3.so", RTLD_NOW),
         *deep = open_plugin("./scope_4.so", RTLD_NOW | RTLD_DEEPBIND);

    expect(call(third, "plugin_number") == 1 + is_odd, "RTLD_GLOBAL precedes the plugin");
    expect(call(third, "plugin_hook") == (is_odd ? 0 : 7), "a weak symbol");
    expect(call(third, "plugin_users") == 3, "an object of two plugins");
    expect(call(third, "number") == 3, "a handle");
    expect(call(deep, "plugin_number") == 4, "RTLD_DEEPBIND");
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check_global(rank % 2);
    check_plans(rank % 2);
    expect(call(RTLD_NEXT, "answer") == 120, "RTLD_NEXT of the program");
    expect(answer() == 120 && wrapper_answer() == 120, "RTLD_NEXT of a library");
    MPI_Reduce(rank ? &n_wrong : MPI_IN_PLACE, &n_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && n_wrong == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
