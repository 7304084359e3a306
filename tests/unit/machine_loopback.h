/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_loopback.h: a machine (machine_ucx/machine.h) of one process that sends to itself: messages wait in
 * a list per port until it is polled. Small data comes with the header, larger data has to be fetched. On
 * request it delivers the newest first, because messages may overtake each other.
 */
#ifndef MACHINE_LOOPBACK_H
#define MACHINE_LOOPBACK_H

#include <stdlib.h>
#include <string.h>

#include "machine_ucx/machine.h"

#define LOOPBACK_PES 4
#define LOOPBACK_EAGER_BYTES 1024

struct loopback_message {
    struct loopback_message *next;
    unsigned char header[MACHINE_HEADER_MAX];
    size_t header_bytes;
    const void *away; /* the sender's buffer; NULL: the data is in bytes */
    size_t n_bytes;
    machine_done_fn done; /* of the send; once fetched */
    void *arg;
    unsigned char bytes[LOOPBACK_EAGER_BYTES];
};

static struct {
    struct machine_client client;
    struct loopback_message *waiting[LOOPBACK_PES]; /* oldest first */
    bool is_newest_first;
    int n_live; /* messages whose memory is in use */
} loopback;

static bool loopback_attach(struct machine_place *place_out, const char **error_out)
{
    (void)error_out;
    *place_out = (struct machine_place){.n_procs = 1, .node_n_procs = 1};
    return true;
}

static bool loopback_open(int n_pes, const struct machine_client *client, const char **error_out)
{
    *error_out = "too many PEs";
    loopback.client = *client;
    return n_pes <= LOOPBACK_PES;
}

static int loopback_n_pes_of(int proc_id)
{
    return proc_id == 0 ? LOOPBACK_PES : -1;
}

static bool loopback_takes(enum machine_memory memory)
{
    return memory == MACHINE_HOST;
}

static int loopback_send(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
                         const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done,
                         void *arg)
{
    struct loopback_message **link = &loopback.waiting[dest_pe];
    struct loopback_message *message;

    (void)pe_id;
    (void)memory;
    if (dest_proc != 0)
        return MACHINE_PEER_FAILED;
    message = calloc(1, sizeof *message);
    memcpy(message->header, header, header_bytes);
    message->header_bytes = header_bytes;
    message->n_bytes = n_bytes;
    if (n_bytes > LOOPBACK_EAGER_BYTES) {
        message->away = data;
        message->done = done;
        message->arg = arg;
    } else if (n_bytes) {
        memcpy(message->bytes, data, n_bytes);
    }
    while (*link && !loopback.is_newest_first)
        link = &(*link)->next;
    message->next = *link;
    *link = message;
    loopback.n_live++;
    return message->away ? MACHINE_PENDING : MACHINE_DONE;
}

static void loopback_release(int pe_id, void *token)
{
    (void)pe_id;
    loopback.n_live--;
    free(token);
}

static int loopback_fetch(int pe_id, int src_proc, void *token, void *buf, size_t n_bytes,
                          enum machine_memory memory, machine_done_fn done, void *arg)
{
    struct loopback_message *message = token;

    (void)src_proc;
    (void)memory;
    (void)done;
    (void)arg;
    memcpy(buf, message->away, n_bytes);
    message->done(message->arg, MACHINE_DONE);
    loopback_release(pe_id, token);
    return MACHINE_DONE;
}

static int loopback_poll(int pe_id)
{
    int n_events = 0;

    while (loopback.waiting[pe_id]) {
        struct loopback_message *message = loopback.waiting[pe_id];
        struct machine_data data = {message->away ? NULL : message->bytes, message->n_bytes, message, true};
        loopback.waiting[pe_id] = message->next;
        if (!loopback.client.handle(pe_id, message->header, message->header_bytes, &data))
            loopback_release(pe_id, message);
        n_events++;
    }
    return n_events;
}

static int loopback_fd(int pe_id)
{
    (void)pe_id;
    return -1;
}

static bool loopback_arm(int pe_id)
{
    return loopback.waiting[pe_id] == NULL;
}

static void loopback_close(double limit_s)
{
    (void)limit_s;
    for (int i = 0; i < LOOPBACK_PES; i++)
        loopback_poll(i);
}

/* There is nobody to lose. */
static void loopback_tolerate(void) {}

static void loopback_forget(int pe_id, int proc_id)
{
    (void)pe_id;
    (void)proc_id;
}

static void loopback_abort(int exit_code, const char *why)
{
    (void)why;
    exit(exit_code);
}

static const struct machine loopback_machine = {
    .name = "loopback",
    .attach = loopback_attach,
    .open = loopback_open,
    .n_pes_of = loopback_n_pes_of,
    .takes = loopback_takes,
    .send = loopback_send,
    .fetch = loopback_fetch,
    .release = loopback_release,
    .poll = loopback_poll,
    .fd = loopback_fd,
    .arm = loopback_arm,
    .close = loopback_close,
    .tolerate = loopback_tolerate,
    .forget = loopback_forget,
    .abort = loopback_abort,
};

#endif
