/* SPDX-License-Identifier: BSD-3-Clause
 *
 * connected.c: the processes of this job, of those that are connected to it, of those that are connected to them, and so on.
 * For termination.c.
 *
 * A process knows those of other jobs with which it shares communicators. While it is quiet it writes them into a file in the
 * universe's folder, with the numbers of its own job. The files of others may be old, or not there. That does no harm: a set
 * contains all processes that may send to the one that found it, and it counts only if all members found the same set.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ampi/procs/procs.h"
#include "base/launched.h"
#include "base/log.h"

/* How long the contents of other processes' files are kept. */
#define KEEP_NS 100000000

/* A file: the first number of the job, the number after its last one, and the linked processes. */
enum { WORD_FIRST, WORD_END, N_WORDS_MIN };

static struct {
    bool *direct;     /* by process: linked */
    bool *written;    /* by process: the same, when the file was written */
    bool *found;      /* by process: the result */
    bool *is_read;    /* by process, while the set is determined */
    int *words;       /* a file's contents */
    uint64_t read_ns; /* when the result was determined */
} own;

static void init(void)
{
    size_t n = (size_t)ampi_job.max_procs;
    const char *what = "deadlock detection";

    if (own.words)
        return;
    own.direct = base_calloc(n, sizeof *own.direct, what);
    own.written = base_calloc(n, sizeof *own.written, what);
    own.found = base_calloc(n, sizeof *own.found, what);
    own.is_read = base_calloc(n, sizeof *own.is_read, what);
    own.words = base_calloc(n + N_WORDS_MIN, sizeof *own.words, what);
}

static void path_of(int proc_id, const char *suffix, char *path_out, size_t path_bytes)
{
    snprintf(path_out, path_bytes, "%s" BASE_LAUNCHED_LINKS "%d%s", ampi_job.universe, proc_id, suffix);
}

/* A file is complete when it appears. */
static void write_links(void)
{
    char path[512], made[512];
    size_t n = N_WORDS_MIN;
    FILE *file;

    own.words[WORD_FIRST] = ampi_job.own_first;
    own.words[WORD_END] = ampi_job.own_end;
    for (int i = 0; i < ampi_job.max_procs; i++)
        if (own.direct[i])
            own.words[n++] = i;
    path_of(ampi_job.proc_id, "", path, sizeof path);
    path_of(ampi_job.proc_id, "-new", made, sizeof made);
    file = fopen(made, "we");
    if (!file)
        return; /* then no deadlock is found */
    if ((fwrite(own.words, sizeof *own.words, n, file) == n) & (fclose(file) == 0) && rename(made, path) == 0)
        memcpy(own.written, own.direct, (size_t)ampi_job.max_procs);
    else
        unlink(made);
}

static void add(int first, int end)
{
    for (int i = first < 0 ? 0 : first; i < end && i < ampi_job.max_procs; i++)
        own.found[i] = true;
}

static void add_links_of(int proc_id)
{
    char path[512];
    FILE *file;
    size_t n;

    path_of(proc_id, "", path, sizeof path);
    file = fopen(path, "re");
    if (!file)
        return;
    n = fread(own.words, sizeof *own.words, (size_t)ampi_job.max_procs + N_WORDS_MIN, file);
    fclose(file);
    if (n < N_WORDS_MIN)
        return;
    add(own.words[WORD_FIRST], own.words[WORD_END]);
    for (size_t i = N_WORDS_MIN; i < n; i++)
        add(own.words[i], own.words[i] + 1);
}

/* Reads the file of each process that is in the set, until no further one comes in. */
static void find_set(void)
{
    bool has_read = true;

    memcpy(own.found, own.direct, (size_t)ampi_job.max_procs);
    memset(own.is_read, 0, (size_t)ampi_job.max_procs);
    add(ampi_job.own_first, ampi_job.own_end);
    own.is_read[ampi_job.proc_id] = true;
    while (has_read) {
        has_read = false;
        for (int i = 0; i < ampi_job.max_procs; i++)
            if (own.found[i] && !own.is_read[i]) {
                own.is_read[i] = has_read = true;
                if (ampi_procs_may_begin(i))
                    add_links_of(i);
            }
    }
}

bool ampi_procs_are_direct(int proc_id)
{
    return ampi_procs_is_own(proc_id) || own.direct[proc_id];
}

bool ampi_procs_find_connected(bool *is_connected)
{
    size_t n = (size_t)ampi_job.max_procs;
    bool has_changed;

    if (!ampi_job.own_end) {
        memset(is_connected, true, n);
        return true;
    }
    init();
    memset(own.direct, 0, n);
    if (ampi_procs_are_linked(own.direct))
        return false;
    has_changed = memcmp(own.direct, own.written, n) != 0;
    if (has_changed)
        write_links();
    if (has_changed || ult_now_ns() - own.read_ns > KEEP_NS) {
        find_set();
        own.read_ns = ult_now_ns();
    }
    memcpy(is_connected, own.found, n);
    return true;
}
