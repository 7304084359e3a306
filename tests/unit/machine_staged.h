/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_staged.h: a machine (machine_ucx/machine.h) in memory for the tests of the layers above it. This
 * process is process 0 of two; the test plays process 1: it reads the messages sent there (staged.sent), and
 * puts messages from there (staged_put), which the next polls deliver in that order.
 */
#ifndef MACHINE_STAGED_H
#define MACHINE_STAGED_H

#include <stdlib.h>
#include <string.h>

#include "machine_ucx/machine.h"

#define STAGED_SENT_MAX 4096

/* What was sent to process 1. */
struct staged_sent {
    unsigned char header[MACHINE_HEADER_MAX];
    const void *data;
    size_t n_bytes;
    machine_done_fn done; /* NULL: it was done at once */
    void *arg;
};

/* What comes from process 1. */
struct staged_message {
    struct staged_message *next;
    unsigned char header[MACHINE_HEADER_MAX];
    size_t header_bytes;
    const void *data;
    size_t n_bytes;
    bool is_away;
};

static struct {
    struct machine_client client;
    struct staged_sent sent[STAGED_SENT_MAX];
    int n_sent;
    int send_result;   /* what send returns */
    int fetch_result;  /* what a fetch ends with */
    int n_fetched;     /* fetches begun */
    int n_kept;        /* messages whose data is kept */
    int n_forgotten;   /* calls of forget */
    bool is_cuda_fine; /* what takes says of device memory */
    struct staged_message *first, *last;
    /* A fetch that ends at the next poll. */
    machine_done_fn fetch_done;
    void *fetch_arg;
} staged;

/* Has a message come from process 1; data must stay valid. */
static inline void staged_put(const void *header, size_t header_bytes, const void *data, size_t n_bytes,
                              bool is_away)
{
    struct staged_message *message = calloc(1, sizeof *message);

    memcpy(message->header, header, header_bytes);
    message->header_bytes = header_bytes;
    message->data = data;
    message->n_bytes = n_bytes;
    message->is_away = is_away;
    if (staged.last)
        staged.last->next = message;
    else
        staged.first = message;
    staged.last = message;
}

static bool staged_attach(struct machine_place *place_out, const char **error_out)
{
    (void)error_out;
    *place_out = (struct machine_place){.n_procs = 2, .node_n_procs = 1};
    return true;
}

static bool staged_open(int n_pes, const struct machine_client *client, const char **error_out)
{
    *error_out = "one PE only";
    staged.client = *client;
    return n_pes == 1;
}

static int staged_n_pes_of(int proc_id)
{
    return proc_id < 2 ? 1 : -1;
}

static bool staged_takes(enum machine_memory memory)
{
    return memory == MACHINE_HOST || staged.is_cuda_fine;
}

static int staged_send(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
                       const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done,
                       void *arg)
{
    struct staged_sent *sent = &staged.sent[staged.n_sent];

    (void)pe_id;
    (void)memory;
    if (staged.send_result < 0 || dest_proc != 1 || dest_pe != 0 || staged.n_sent == STAGED_SENT_MAX)
        return MACHINE_PEER_FAILED;
    staged.n_sent++;
    memcpy(sent->header, header, header_bytes);
    sent->data = data;
    sent->n_bytes = n_bytes;
    sent->done = staged.send_result == MACHINE_PENDING ? done : NULL;
    sent->arg = arg;
    return staged.send_result;
}

static int staged_fetch(int pe_id, int src_proc, void *token, void *buf, size_t n_bytes,
                        enum machine_memory memory, machine_done_fn done, void *arg)
{
    struct staged_message *message = token;

    (void)pe_id;
    (void)src_proc;
    (void)memory;
    memcpy(buf, message->data, n_bytes);
    free(message);
    staged.n_kept--;
    staged.n_fetched++;
    staged.fetch_done = done;
    staged.fetch_arg = arg;
    return MACHINE_PENDING;
}

static void staged_release(int pe_id, void *token)
{
    (void)pe_id;
    staged.n_kept--;
    free(token);
}

/* One message at a time, so that the test sees every state between. */
static int staged_poll(int pe_id)
{
    struct staged_message *message = staged.first;
    machine_done_fn fetch_done = staged.fetch_done;

    if (fetch_done) {
        staged.fetch_done = NULL;
        fetch_done(staged.fetch_arg, staged.fetch_result);
    }
    if (!message)
        return fetch_done != NULL;
    staged.first = message->next;
    if (!staged.first)
        staged.last = NULL;
    struct machine_data data = {message->is_away ? NULL : message->data, message->n_bytes, message, true};
    staged.n_kept++;
    if (!staged.client.handle(pe_id, message->header, message->header_bytes, &data))
        staged_release(pe_id, message);
    return 1;
}

static int staged_fd(int pe_id)
{
    (void)pe_id;
    return -1;
}

static bool staged_arm(int pe_id)
{
    (void)pe_id;
    return !staged.first && !staged.fetch_done;
}

static void staged_close(double limit_s)
{
    (void)limit_s;
}

static void staged_tolerate(void) {}

static void staged_forget(int pe_id, int proc_id)
{
    (void)pe_id;
    (void)proc_id;
    staged.n_forgotten++;
}

static void staged_abort(int exit_code, const char *why)
{
    (void)why;
    _Exit(exit_code);
}

static const struct machine staged_machine = {
    .name = "staged",
    .attach = staged_attach,
    .open = staged_open,
    .n_pes_of = staged_n_pes_of,
    .takes = staged_takes,
    .send = staged_send,
    .fetch = staged_fetch,
    .release = staged_release,
    .poll = staged_poll,
    .fd = staged_fd,
    .arm = staged_arm,
    .close = staged_close,
    .tolerate = staged_tolerate,
    .forget = staged_forget,
    .abort = staged_abort,
};

#endif
