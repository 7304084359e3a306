// SPDX-License-Identifier: BSD-3-Clause
//
// Opens two plugins in every rank: each rank has its own variables, registrations and exceptions.
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::vector<std::string> registered;
static int n_destroyed, n_wrong, world_rank;

extern "C" void program_register(const char *name, const void *where)
{
    Dl_info info;

    registered.push_back(name);
    if (!dladdr(where, &info) || !std::strstr(info.dli_fname, name))
        n_wrong++, std::printf("wrong: dladdr of %s\n", name);
}

extern "C" void program_destroyed(const char *)
{
    n_destroyed++;
}

static void expect(bool is_right, const char *what)
{
    if (is_right)
        return;
    const char *error = dlerror();
    std::printf("wrong in rank %d: %s (%s)\n", world_rank, what, error ? error : "no error");
    n_wrong++;
}

template <typename F> static F *get(void *plugin, const char *name)
{
    F *function = reinterpret_cast<F *>(dlsym(plugin, name));

    expect(function != nullptr, name);
    return function;
}

static void throw_through(void *)
{
    throw std::string("from the program");
}

static int visits(struct dl_phdr_info *info, size_t, void *arg)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            reinterpret_cast<uintptr_t>(arg) - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr <
                info->dlpi_phdr[i].p_memsz)
            return 1;
    return 0;
}

static void check_exceptions(void *plugin)
{
    std::string caught;

    try {
        get<void(int)>(plugin, "plugin_throw")(1);
    } catch (const std::runtime_error &error) {
        caught = error.what();
    }
    expect(caught == "plugin_one", "an exception of the plugin's");
    try {
        get<void(void (*)(void *), void *)>(plugin, "plugin_call")(throw_through, nullptr);
    } catch (const std::string &text) {
        caught = text;
    }
    expect(caught == "from the program", "an exception through the plugin");
}

static void check_thread_variables(void *plugin)
{
    auto count = get<int()>(plugin, "plugin_thread_count");
    int in_thread = 0;

    for (int i = 0; i <= world_rank; i++)
        expect(count() == 8 + i, "a thread_local variable of the plugin's");
    std::thread([&] { in_thread = count(); }).join();
    expect(in_thread == 8, "a thread_local variable of the plugin's in a thread");
    expect(*static_cast<int *>(dlsym(plugin, "plugin_thread_variable")) == 8 + world_rank, "dlsym of thread_local");
}

static void check_one(void *plugin)
{
    int *variable = static_cast<int *>(dlsym(plugin, "plugin_variable"));
    link_map *map = nullptr;
    Dl_info info;

    expect(variable && *variable == 100 + world_rank, "the plugin's variable");
    expect(get<int *()>(plugin, "plugin_own_variable")() == variable, "a pointer to it");
    for (int i = 0; i <= world_rank; i++) {
        expect(get<int()>(plugin, "plugin_count")() == i + 1, "a counter of a library that the plugin brings");
        MPI_Barrier(MPI_COMM_SELF);
    }
    expect(get<int()>(plugin, "plugin_finds_itself")(), "dlsym in the plugin");
    expect(dladdr(variable, &info) && std::strcmp(info.dli_sname, "plugin_variable") == 0, "dladdr");
    expect(dlinfo(plugin, RTLD_DI_LINKMAP, &map) == 0 && map->l_addr == reinterpret_cast<uintptr_t>(info.dli_fbase),
           "dlinfo");
    expect(dl_iterate_phdr(visits, variable), "dl_iterate_phdr");
    check_exceptions(plugin);
    check_thread_variables(plugin);
}

/* At the rank's end, after the destructors of plugins that were opened with dlopen. */
struct End {
    ~End()
    {
        if (n_destroyed != 2)
            std::printf("wrong: %d plugins destroyed in rank %d\n", n_destroyed, world_rank);
        else if (world_rank == 0 && n_wrong == 0)
            std::printf("ok\n");
    }
};

int main(int argc, char **argv)
{
    static End end;
    void *one, *two, *again;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    expect(!dlopen("plugin_one.so", RTLD_NOW | RTLD_NOLOAD), "RTLD_NOLOAD before the plugin is there");
    if (world_rank % 2)
        MPI_Barrier(MPI_COMM_WORLD); /* half of them a little later */
    one = dlopen("plugin_one.so", RTLD_NOW | RTLD_LOCAL);
    if (world_rank % 2 == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    if (!one) {
        std::printf("%s\n", dlerror());
        return 1;
    }
    expect(registered == std::vector<std::string>{"plugin_one"}, "one registration");
    expect(!dlsym(RTLD_DEFAULT, "plugin_variable"), "what was opened with RTLD_LOCAL is not seen");
    two = dlopen("plugin_two.so", RTLD_LAZY);
    expect(two && registered.size() == 2 && registered[1] == "plugin_two", "another registration");
    expect(two && dlsym(two, "plugin_variable") != dlsym(one, "plugin_variable"), "two symbols of one name");
    check_one(one);
    again = dlopen("plugin_one.so", RTLD_NOW);
    expect(again == one && registered.size() == 2, "opened once more");
    expect(dlopen("plugin_one.so", RTLD_NOW | RTLD_NOLOAD) == one, "RTLD_NOLOAD");
    for (int i = 0; i < 3; i++)
        expect(dlclose(one) == 0, "dlclose");
    expect(dlsym(two, "no_such_symbol") == nullptr && std::strstr(dlerror(), "no_such_symbol"), "an error");
    expect(!dlopen("plugin_unbound.so", RTLD_NOW) && std::strstr(dlerror(), "missing_function"), "an undefined symbol");
    if (world_rank == 0)
        expect(dlopen("plugin_global.so", RTLD_NOW | RTLD_GLOBAL) != nullptr, "RTLD_GLOBAL");
    MPI_Barrier(MPI_COMM_WORLD);
    expect(!dlsym(RTLD_DEFAULT, "plugin_answer") == (world_rank != 0), "what another rank has opened is not seen");
    MPI_Finalize();
    return n_wrong != 0;
}
