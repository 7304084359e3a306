/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the processes of a job have left running: everything on this node that carries the job's name in its
 * environment, whatever its parent and process group are. Used at the end of a job, by main.c and guard.c.
 */
#include "procs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Is the text among the NUL-separated strings of the file? */
static bool file_has_string(const char *path, const char *text, size_t text_len)
{
    static char *buffer;
    static size_t cap;
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (;;) {
        if (len == cap) {
            char *longer = realloc(buffer, cap ? cap * 2 : 1 << 16);
            if (longer == NULL)
                break;
            buffer = longer;
            cap = cap ? cap * 2 : 1 << 16;
        }
        ssize_t got = read(fd, buffer + len, cap - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    close(fd);
    for (size_t at = 0; at < len;) {
        size_t string_len = strnlen(buffer + at, len - at);
        if (string_len == text_len && memcmp(buffer + at, text, text_len) == 0)
            return true;
        at += string_len + 1;
    }
    return false;
}

/* Kills what it finds; returns how many that were. */
static int kill_once(const char *text, size_t text_len)
{
    int num = 0;
    DIR *listing = opendir("/proc");
    if (listing == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[300];
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid <= 1 || pid == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        if (file_has_string(path, text, text_len) && kill(pid, SIGKILL) == 0)
            num++;
    }
    closedir(listing);
    return num;
}

void procs_leftover_kill(const char *job_name)
{
    char text[PROCS_NAME_MAX + 32];
    int len = snprintf(text, sizeof text, "PMIX_NAMESPACE=%s", job_name);
    /* Again until there are none: one of them may have forked meanwhile. */
    for (int i = 0; i < 200 && kill_once(text, (size_t)len) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}
