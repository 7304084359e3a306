/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_exec.c: functions that start another program, with the caller's environment unless they have one as an argument.
 *
 * exec replaces the process, and with it all ranks that are in it. Once a rank has called MPI, the program therefore runs as
 * a child, and the rank ends with its exit code: other ranks notice what they would notice of a process. The child ends with
 * this process, however that happens. Before that, exec is libc's: the program may start itself again with other variables.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The environment for a call from `caller`. */
static char **environment(const void *caller)
{
    struct image_libc *libc = image_libc_at(caller);

    return libc ? image_env_of(libc) : environ;
}

/* The size of an environment with an entry more. */
static size_t child_env_bytes(char *const *env)
{
    size_t n = 0;

    while (env && env[n])
        n++;
    return (n + 2) * sizeof(char *);
}

char *const *image_child_env(char *const *env, char *entry, const void *caller)
{
    size_t n_bytes = child_env_bytes(env), n = n_bytes / sizeof(char *) - 2;
    int saved = errno;
    char **made;

    if (!image_rebind_client.child_entry ||
        !image_rebind_client.child_entry(caller, entry, IMAGE_CHILD_ENTRY_MAX))
        return env;
    made = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (made == MAP_FAILED)
        return env;
    if (n > 0)
        memcpy(made, env, n * sizeof(char *));
    made[n] = entry;
    return made;
}

void image_child_env_drop(char *const *env, char *const *made)
{
    int saved = errno;

    if (made != env)
        munmap((void *)(uintptr_t)made, child_env_bytes(env));
    errno = saved;
}

/* ---- exec ---- */

typedef int (*exec_fn)(const char *file, char *const *argv, char *const *env);

/* Waits for a program; restarts after signals. Returns its status, -1 on error. */
static int await_program(pid_t pid)
{
    int status;
    pid_t found;

    do
        found = image_wait_for_child(pid, &status, 0, NULL);
    while (found < 0 && errno == EINTR);
    return found == pid ? status : -1;
}

/* In the child of vfork, which has the parent's memory: becomes the program. The caller has blocked all signals; a handler of
 * the parent must not run here. The program ends with this process, as it would if it had replaced it. Returns if that fails. */
static void become(exec_fn exec, const char *file, char *const *argv, char *const *env, pid_t parent,
                   const sigset_t *mask)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction action;

    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaction(number, &usual, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        raise(SIGKILL);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    exec(file, argv, env);
}

/* Starts a program as a child of this thread, which must not end before it. Returns its process id; -1 with errno on
 * error. */
static pid_t start_program(exec_fn exec, const char *file, char *const *argv, char *const *env)
{
    pid_t parent = getpid(), pid;
    volatile int error = 0;
    sigset_t all, before, own, others;

    image_mask_of_others(&own, &others);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = vfork();
    if (pid == 0) {
        become(exec, file, argv, env, parent, &own);
        error = errno;
        _exit(127);
    }
    if (pid > 0 && error)
        waitpid(pid, NULL, 0);
    else if (pid < 0)
        error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return error ? -1 : pid;
}

/* Replaces the process, or the child of vfork, by a program, which does not inherit what other ranks block. */
static int replace(exec_fn exec, const char *file, char *const *argv, char *const *env)
{
    sigset_t own, others, before;
    int error;

    if (!image_mask_of_others(&own, &others))
        return exec(file, argv, env);
    pthread_sigmask(SIG_UNBLOCK, &others, &before);
    exec(file, argv, env);
    error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return -1;
}

/* execve or execvpe for code at `caller`. */
static int run_instead(exec_fn exec, const char *file, char *const *argv, char *const *env,
                       const void *caller)
{
    struct image_libc *libc = image_libc_at(caller);
    char entry[IMAGE_CHILD_ENTRY_MAX];
    char *const *made = image_child_env(env, entry, caller);
    int status;
    pid_t pid;

    if (!libc || image_is_forked_child() || !image_rebind_client.has_begun ||
        !image_rebind_client.has_begun()) {
        status = replace(exec, file, argv, made);
        image_child_env_drop(env, made);
        return status;
    }
    pid = start_program(exec, file, argv, made);
    image_child_env_drop(env, made);
    if (pid < 0)
        return -1;
    image_libc_setcancelstate(PTHREAD_CANCEL_DISABLE,
                              NULL); /* a process of its own has lost its other threads */
    status = await_program(pid);
    image_end(libc, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int image_libc_execve(const char *path, char *const *argv, char *const *env)
{
    return run_instead(execve, path, argv, env, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_execve, "execve");

static int image_libc_execvpe(const char *file, char *const *argv, char *const *env)
{
    return run_instead(execvpe, file, argv, env, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_execvpe, "execvpe");

static int image_libc_execv(const char *path, char *const *argv)
{
    const void *caller = __builtin_return_address(0);

    return run_instead(execve, path, argv, environment(caller), caller);
}
IMAGE_REBINDS(image_libc_execv, "execv"); /* replaces the rank, not the process; passes on its environment */

static int image_libc_execvp(const char *file, char *const *argv)
{
    const void *caller = __builtin_return_address(0);

    return run_instead(execvpe, file, argv, environment(caller), caller);
}
IMAGE_REBINDS(image_libc_execvp, "execvp");

static int image_libc_fexecve(int fd, char *const *argv, char *const *env)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return run_instead(execve, path, argv, env, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_fexecve, "fexecve");

static size_t count_arguments(va_list args)
{
    size_t n = 1;

    while (va_arg(args, char *))
        n++;
    return n;
}

/* execl, execlp and execle, where the environment follows the arguments. The arguments become an array on the stack: a child
 * of vfork must not allocate its parent's memory. */
static int exec_list(exec_fn exec, const char *file, const char *first, va_list args, bool has_env,
                     const void *caller)
{
    char **env = has_env ? NULL : environment(caller);
    va_list counted;

    va_copy(counted, args);
    size_t n = first ? count_arguments(counted) : 0;
    va_end(counted);
    char *argv[n + 1];
    argv[0] = (char *)first;
    for (size_t i = 1; i <= n; i++)
        argv[i] = va_arg(args, char *);
    if (has_env)
        env = va_arg(args, char **);
    return run_instead(exec, file, argv, env, caller);
}

#define RUNS_LIST(function, exec, has_env)                                                 \
    static int image_libc_##function(const char *file, const char *first, ...)             \
    {                                                                                      \
        va_list args;                                                                      \
        int result;                                                                        \
                                                                                           \
        va_start(args, first);                                                             \
        result = exec_list(exec, file, first, args, has_env, __builtin_return_address(0)); \
        va_end(args);                                                                      \
        return result;                                                                     \
    }                                                                                      \
    IMAGE_REBINDS(image_libc_##function, #function)

RUNS_LIST(execl, execve, false);
RUNS_LIST(execlp, execvpe, false);
RUNS_LIST(execle, execve, true);

/* ---- system, popen ---- */

/* Starts a shell for code at caller's address. fd: a descriptor duplicated to its target_fd; -1: none. Returns an error
 * number. */
static int start_shell(pid_t *pid, const char *command, int fd, int target_fd, const void *caller)
{
    const char *argv[] = {"sh", "-c", "--", command, NULL};
    char **env = environment(caller), entry[IMAGE_CHILD_ENTRY_MAX];
    char *const *made = image_child_env(env, entry, caller);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t changed;
    int error = posix_spawn_file_actions_init(&actions);

    if (!error && fd >= 0)
        error = posix_spawn_file_actions_adddup2(&actions, fd, target_fd);
    if (!error)
        error = posix_spawn(pid, "/bin/sh", &actions, image_mask_for_spawn(NULL, &changed),
                            (char *const *)argv, made);
    posix_spawn_file_actions_destroy(&actions);
    image_child_env_drop(env, made);
    return error;
}

static int image_libc_system(const char *command)
{
    const void *caller = __builtin_return_address(0);
    int error;
    pid_t pid;

    if (!command)
        return access("/bin/sh", X_OK) == 0;
    error = start_shell(&pid, command, -1, -1, caller);
    if (error == EAGAIN || error == ENOMEM) {
        errno = error;
        return -1;
    }
    if (error) /* as if the shell had exited with 127 */
        return W_EXITCODE(127, 0);
    return await_program(pid);
}
IMAGE_REBINDS(image_libc_system, "system"); /* passes on the rank's environment; other ranks run meanwhile */

/* A stream that popen has opened. */
struct pipe_stream {
    struct pipe_stream *next;
    FILE *file;
    pid_t pid;
};
static struct pipe_stream *streams;
pthread_mutex_t image_streams_lock = PTHREAD_MUTEX_INITIALIZER;

static bool parse_mode(const char *mode, bool *is_read_out)
{
    int n_directions = 0;

    for (; *mode; mode++) {
        n_directions += *mode == 'r' || *mode == 'w';
        *is_read_out = *is_read_out || *mode == 'r';
        if (!strchr("rwe", *mode))
            return false;
    }
    return n_directions == 1;
}

static void add_stream(struct pipe_stream *stream)
{
    pthread_mutex_lock(&image_streams_lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&image_streams_lock);
}

/* Removes the stream of a file from the list and returns it; NULL: popen did not open it. */
static struct pipe_stream *take_stream(const FILE *file)
{
    struct pipe_stream **link = &streams, *found;

    pthread_mutex_lock(&image_streams_lock);
    while (*link && (*link)->file != file)
        link = &(*link)->next;
    found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&image_streams_lock);
    return found;
}

static FILE *image_libc_popen(const char *command, const char *mode)
{
    const void *caller = __builtin_return_address(0);
    struct pipe_stream *stream;
    bool is_read = false;
    int fds[2], error;

    if (!parse_mode(mode, &is_read)) {
        errno = EINVAL;
        return NULL;
    }
    if (pipe2(fds, O_CLOEXEC) != 0)
        return NULL;
    stream = malloc(sizeof *stream);
    if (stream)
        stream->file = fdopen(fds[is_read ? 0 : 1], is_read ? "r" : "w");
    error = !stream || !stream->file
                ? ENOMEM
                : start_shell(&stream->pid, command, fds[is_read ? 1 : 0], is_read ? 1 : 0, caller);
    close(fds[is_read ? 1 : 0]);
    if (!error) {
        add_stream(stream);
        return stream->file;
    }
    if (stream && stream->file)
        fclose(stream->file);
    else
        close(fds[is_read ? 0 : 1]);
    free(stream);
    errno = error;
    return NULL;
}
IMAGE_REBINDS(image_libc_popen, "popen", "_IO_popen"); /* passes on the rank's environment */

static int image_libc_pclose(FILE *file)
{
    struct pipe_stream *stream = take_stream(file);
    pid_t pid;

    if (!stream)
        return pclose(file);
    pid = stream->pid;
    free(stream);
    fclose(file);
    return await_program(pid);
}
IMAGE_REBINDS(image_libc_pclose, "pclose"); /* waits for popen's child; other ranks run meanwhile */
