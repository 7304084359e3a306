/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The guard: a child that only reads notes about the job from a socket: its folder, and the pids of its
 * processes. If this process dies (SIGKILL, out of memory) the socket is closed, and the guard kills the
 * rest of the job and removes its folder. It has its own session, so signals that a terminal or a shell
 * sends to the job do not reach it. It is there before the job has a folder, and each folder is noted before
 * it is created: so none is left behind, whenever this process dies.
 * If the guard is killed too, the processes still die with mpirun (spawn.c), and a later run removes the
 * folder (jobdir.c).
 */
#include "launch/procs/mpirun_procs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A message to the guard. */
struct note {
    enum { FOLDER, PROCESS, ENDED, DISMISSED } kind; /* DISMISSED: the job has ended normally */
    pid_t pid; /* PROCESS: kill it, with its group; ENDED: do not, its number may be another's */
    char id[PROCS_NAME_MAX]; /* FOLDER: the job's id */
    char dir[PROCS_DIR_MAX]; /* FOLDER: its path; the last one counts */
};

static int guard_socket = -1; /* the guard waits until it is closed */
static pid_t guard_pid;       /* 0: no guard */

static void clean_up(const struct note *folder, const pid_t *pids, int num)
{
    for (int i = 0; i < num; i++)
        kill(-pids[i], SIGKILL);
    if (folder->dir[0] != '\0') {
        procs_leftover_kill(folder->id);
        procs_jobdir_remove(folder->dir);
        procs_universe_tidy();
    }
}

/* Removes the pid from the first num; returns how many are left. */
static int remove_pid(pid_t *pids, int num, pid_t pid)
{
    for (int i = 0; i < num; i++)
        if (pids[i] == pid) {
            pids[i] = pids[--num];
            return num;
        }
    return num;
}

static _Noreturn void watch(int num_procs, int fd)
{
    pid_t *pids = calloc((size_t)num_procs, sizeof pids[0]);
    struct note note, folder = {.kind = FOLDER};
    int num = 0;
    ssize_t len;
    setsid();
    prctl(PR_SET_NAME, "mpirun-guard");
    int nothing = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        dup2(nothing, i);
    if (write(fd, "", 1) != 1) /* ready */
        _exit(0);
    while ((len = read(fd, &note, sizeof note)) == sizeof note || (len < 0 && errno == EINTR)) {
        if (len < 0)
            continue;
        if (note.kind == DISMISSED)
            _exit(0);
        if (note.kind == FOLDER)
            folder = note;
        else if (note.kind == ENDED)
            num = remove_pid(pids, num, note.pid);
        else if (pids && num < num_procs)
            pids[num++] = note.pid;
    }
    clean_up(&folder, pids, num);
    _exit(0);
}

/* True if the guard has got the note. */
static bool tell(const struct note *note)
{
    if (guard_pid != 0 && write(guard_socket, note, sizeof *note) != sizeof *note)
        guard_pid = 0; /* it was killed */
    return guard_pid != 0;
}

/* Waits until the guard has its own session: a signal that kills this process's group does not reach it. */
void procs_guard_start(int num_procs)
{
    int ends[2];
    char ready;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    guard_pid = fork();
    if (guard_pid == 0) {
        close(ends[1]);
        watch(num_procs, ends[0]);
    }
    close(ends[0]);
    if (guard_pid < 0) { /* continue without a guard */
        guard_pid = 0;
        close(ends[1]);
        return;
    }
    guard_socket = ends[1];
    while (read(guard_socket, &ready, 1) < 0 && errno == EINTR)
        ;
}

void procs_guard_add_folder(const struct procs_job *job)
{
    struct note note = {.kind = FOLDER};
    memcpy(note.id, job->id, sizeof note.id);
    memcpy(note.dir, job->dir, sizeof note.dir);
    tell(&note);
}

void procs_guard_add(pid_t pid)
{
    tell(&(struct note){.kind = PROCESS, .pid = pid});
}

void procs_guard_remove(pid_t pid)
{
    tell(&(struct note){.kind = ENDED, .pid = pid});
}

pid_t procs_guard_pid(void)
{
    return guard_pid;
}

void procs_guard_dismiss(void)
{
    if (!tell(&(struct note){.kind = DISMISSED}))
        return;
    waitpid(guard_pid, NULL, 0);
    close(guard_socket);
    guard_pid = 0;
}
