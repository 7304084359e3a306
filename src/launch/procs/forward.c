/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Forwards the output of the processes. A stream (stdout or stderr of one process) collects bytes until a
 * line is complete; complete lines go to the queue of a sink (stdout or stderr of mpirun). Invariants:
 *
 *      1. A sink's queue holds whole lines, so lines are never mixed. If stdout and stderr of mpirun are
 *         the same file, both are one sink.
 *      2. While a sink's queue is longer than QUEUE_BYTES, its streams are not read: a slow reader blocks
 *         the processes, as it would without mpirun.
 *      3. Writing never blocks: a sink that can block (a pipe, a terminal) is polled before each write of
 *         at most one page, the size that poll guarantees room for.
 *      4. When a sink's reader has gone, its streams are closed, and the processes get SIGPIPE or EPIPE, as
 *         they would without mpirun.
 *
 * A line longer than LINE_BYTES is forwarded in pieces. With --tag-output, ranks that share a process send their output
 * through two sockets of the process, and a packet names its rank (src/ampi/job/rank_output.c): each rank has streams of its
 * own, without a descriptor. Used by mpirun_procs.c.
 */
#include "launch/procs/mpirun_procs.h"

#include "base/launched.h"
#include "base/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    READ_BYTES = 1 << 16,
    QUEUE_BYTES = 1 << 20,
    LINE_BYTES = 16 << 20,
    PAGE_BYTES = 4096,
    PACKETS = 64, /* of a socket that are read in turn */
};

/* Bytes start ... start + len - 1 are in use. */
struct bytes {
    char *data;
    size_t start;
    size_t len;
    size_t cap;
};

struct sink {
    int fd;             /* of mpirun, 1 or 2 */
    bool can_block;     /* not a regular file */
    bool is_broken;     /* its reader has gone */
    struct bytes queue; /* whole lines to be written */
    int mid_line_of; /* index of the stream whose line is incomplete at the end of the queue or of the output;
                      * -1: none */
};

struct stream {
    int fd;             /* read end of the process's stdout or stderr; -1: closed, or a rank's */
    int proc_id;        /* process of the stream */
    struct sink *sink;  /* destination of its lines */
    struct bytes line;  /* the unfinished line */
    size_t num_scanned; /* bytes of line that are known to contain no newline */
    char tag[48];       /* prefix of each line; "" without --tag-output */
    size_t tag_len;     /* its length */
    int index;          /* its index among the streams; after those of the processes come those of ranks */
};

/* A socket for the output of a process's ranks. */
struct channel {
    int fd;            /* -1: closed */
    int proc_id;       /* the process */
    bool is_stderr;    /* or stdout */
    struct sink *sink; /* destination of its lines */
};

struct procs_forward {
    struct sink sinks[2];     /* stdout, stderr; the second one is unused if both are the same file */
    struct stream *streams;   /* num_streams of them */
    int num_streams;          /* in use */
    int max_streams;          /* two per process */
    struct channel *channels; /* num_channels of them; none without --tag-output */
    int num_channels;         /* in use; at most max_streams */
    struct stream **of_ranks; /* by 2 * rank + is_stderr; NULL: no output yet */
    int num_of_ranks;         /* length of of_ranks */
    const struct procs_options *options; /* of the command line */
    struct procs_proc *procs;            /* for recording close_order */
    int num_closed;                      /* processes whose output has ended */
    bool has_failed;                     /* output could not be written although it had a reader */
};

/* ---- Bytes ---- */

/* Reserves room for count more bytes at the end. */
static char *bytes_room(struct bytes *bytes, size_t count)
{
    if (bytes->start > 0 && bytes->start + bytes->len + count > bytes->cap) {
        memmove(bytes->data, bytes->data + bytes->start, bytes->len);
        bytes->start = 0;
    }
    if (bytes->len + count > bytes->cap) {
        size_t cap = (bytes->len + count) * 2;
        char *longer = realloc(bytes->data, cap);
        if (longer == NULL)
            launch_fail(1, "out of memory for the output of the processes");
        bytes->data = longer;
        bytes->cap = cap;
    }
    return bytes->data + bytes->start + bytes->len;
}

static void bytes_append(struct bytes *bytes, const char *data, size_t count)
{
    if (count == 0)
        return;
    memcpy(bytes_room(bytes, count), data, count);
    bytes->len += count;
}

static void bytes_drop(struct bytes *bytes, size_t count)
{
    bytes->start += count;
    bytes->len -= count;
    if (bytes->len == 0)
        bytes->start = 0;
}

/* ---- Sinks ---- */

static bool is_writable_now(int fd)
{
    struct pollfd watched = {.fd = fd, .events = POLLOUT};
    return poll(&watched, 1, 0) > 0;
}

static void channel_close(struct channel *channel)
{
    close(channel->fd);
    channel->fd = -1;
}

/* The reader has closed its end. */
static void sink_break(struct procs_forward *forward, struct sink *sink)
{
    sink->is_broken = true;
    sink->queue.len = sink->queue.start = 0;
    for (int i = 0; i < forward->num_streams; i++) {
        struct stream *stream = &forward->streams[i];
        if (stream->sink != sink || stream->fd < 0)
            continue;
        close(stream->fd);
        stream->fd = -1;
        stream->line.len = stream->line.start = 0;
    }
    for (int i = 0; i < forward->num_channels; i++)
        if (forward->channels[i].sink == sink && forward->channels[i].fd >= 0)
            channel_close(&forward->channels[i]);
    for (int i = 0; i < forward->num_of_ranks; i++)
        if (forward->of_ranks[i] != NULL && forward->of_ranks[i]->sink == sink)
            forward->of_ranks[i]->line.len = forward->of_ranks[i]->line.start = 0;
}

static void sink_write(struct procs_forward *forward, struct sink *sink)
{
    struct bytes *queue = &sink->queue;
    while (queue->len > 0) {
        size_t count = queue->len;
        if (sink->can_block) {
            if (!is_writable_now(sink->fd))
                return;
            if (count > PAGE_BYTES) { /* whole lines if possible: mpirun's own messages may come between */
                const char *start = queue->data + queue->start;
                const char *newline = memrchr(start, '\n', PAGE_BYTES);
                count = newline ? (size_t)(newline + 1 - start) : PAGE_BYTES;
            }
        }
        ssize_t put = write(sink->fd, queue->data + queue->start, count);
        if (put < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (put < 0) {
            forward->has_failed = forward->has_failed || errno != EPIPE;
            if (errno != EPIPE && sink->fd != STDERR_FILENO)
                launch_say("cannot write the output of the processes: %s", strerror(errno));
            sink_break(forward, sink);
            return;
        }
        bytes_drop(queue, (size_t)put);
    }
}

/* ---- Streams ---- */

/* Moves the first count bytes of the unfinished line, which end with a newline or are shown unfinished, to
 * the sink, with a tag in front of each line. */
static void stream_queue(struct stream *stream, size_t count)
{
    struct bytes *line = &stream->line, *queue = &stream->sink->queue;
    int *mid_line_of = &stream->sink->mid_line_of;
    const char *at = line->data + line->start, *end = at + count;
    if (count == 0)
        return;
    if (*mid_line_of >= 0 && *mid_line_of != stream->index) {
        bytes_append(queue, "\n", 1);
        *mid_line_of = -1;
    }
    while (at < end) {
        const char *newline = stream->tag_len ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        const char *next = newline ? newline + 1 : end;
        if (*mid_line_of != stream->index)
            bytes_append(queue, stream->tag, stream->tag_len);
        bytes_append(queue, at, (size_t)(next - at));
        *mid_line_of = next[-1] == '\n' ? -1 : stream->index;
        at = next;
    }
    bytes_drop(line, count);
    stream->num_scanned = 0;
}

/* The stream has ended. If its process has closed both streams, it is probably dying. */
static void stream_closed(struct procs_forward *forward, struct stream *stream)
{
    close(stream->fd);
    stream->fd = -1;
    free(stream->line.data);
    stream->line = (struct bytes){0};
    if (forward->streams[stream->index ^ 1].fd < 0)
        forward->procs[stream->proc_id].close_order = ++forward->num_closed;
}

/* Moves the complete lines to the sink. */
static void stream_queue_lines(struct stream *stream)
{
    struct bytes *line = &stream->line;
    const char *start = line->data + line->start;
    const char *newline = memrchr(start + stream->num_scanned, '\n', line->len - stream->num_scanned);
    if (newline != NULL)
        stream_queue(stream, (size_t)(newline + 1 - start));
    else if (line->len >= LINE_BYTES)
        stream_queue(stream, line->len);
    stream->num_scanned = line->len;
}

/* Reads once. The pipe must be readable or at its end. */
static void stream_read(struct procs_forward *forward, struct stream *stream)
{
    struct bytes *line = &stream->line;
    ssize_t got = read(stream->fd, bytes_room(line, READ_BYTES), READ_BYTES);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) { /* end of file: a last line without a newline counts, too */
        stream_queue(stream, line->len);
        stream_closed(forward, stream);
        return;
    }
    line->len += (size_t)got;
    stream_queue_lines(stream);
}

/* ---- Output of ranks ---- */

/* The rank's stream; NULL: no such rank. */
static struct stream *stream_of_rank(struct procs_forward *forward, const struct channel *channel,
                                     int32_t rank)
{
    if (rank < 0 || rank >= BASE_RANKS_MAX)
        return NULL;
    int at = 2 * rank + channel->is_stderr;
    if (at >= forward->num_of_ranks) {
        int num = 2 * (at + 2);
        struct stream **longer = realloc(forward->of_ranks, (size_t)num * sizeof longer[0]);
        if (longer == NULL)
            launch_fail(1, "out of memory for the output of the ranks");
        memset(longer + forward->num_of_ranks, 0, (size_t)(num - forward->num_of_ranks) * sizeof longer[0]);
        forward->of_ranks = longer;
        forward->num_of_ranks = num;
    }
    if (forward->of_ranks[at] == NULL) {
        struct stream *stream = forward->of_ranks[at] = calloc(1, sizeof *stream);
        if (stream == NULL)
            launch_fail(1, "out of memory for the output of the ranks");
        *stream = (struct stream){
            .fd = -1, .proc_id = channel->proc_id, .sink = channel->sink, .index = forward->max_streams + at};
        stream->tag_len = (size_t)snprintf(stream->tag, sizeof stream->tag, "[%d]<%s> ", (int)rank,
                                           channel->is_stderr ? "stderr" : "stdout");
    }
    return forward->of_ranks[at];
}

/* Moves the unfinished lines of a process's ranks to the sinks. */
static void show_ranks_of(struct procs_forward *forward, const struct channel *channel)
{
    for (int i = channel->is_stderr; i < forward->num_of_ranks; i += 2)
        if (forward->of_ranks[i] != NULL && forward->of_ranks[i]->proc_id == channel->proc_id)
            stream_queue(forward->of_ranks[i], forward->of_ranks[i]->line.len);
}

static void channel_read(struct procs_forward *forward, struct channel *channel)
{
    char text[BASE_LAUNCHED_OUTPUT_MAX];
    int32_t rank;
    struct iovec parts[] = {{&rank, sizeof rank}, {text, sizeof text}};
    struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t got = recvmsg(channel->fd, &packet, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        show_ranks_of(forward, channel);
        channel_close(channel);
        return;
    }
    struct stream *stream = got > (ssize_t)sizeof rank ? stream_of_rank(forward, channel, rank) : NULL;
    if (stream == NULL)
        return;
    bytes_append(&stream->line, text, (size_t)got - sizeof rank);
    stream_queue_lines(stream);
}

static bool channel_is_read(const struct channel *channel)
{
    return channel->fd >= 0 && channel->sink->queue.len < QUEUE_BYTES;
}

static bool stream_is_read(const struct stream *stream)
{
    return stream->fd >= 0 && stream->sink->queue.len < QUEUE_BYTES;
}

/* ---- Functions for mpirun_procs.c ---- */

static bool is_same_file(int a, int b)
{
    struct stat status_a, status_b;
    return fstat(a, &status_a) == 0 && fstat(b, &status_b) == 0 && status_a.st_dev == status_b.st_dev &&
           status_a.st_ino == status_b.st_ino;
}

static bool is_regular_file(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

struct procs_forward *procs_forward_create(struct procs_proc *procs, int max_procs,
                                           const struct procs_options *options)
{
    struct procs_forward *forward = calloc(1, sizeof *forward);
    if (forward == NULL)
        return NULL;
    forward->max_streams = 2 * max_procs;
    forward->streams = calloc((size_t)forward->max_streams, sizeof forward->streams[0]);
    forward->channels = calloc((size_t)forward->max_streams, sizeof forward->channels[0]);
    if (forward->streams == NULL || forward->channels == NULL) {
        free(forward->streams);
        free(forward->channels);
        free(forward);
        return NULL;
    }
    forward->procs = procs;
    forward->options = options;
    for (int i = 0; i < 2; i++)
        forward->sinks[i] =
            (struct sink){.fd = i + 1, .can_block = !is_regular_file(i + 1), .mid_line_of = -1};
    return forward;
}

static struct sink *sink_of(struct procs_forward *forward, bool is_stderr)
{
    return &forward->sinks[is_stderr && !is_same_file(STDOUT_FILENO, STDERR_FILENO)];
}

/* "[3]<stdout> ", or with the first and last rank of the process "[0-3]<stdout> ". */
static size_t write_tag(const struct procs_forward *forward, int proc_id, bool is_stderr, char tag_out[48])
{
    long first, last;
    int spawn = procs_program_of(forward->options, proc_id)->spawn;
    char range[24] = "", prefix[24] = "";
    procs_ranks_of(forward->options, proc_id, &first, &last);
    if (last < first) /* a program without MPI */
        first = proc_id;
    if (last > first)
        snprintf(range, sizeof range, "-%ld", last);
    if (spawn > 0)
        snprintf(prefix, sizeof prefix, "spawn %d, ", spawn);
    return (size_t)snprintf(tag_out, 48, "[%s%ld%s]<%s> ", prefix, first, range,
                            is_stderr ? "stderr" : "stdout");
}

void procs_forward_add(struct procs_forward *forward, int proc_id, bool is_stderr, int fd)
{
    int index = forward->num_streams++;
    struct stream *stream = &forward->streams[index];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    *stream =
        (struct stream){.fd = fd, .index = index, .proc_id = proc_id, .sink = sink_of(forward, is_stderr)};
    if (forward->options->tags_output)
        stream->tag_len = write_tag(forward, proc_id, is_stderr, stream->tag);
}

void procs_forward_add_ranks(struct procs_forward *forward, int proc_id, bool is_stderr, int fd)
{
    forward->channels[forward->num_channels++] = (struct channel){
        .fd = fd, .proc_id = proc_id, .is_stderr = is_stderr, .sink = sink_of(forward, is_stderr)};
}

int procs_forward_max_watched(const struct procs_forward *forward)
{
    return 2 * forward->max_streams + 2;
}

int procs_forward_watch(struct procs_forward *forward, struct pollfd *watched)
{
    int num = 0;
    for (int i = 0; i < forward->num_streams; i++)
        if (stream_is_read(&forward->streams[i]))
            watched[num++] = (struct pollfd){.fd = forward->streams[i].fd, .events = POLLIN};
    for (int i = 0; i < forward->num_channels; i++)
        if (channel_is_read(&forward->channels[i]))
            watched[num++] = (struct pollfd){.fd = forward->channels[i].fd, .events = POLLIN};
    for (int i = 0; i < 2; i++)
        if (forward->sinks[i].queue.len > 0)
            watched[num++] = (struct pollfd){.fd = forward->sinks[i].fd, .events = POLLOUT};
    return num;
}

void procs_forward_work(struct procs_forward *forward)
{
    for (int i = 0; i < forward->num_streams; i++)
        if (stream_is_read(&forward->streams[i]))
            stream_read(forward, &forward->streams[i]);
    for (int i = 0; i < forward->num_channels; i++)
        for (int n = 0; n < PACKETS && channel_is_read(&forward->channels[i]); n++)
            channel_read(forward, &forward->channels[i]);
    for (int i = 0; i < 2; i++)
        sink_write(forward, &forward->sinks[i]);
}

void procs_forward_show_unfinished(struct procs_forward *forward)
{
    for (int i = 0; i < forward->num_streams; i++)
        if (forward->streams[i].proc_id == 0 && forward->streams[i].fd >= 0)
            stream_queue(&forward->streams[i], forward->streams[i].line.len);
    for (int i = 0; i < forward->num_channels; i++)
        if (forward->channels[i].proc_id == 0)
            show_ranks_of(forward, &forward->channels[i]);
}

bool procs_forward_has_failed(const struct procs_forward *forward)
{
    return forward->has_failed;
}

bool procs_forward_is_done(const struct procs_forward *forward)
{
    for (int i = 0; i < forward->num_streams; i++)
        if (forward->streams[i].fd >= 0)
            return false;
    for (int i = 0; i < forward->num_channels; i++)
        if (forward->channels[i].fd >= 0)
            return false;
    return forward->sinks[0].queue.len == 0 && forward->sinks[1].queue.len == 0;
}
