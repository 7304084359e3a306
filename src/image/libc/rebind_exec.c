/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_exec.c: functions that start another program with the caller's environment, which is the rank's.
 *
 * Functions with an environment argument (execve, posix_spawn) stay libc's.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The environment for a call from `caller`. */
static char **environment(const void *caller)
{
    struct image_libc *libc = image_libc_at(caller);

    return libc ? image_env_of(libc) : environ;
}

/* ---- exec ---- */

int image_libc_execv(const char *path, char *const *argv)
{
    return execve(path, argv, environment(__builtin_return_address(0)));
}

int image_libc_execvp(const char *file, char *const *argv)
{
    return execvpe(file, argv, environment(__builtin_return_address(0)));
}

static size_t count_arguments(va_list args)
{
    size_t n = 1;

    while (va_arg(args, char *))
        n++;
    return n;
}

/* execl and execlp. The arguments become an array on the stack: a child of vfork must not allocate its
 * parent's memory. */
static int exec_list(int (*exec)(const char *file, char *const *argv, char *const *env), const char *file,
                     const char *first, va_list args, char **env)
{
    va_list counted;

    va_copy(counted, args);
    size_t n = first ? count_arguments(counted) : 0;
    va_end(counted);
    char *argv[n + 1];
    argv[0] = (char *)first;
    for (size_t i = 1; i <= n; i++)
        argv[i] = va_arg(args, char *);
    return exec(file, argv, env);
}

int image_libc_execl(const char *path, const char *first, ...)
{
    va_list args;
    int result;

    va_start(args, first);
    result = exec_list(execve, path, first, args, environment(__builtin_return_address(0)));
    va_end(args);
    return result;
}

int image_libc_execlp(const char *file, const char *first, ...)
{
    va_list args;
    int result;

    va_start(args, first);
    result = exec_list(execvpe, file, first, args, environment(__builtin_return_address(0)));
    va_end(args);
    return result;
}

/* ---- system, popen ---- */

/* Waits for a shell to end; restarts after signals. Returns its status, -1 on error. */
static int await_shell(pid_t pid)
{
    int status;
    pid_t found;

    do
        found = image_wait_for_child(pid, &status, 0, NULL);
    while (found < 0 && errno == EINTR);
    return found == pid ? status : -1;
}

/* Starts a shell. fd: a descriptor duplicated to its target_fd; -1: none. Returns an error number. */
static int start_shell(pid_t *pid, const char *command, int fd, int target_fd, char **env)
{
    const char *argv[] = {"sh", "-c", "--", command, NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    if (!error && fd >= 0)
        error = posix_spawn_file_actions_adddup2(&actions, fd, target_fd);
    if (!error)
        error = posix_spawn(pid, "/bin/sh", &actions, NULL, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int image_libc_system(const char *command)
{
    char **env = environment(__builtin_return_address(0));
    int error;
    pid_t pid;

    if (!command)
        return access("/bin/sh", X_OK) == 0;
    error = start_shell(&pid, command, -1, -1, env);
    if (error == EAGAIN || error == ENOMEM) {
        errno = error;
        return -1;
    }
    if (error) /* as if the shell had exited with 127 */
        return W_EXITCODE(127, 0);
    return await_shell(pid);
}

/* A stream that popen has opened. */
struct pipe_stream {
    struct pipe_stream *next;
    FILE *file;
    pid_t pid;
};
static struct pipe_stream *streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

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
    pthread_mutex_lock(&streams_lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&streams_lock);
}

/* Removes the stream of a file from the list and returns it; NULL: popen did not open it. */
static struct pipe_stream *take_stream(const FILE *file)
{
    struct pipe_stream **link = &streams, *found;

    pthread_mutex_lock(&streams_lock);
    while (*link && (*link)->file != file)
        link = &(*link)->next;
    found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&streams_lock);
    return found;
}

FILE *image_libc_popen(const char *command, const char *mode)
{
    char **env = environment(__builtin_return_address(0));
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
                : start_shell(&stream->pid, command, fds[is_read ? 1 : 0], is_read ? 1 : 0, env);
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

int image_libc_pclose(FILE *file)
{
    struct pipe_stream *stream = take_stream(file);
    pid_t pid;

    if (!stream)
        return pclose(file);
    pid = stream->pid;
    free(stream);
    fclose(file);
    return await_shell(pid);
}
