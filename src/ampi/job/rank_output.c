/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_output.c: output of ranks that share a process, for mpirun --tag-output. The ranks' stdout and stderr, and write() on
 * descriptors 1 and 2, go to mpirun through a socket for each of the two; a packet names its rank (base/launched.h). The C
 * library's streams are shared by all ranks, so they have no buffers here: text is sent by the rank that prints it, also on
 * its other threads and in a process that it forks. Other text of the process (of shared libraries that write to the
 * descriptors, of programs that a rank starts) takes the process's own way, and so does all output once a descriptor has been
 * replaced by another file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ampi/job/job.h"
#include "ampi/procs/launcher_env.h"
#include "base/launched.h"
#include "image/image.h"

/* stdout and stderr. */
static struct channel {
    int number;   /* the descriptor whose output it takes */
    int fd;       /* the socket */
    dev_t device; /* the file that the descriptor was at the start */
    ino_t inode;  /* ... */
    FILE *stream; /* of the ranks */
} channels[2];

/* True if the descriptor is still the file of the start. */
static bool is_unchanged(const struct channel *channel)
{
    struct stat status;

    return fstat(channel->number, &status) == 0 && status.st_dev == channel->device &&
           status.st_ino == channel->inode;
}

/* Sends text as the calling rank's, or writes it if the caller is not a rank. Returns the number of bytes; on failure -1
 * with errno. Blocks while mpirun's reader is slow, as a pipe does. */
static ssize_t send_text(const struct channel *channel, const char *text, size_t n_bytes)
{
    const struct ampi_rank *rank = ampi_rank_of_thread(NULL);
    int32_t job_rank = !rank                                         ? -1
                       : rank->spawned && rank->spawned->number == 0 ? ampi_rank_number(rank)
                                                                     : rank->world_rank;
    size_t done = 0;

    if (!rank || !is_unchanged(channel))
        return write(channel->number, text, n_bytes);
    while (done < n_bytes) {
        size_t n = n_bytes - done < BASE_LAUNCHED_OUTPUT_MAX ? n_bytes - done : BASE_LAUNCHED_OUTPUT_MAX;
        struct iovec parts[] = {{&job_rank, sizeof job_rank}, {(void *)(uintptr_t)(text + done), n}};
        if (writev(channel->fd, parts, 2) < 0) {
            if (errno == EPIPE)
                raise(SIGPIPE); /* as for a pipe; sockets with packets do not */
            return done ? (ssize_t)done : -1;
        }
        done += n;
    }
    return (ssize_t)done;
}

static ssize_t write_stream(void *arg, const char *text, size_t n_bytes)
{
    return send_text(arg, text, n_bytes);
}

static bool write_descriptor(int fd, const void *bytes, size_t n_bytes, ssize_t *written_out)
{
    if (fd != STDOUT_FILENO && fd != STDERR_FILENO)
        return false;
    *written_out = send_text(&channels[fd - 1], bytes, n_bytes);
    return true;
}

static int number_of(const void *stream)
{
    for (int i = 0; i < 2; i++)
        if (channels[i].stream == stream)
            return channels[i].number;
    return -1;
}

static const struct image_output output = {.write = write_descriptor, .number = number_of};

static FILE *open_stream(struct channel *channel, int number, int fd)
{
    struct stat status;
    FILE *stream;

    if (fstat(number, &status) != 0)
        return NULL;
    *channel = (struct channel){.number = number, .fd = fd, .device = status.st_dev, .inode = status.st_ino};
    stream = fopencookie(channel, "w", (cookie_io_functions_t){.write = write_stream});
    if (stream)
        setvbuf(stream, NULL, _IONBF, 0);
    return channel->stream = stream;
}

void ampi_rank_output_open(void)
{
    const char *text = ampi_launched_output();
    FILE *out, *err;
    int fds[2];

    if (!text || sscanf(text, "%d,%d", &fds[0], &fds[1]) != 2)
        return;
    out = open_stream(&channels[0], STDOUT_FILENO, fds[0]);
    err = open_stream(&channels[1], STDERR_FILENO, fds[1]);
    if (!out || !err)
        return;
    for (int i = 0; i < 2; i++)
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
    fflush(stdout);
    stdout = out;
    stderr = err;
    image_output = &output;
}
