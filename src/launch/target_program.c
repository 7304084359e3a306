/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Finds the program, and decides whether and how it can be run: once, with all ranks inside, or once per
 * rank if it does not use MPI. Called by main.c.
 */
#include "launch/launch.h"
#include "launch/libraries.h"

#include "base/other_mpi.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Programs that run other programs, or use MPI through a module: they are run once, like scripts. A
 * trailing '*' matches any suffix. */
static const char *const starters[] = {
    "sh",      "bash",  "dash",  "zsh",    "ksh",     "fish", "csh",  "tcsh", "make",
    "python*", "perl*", "ruby*", "julia*", "Rscript", "R",    "lua*", "node",
};
enum { NUM_STARTERS = sizeof starters / sizeof starters[0] };

char *launch_search_path(const char *name)
{
    const char *rest = getenv("PATH");
    if (rest == NULL)
        rest = "/usr/local/bin:/usr/bin:/bin";
    int error = ENOENT;
    for (;;) {
        size_t len = strcspn(rest, ":");
        char *path;
        if (asprintf(&path, "%.*s/%s", len ? (int)len : 1, len ? rest : ".", name) < 0)
            launch_fail(1, "out of memory");
        struct stat status;
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
            if (access(path, X_OK) == 0)
                return path;
            error = EACCES;
        }
        free(path);
        if (rest[len] == '\0')
            break;
        rest += len + 1;
    }
    errno = error;
    return NULL;
}

static void fail_missing(const char *name, const char *dir)
{
    if (dir != NULL && name[0] != '/')
        launch_fail(LAUNCH_EXIT_NOT_FOUND,
                    "%s: no such file in %s: with -wd, the program's path starts there; an absolute path "
                    "does not depend on it",
                    name, dir);
    launch_fail(LAUNCH_EXIT_NOT_FOUND, "%s: no such file", name);
}

/* The path of the program; exits if no such program is executable. */
static char *find(const char *name, const char *dir)
{
    if (strchr(name, '/') == NULL) {
        char *path = launch_search_path(name);
        if (path != NULL)
            return path;
        if (errno == EACCES)
            launch_fail(LAUNCH_EXIT_CANNOT_RUN, "%s: permission denied: it is in PATH, but not executable",
                        name);
        if (access(name, F_OK) == 0)
            launch_fail(LAUNCH_EXIT_NOT_FOUND,
                        "%s: no such program in PATH; for the one in this folder use ./%s", name, name);
        launch_fail(LAUNCH_EXIT_NOT_FOUND, "%s: no such program in PATH", name);
    }
    struct stat status;
    if (stat(name, &status) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            fail_missing(name, dir);
        launch_fail(LAUNCH_EXIT_CANNOT_RUN, "%s: %s", name, strerror(errno));
    }
    if (S_ISDIR(status.st_mode))
        launch_fail(LAUNCH_EXIT_CANNOT_RUN, "%s: this is a folder, not a program", name);
    if (!S_ISREG(status.st_mode))
        launch_fail(LAUNCH_EXIT_CANNOT_RUN, "%s: not an executable file", name);
    if (access(name, X_OK) != 0)
        launch_fail(LAUNCH_EXIT_CANNOT_RUN, "%s: permission denied: it is not executable (chmod +x %s)", name,
                    name);
    char *path = strdup(name);
    if (path == NULL)
        launch_fail(1, "out of memory");
    return path;
}

static bool is_script(const char *path)
{
    char start[2] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, start, sizeof start);
    close(fd);
    return len == 2 && start[0] == '#' && start[1] == '!';
}

/* Only glibc's loader supports listing the libraries; any other would run the program. */
static bool can_list_libraries(const char *path, const struct launch_elf *elf)
{
    struct stat status;
    return strstr(elf->interpreter, "/ld-linux") != NULL && stat(path, &status) == 0 &&
           (status.st_mode & (S_ISUID | S_ISGID)) == 0;
}

/* Lists the libraries of a word of the command that is itself a program. False: it is not one. */
static bool list_libraries_of_word(const char *path, struct launch_libraries *libraries_out)
{
    struct launch_elf elf;
    struct stat status;
    if (access(path, X_OK) != 0 || stat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
        !launch_elf_read(path, &elf))
        return false;
    if ((elf.kind != LAUNCH_ELF_PIE && elf.kind != LAUNCH_ELF_FIXED) || !can_list_libraries(path, &elf))
        return false;
    launch_libraries_list(path, libraries_out);
    return true;
}

static _Noreturn void fail_other_mpi(const char *name, const char *other_mpi)
{
    launch_fail(LAUNCH_EXIT_CANNOT_RUN,
                "%s is linked with another MPI (%s).\n"
                "Recompile it with this mpicc, or run it with the mpirun of that MPI.",
                name, other_mpi);
}

/* True if this program, itself without MPI, may start an MPI program: it is known for that, or an MPI
 * program is among its arguments (env A=1 ./app, gdb --args ./app). */
static bool is_starter(const char *path, char **argv)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (int i = 0; i < NUM_STARTERS; i++) {
        size_t len = strcspn(starters[i], "*");
        if (strncmp(name, starters[i], len) == 0 && (starters[i][len] == '*' || name[len] == '\0'))
            return true;
    }
    for (char **word = argv + 1; *word; word++) {
        if (**word == '-' || **word == '\0')
            continue;
        struct launch_libraries libraries = {0};
        char *candidate = strchr(*word, '/') ? strdup(*word) : launch_search_path(*word);
        bool is_program = candidate != NULL && list_libraries_of_word(candidate, &libraries);
        free(candidate);
        if (is_program && libraries.has_ours && !libraries.is_only_preloaded)
            return true;
        if (is_program && libraries.other_mpi[0] != '\0')
            fail_other_mpi(*word, libraries.other_mpi);
    }
    return false;
}

/* Determines the kind of run for a dynamic program for this CPU. Exits if it cannot be run. */
static enum launch_program_kind look_at_libraries(const struct launch_command *command,
                                                  const struct launch_elf *elf,
                                                  struct launch_program *program)
{
    const char *name = command->program_argv[0];
    struct launch_libraries libraries = {0};
    if (can_list_libraries(program->path, elf))
        launch_libraries_list(program->path, &libraries);
    if (libraries.other_mpi[0] != '\0' && libraries.has_ours)
        launch_fail(LAUNCH_EXIT_CANNOT_RUN,
                    "%s is linked with two MPIs: Heddle and another one (%s), which one of its libraries "
                    "needs.\nTheir handles differ. Rebuild that library with this mpicc.",
                    name, libraries.other_mpi);
    if (libraries.other_mpi[0] != '\0')
        fail_other_mpi(name, libraries.other_mpi);
    if (!libraries.has_ours)
        return is_starter(program->path, command->program_argv) ? LAUNCH_PROGRAM_STARTER
                                                                : LAUNCH_PROGRAM_PLAIN;

    if (elf->kind == LAUNCH_ELF_FIXED && !libraries.is_only_preloaded && launch_num_ranks(command) > 1)
        launch_fail(
            LAUNCH_EXIT_CANNOT_RUN,
            "%s cannot be virtualized: it is not position-independent, so it can be loaded only once,\nand "
            "every rank needs its own copy. Recompile with this mpicc (or with -fPIE, and link with -pie).",
            name);
    if (elf->connects) {
        program->connecting = program->path;
        program->loader = strdup(elf->interpreter);
    }
    program->needs_library_path = libraries.needs_library_path;
    if (libraries.needs_library_path && launch_library_dir() == NULL)
        launch_fail(LAUNCH_EXIT_CANNOT_RUN,
                    "%s needs " BASE_OWN_MPI
                    ", which is neither in ../lib next to mpirun nor where the loader looks.",
                    name);
    return libraries.is_only_preloaded ? LAUNCH_PROGRAM_STARTER : LAUNCH_PROGRAM_MPI;
}

void launch_program_find(const struct launch_command *command, struct launch_program *program_out)
{
    const char *name = command->program_argv[0];
    memset(program_out, 0, sizeof *program_out);
    program_out->path = find(name, command->dir);

    struct launch_elf elf;
    if (!launch_elf_read(program_out->path, &elf)) {
        /* Executable but unreadable: the kernel decides. */
        program_out->kind = LAUNCH_PROGRAM_STARTER;
        return;
    }
    switch (elf.kind) {
    case LAUNCH_ELF_NONE:
        if (!is_script(program_out->path))
            launch_fail(LAUNCH_EXIT_CANNOT_RUN, "%s: neither a program nor a script (which starts with #!)",
                        name);
        program_out->kind = LAUNCH_PROGRAM_STARTER;
        break;
    case LAUNCH_ELF_FOREIGN:
        launch_fail(LAUNCH_EXIT_CANNOT_RUN, "%s: a program for another kind of CPU", name);
    case LAUNCH_ELF_STATIC:
        launch_fail(LAUNCH_EXIT_CANNOT_RUN,
                    "%s cannot be virtualized: it is statically linked, and every rank needs a copy of the "
                    "program but\nnot of the libraries. Recompile with this mpicc, without -static.",
                    name);
    case LAUNCH_ELF_LIBRARY:
        launch_fail(LAUNCH_EXIT_CANNOT_RUN, "%s: a shared library, not a program", name);
    case LAUNCH_ELF_FIXED:
    case LAUNCH_ELF_PIE:
        program_out->kind = look_at_libraries(command, &elf, program_out);
        break;
    }
}
