/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Kills processes that a job has left running. There are two ways to find them: all processes on this node
 * with the job's id in their environment (PROCS_JOB_ENV), whatever their parent and process group; and,
 * while mpirun lives, all processes whose parents have ended, because they become mpirun's children. Used
 * at the end of a job, by mpirun_procs.c and process_guard.c.
 */
#include "launch/procs/mpirun_procs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* True if the id is one of those in "id:id:...". */
static bool list_has_id(const char *list, const char *id)
{
    size_t id_len = strlen(id);
    for (const char *at = list; (at = strstr(at, id)) != NULL; at += id_len)
        if ((at == list || at[-1] == ':') && (at[id_len] == ':' || at[id_len] == '\0'))
            return true;
    return false;
}

/* True if the environment in this file (of /proc) contains the job's id. */
static bool file_has_job(const char *path, const char *job_id)
{
    static char *buffer;
    static size_t cap;
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (;;) {
        if (cap - len <= 1) {
            char *longer = realloc(buffer, cap ? cap * 2 : 1 << 16);
            if (longer == NULL)
                break;
            buffer = longer;
            cap = cap ? cap * 2 : 1 << 16;
        }
        ssize_t got = read(fd, buffer + len, cap - len - 1);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    close(fd);
    if (buffer == NULL)
        return false;
    buffer[len] = '\0';
    for (size_t at = 0; at < len; at += strlen(buffer + at) + 1)
        if (strncmp(buffer + at, PROCS_JOB_ENV "=", sizeof PROCS_JOB_ENV) == 0 &&
            list_has_id(buffer + at + sizeof PROCS_JOB_ENV, job_id))
            return true;
    return false;
}

const char *procs_read_stat(pid_t pid, char *text, size_t size_bytes)
{
    char path[64];
    int fd;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ssize_t len = read(fd, text, size_bytes - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    return strrchr(text, ')'); /* "PID (name) state parent ..." */
}

/* True if the process has this parent. */
static bool is_child_of(pid_t pid, pid_t parent)
{
    char text[1024];
    int found;
    const char *name_end = procs_read_stat(pid, text, sizeof text);
    return name_end && sscanf(name_end, ") %*c %d", &found) == 1 && found == (int)parent;
}

static bool has_job_id(const char *pid_text, const void *job_id)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/environ", pid_text);
    return file_has_job(path, job_id);
}

static bool is_unwanted_child(const char *pid_text, const void *except)
{
    pid_t pid = (pid_t)atoi(pid_text);
    return pid != *(const pid_t *)except && is_child_of(pid, getpid());
}

/* Kills the processes for which is_one is true; returns their number. */
static int kill_once(bool (*is_one)(const char *pid_text, const void *arg), const void *arg)
{
    int num = 0;
    DIR *listing = opendir("/proc");
    if (listing == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid > 1 && pid != getpid() && is_one(entry->d_name, arg) && kill(pid, SIGKILL) == 0) {
            num++;
            waitpid(pid, NULL, WNOHANG); /* a dead child stays a zombie until it is reaped */
        }
    }
    closedir(listing);
    return num;
}

/* Repeats until there are none: one of them may have forked meanwhile. No event tells that, and many of them are not
 * children. The number is limited because a process inside a driver ends late. */
static void kill_all(bool (*is_one)(const char *pid_text, const void *arg), const void *arg)
{
    for (int i = 0; i < 200 && kill_once(is_one, arg) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

void procs_leftover_kill(const char *job_id)
{
    kill_all(has_job_id, job_id);
}

void procs_leftover_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void procs_leftover_kill_children(pid_t except)
{
    kill_all(is_unwanted_child, &except);
}
