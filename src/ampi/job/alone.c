/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alone.c: a program that was started without mpirun, and can connect to the user's other jobs (MPI_Comm_accept,
 * MPI_Comm_connect, MPI_Comm_join). It needs what mpirun does for these: a place in the universe, and reports of lost
 * processes. So this process becomes mpirun, which starts the program again as its child. Other programs run on unchanged.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ampi/job/job.h"
#include "ampi/procs/launcher_env.h"
#include "base/launched.h"
#include "base/log.h"
#include "base/place.h"
#include "base/settings.h"
#include "image/image.h"

/* Place of argv[0] among mpirun's words: behind "mpirun -n N". */
#define FIRST_WORD 3

BASE_NO_SANITIZE bool ampi_alone_may_connect(void)
{
    static int answer; /* 1: no, 2: yes */

    if (!answer)
        answer = image_process_refers_to("comm_accept") || image_process_refers_to("comm_connect") ||
                         image_process_refers_to("comm_join") || image_process_refers_to("lookup_name") ||
                         image_process_refers_to("publish_name")
                     ? 2
                     : 1;
    return answer == 2;
}

/* The path of mpirun, in the build tree and in installations; malloc'ed. NULL: it is missing. */
static char *find_mpirun(void)
{
    static const char *const places[] = {"../../bin/mpirun", "../../../bin/mpirun"};

    for (size_t i = 0; i < BASE_COUNT(places); i++) {
        char *path = base_place_of(places[i]);
        if (path && access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

/* argv[0] if mpirun finds the same file by it, else the file's path in text. */
static char *name_of_program(char *name, char *text)
{
    ssize_t n = readlink("/proc/self/exe", text, PATH_MAX - 1);
    struct stat self, other;

    text[n > 0 ? n : 0] = '\0';
    return strchr(name, '/') && stat(text, &self) == 0 && stat(name, &other) == 0 &&
                   self.st_dev == other.st_dev && self.st_ino == other.st_ino
               ? name
               : text;
}

char **ampi_alone_begin(int argc, char **argv)
{
    const char *universe = secure_getenv("HEDDLE_UNIVERSE");
    char **words;

    if (argc < 1 || ampi_launched_count() != 0 || !ampi_alone_may_connect() ||
        (universe && strcmp(universe, BASE_LAUNCHED_NO_UNIVERSE) == 0))
        return NULL;
    words = base_calloc(FIRST_WORD + (size_t)argc + 1, sizeof *words, "the start of mpirun");
    for (int i = 0; i < argc; i++)
        if (strcmp(words[FIRST_WORD + i] = argv[i], ":") == 0) { /* for mpirun the next program begins here */
            free(words);
            return NULL;
        }
    return words;
}

void ampi_alone_restart(char **words)
{
    char *mpirun = words ? find_mpirun() : NULL, *path, number[16];
    int first = FIRST_WORD;

    if (mpirun) {
        ampi_launched_refuse();
        path = base_malloc(PATH_MAX, "the start of mpirun");
        words[FIRST_WORD] = name_of_program(words[FIRST_WORD], path);
        snprintf(number, sizeof number, "%ld", base_settings.n_ranks);
        if (base_settings.n_ranks > 0) {
            words[--first] = number;
            words[--first] = (char *)(uintptr_t) "-n";
        }
        words[--first] = (char *)(uintptr_t) "mpirun";
        setenv(BASE_LAUNCHED_ALONE_ENV, "1", 1);
        execv(mpirun, words + first);
        unsetenv(BASE_LAUNCHED_ALONE_ENV); /* this program goes on as one rank that no other job reaches */
        free(path);
        free(mpirun);
    }
    free(words);
}
