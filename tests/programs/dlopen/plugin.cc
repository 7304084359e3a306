// SPDX-License-Identifier: BSD-3-Clause
//
// A plugin in C++: it registers itself in the program when it is loaded, has variables of all kinds, throws, and
// says when it is destroyed. Built twice, with another NAME.
#include <dlfcn.h>
#include <mpi.h>
#include <stdexcept>

extern "C" {
void program_register(const char *name, const void *where);
void program_destroyed(const char *name);
int helper_count(void);
const void *helper_address(void);

int plugin_variable = 100;          // both plugins have one
int *plugin_pointer = &plugin_variable;
thread_local int plugin_thread_variable = 7;
thread_local int *plugin_thread_pointer = &plugin_variable;
}

namespace {
struct Registration {
    Registration()
    {
        int rank;
        program_register(NAME, this);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Barrier(MPI_COMM_WORLD); // a constructor may wait for other ranks
        plugin_variable = 100 + rank;
    }
    ~Registration() { program_destroyed(NAME); }
} registration;

int function_static()
{
    static int calls = [] { return 10; }();
    return ++calls;
}
} // namespace

extern "C" int plugin_count(void)
{
    return helper_count() + 0 * function_static();
}

extern "C" int *plugin_own_variable(void)
{
    return plugin_pointer;
}

extern "C" int plugin_thread_count(void)
{
    return *plugin_thread_pointer == plugin_variable ? ++plugin_thread_variable : -1;
}

extern "C" void plugin_throw(int value)
{
    if (value > 0)
        throw std::runtime_error(NAME);
    throw value;
}

extern "C" void plugin_call(void (*function)(void *), void *arg)
{
    function(arg);
}

// A symbol of its own by RTLD_DEFAULT, though it was opened with RTLD_LOCAL; the program's by RTLD_DEFAULT.
extern "C" int plugin_finds_itself(void)
{
    return dlsym(RTLD_DEFAULT, "plugin_variable") == &plugin_variable &&
           dlsym(RTLD_DEFAULT, "program_register") == reinterpret_cast<void *>(&program_register) &&
           dlsym(RTLD_NEXT, "helper_count") == reinterpret_cast<void *>(&helper_count);
}
