/* SPDX-License-Identifier: BSD-3-Clause
 *
 * python-starter.so: turns a Python interpreter into the ranks of the job. mpirun preloads it into commands that may run
 * Python (python.c): the interpreter itself, or a shell or env in front of it.
 *
 * An interpreter loads MPI when its script imports mpi4py. Then its variables exist, its script has begun, and it can only
 * be one rank. So before its main this library executes the interpreter again, with libmpi_abi.so.1 preloaded instead of
 * this library, and libmpi runs it once per rank. One that is not position-independent (Debian's) is replaced by
 * lib/heddle/python (python_main.c), which runs the library of the same interpreter. In other programs this library does nothing.
 */
#include "launch/launch.h"
#include "launch/python/interpreter.h"

#include "base/launched.h"
#include "base/other_mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path of a file, relative to the folder of this library; "": it does not fit. */
static void find_own(const char *own, const char *file, char path_out[PATH_MAX])
{
    const char *slash = strrchr(own, '/');
    int len = snprintf(path_out, PATH_MAX, "%.*s/%s", slash ? (int)(slash - own) : 0, own, file);
    if (len >= PATH_MAX || !slash)
        path_out[0] = '\0';
}

/* LD_PRELOAD with libmpi in front, and without this library. */
static bool preload_mpi(const char *own)
{
    const char *before = getenv("LD_PRELOAD");
    char mpi[PATH_MAX], *list;
    find_own(own, "../" BASE_OWN_MPI, mpi);
    if (!before || !(list = malloc(strlen(mpi) + strlen(before) + 2)))
        return false;
    char *end = mempcpy(list, mpi, strlen(mpi));
    while (*before) {
        size_t len = strcspn(before, ": ");
        if (len && (strncmp(before, own, len) != 0 || own[len] != '\0')) {
            *end++ = ':';
            end = mempcpy(end, before, len);
        }
        before += len;
        before += strspn(before, ": ");
    }
    *end = '\0';
    return setenv("LD_PRELOAD", list, 1) == 0;
}

/* The executable to run for the interpreter; sets the variables for it. */
static const char *choose(const char *own, const char *path, char program_out[PATH_MAX])
{
    struct launch_elf elf;
    char *library = NULL;
    snprintf(program_out, PATH_MAX, "%s", path);
    if (launch_elf_read(path, &elf) && elf.kind == LAUNCH_ELF_FIXED) {
        library = python_library_find(path);
        if (!library)
            return program_out; /* with one rank per process it can run; if not, libmpi says so */
        setenv(PYTHON_LIBRARY_ENV, library, 1);
        find_own(own, PYTHON_PROGRAM, program_out);
    }
    setenv(BASE_LAUNCHED_HOST_ENV, path, 1);
    return program_out;
}

/* `uv run` first asks the interpreter for its version and folders, as a child whose output it reads. */
static bool is_query(void)
{
    char path[32], name[8] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)getppid());
    FILE *file = fopen(path, "re");
    bool is_uv = file && fgets(name, sizeof name, file) && strcmp(name, "uv\n") == 0;
    if (file)
        fclose(file);
    return is_uv && !getenv("UV_RUN_RECURSION_DEPTH"); /* which the program has */
}

__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
    (void)argc;
    (void)envp;
    char path[PATH_MAX], program[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    Dl_info self;
    if (len <= 0 || !dladdr((const void *)find_own, &self))
        return;
    path[len] = '\0';
    if (python_is_interpreter(path) && !is_query() && preload_mpi(self.dli_fname)) {
        execv(choose(self.dli_fname, path, program), argv);
        fprintf(stderr, "Heddle: cannot run %s\n", program);
        _exit(LAUNCH_EXIT_CANNOT_RUN);
    }
}
