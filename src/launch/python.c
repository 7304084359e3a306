/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Python: an interpreter loads MPI too late to become ranks, so lib/heddle/python-starter.so is preloaded into commands that
 * may run one (python/starter.c). Not into others: sanitizers refuse preloaded libraries. Called by main.c.
 */
#include "launch/launch.h"
#include "launch/python/interpreter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As much of a script as is searched for Python's name. */
enum { SCRIPT_MAX = 64 << 10 };

/* True if the file is a script that contains Python's name. */
static bool is_python_script(const char *path)
{
    char *text = calloc(1, SCRIPT_MAX + 1);
    int fd = text ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    bool is_found = fd >= 0 && read(fd, text, SCRIPT_MAX) > 2 && strncmp(text, "#!", 2) == 0 &&
                    strstr(text, "python") != NULL;
    if (fd >= 0)
        close(fd);
    free(text);
    return is_found;
}

/* True if a word is the name of an interpreter or of a script that names Python, and can be executed: env A=1 python. */
static bool is_python_command(const char *word)
{
    char *path = strchr(word, '/') ? strdup(word) : launch_search_path(word);
    bool is_command =
        path != NULL && access(path, X_OK) == 0 && (python_is_interpreter(path) || is_python_script(path));
    free(path);
    return is_command;
}

/* True if a word of the command names Python, a script of it, or a script that names it. */
static bool may_run_python(struct launch_program *program, char **words)
{
    if (is_python_script(program->path))
        return true;
    for (char **word = words; *word; word++) {
        size_t len = strlen(*word);
        if (program->kind == LAUNCH_PROGRAM_PLAIN && word > words &&
            (is_python_command(*word) || (strcmp(word[-1], "-c") == 0 && strstr(*word, "python"))))
            program->kind = LAUNCH_PROGRAM_STARTER;
        if (program->kind == LAUNCH_PROGRAM_STARTER &&
            (strstr(*word, "python") != NULL || (len > 3 && strcmp(*word + len - 3, ".py") == 0) ||
             is_python_command(*word) || is_python_script(*word)))
            return true;
    }
    return false;
}

/* If the program is an interpreter that cannot be copied, and has no library that can, each rank gets a process. */
static void choose_procs(struct launch_command *command, const struct launch_program *program)
{
    struct launch_elf elf;
    char *path = realpath(program->path, NULL);
    if (path != NULL && command->num_procs == 0 && launch_num_ranks(command) > 1 &&
        python_is_interpreter(path) && launch_elf_read(path, &elf) && elf.kind == LAUNCH_ELF_FIXED) {
        char *library = python_library_find(path);
        const char *name = strrchr(path, '/') + 1;
        if (library == NULL) {
            command->num_procs = launch_num_ranks(command);
            launch_say("%s is not position-independent, and there is no lib%s.so.1.0 (on Debian the package "
                       "lib%s):\n"
                       "each rank gets a process of its own (--procs %d)",
                       path, name, name, command->num_procs);
        }
        free(library);
    }
    free(path);
}

void launch_python_plan(struct launch_command *command, struct launch_program *program)
{
    static const char *const places[] = {"../lib/heddle/" PYTHON_STARTER,
                                         HEDDLE_LIB_FROM_BIN "/heddle/" PYTHON_STARTER};
    bool may_run = may_run_python(program, command->program_argv);
    for (int i = 0; i < command->num_parts; i++)
        may_run |= may_run_python(program, command->parts[i].argv);
    if (program->kind != LAUNCH_PROGRAM_STARTER || !may_run)
        return;
    program->may_run_python = true;
    choose_procs(command, program);
    char *file = launch_own_file(places);
    if (file != NULL)
        launch_preload(command, "Python", file);
    free(file);
}
