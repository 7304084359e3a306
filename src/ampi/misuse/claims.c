/* SPDX-License-Identifier: BSD-3-Clause
 *
 * claims.c: +check usage: one-sided operations on targets of other processes: their processes compare them (windows.c).
 *
 * A message has a struct header, the blocks, and the text of the call. It is answered like an operation, so that calls that
 * wait for the origin's operations wait for it, too: it has arrived before the epoch ends.
 */
#include "ampi/misuse/misuse.h"

#include "ampi/op/op.h"
#include "ampi/rma/rma_remote.h"
#include "base/log.h"
#include "base/text.h"

/* kind: of the end of all operations in locks, or of fetching ones. */
#define END 8
#define END_LOCAL 9

struct header {
    uint32_t epoch;
    uint32_t n_blocks;
    uint16_t op; /* the constant of the predefined operation; 0: none */
    uint8_t kind;
    uint8_t in;
    bool is_exclusive;
    bool is_fetching;
    bool is_noted;
};

/* The texts of calls, which are few. Never freed. */
struct text {
    struct text *next;
    char bytes[];
};
static struct text *texts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards them */

static const char *keep(const char *bytes)
{
    size_t n_bytes = strlen(bytes) + 1;
    struct text *text;

    pthread_mutex_lock(&lock);
    for (text = texts; text && strcmp(text->bytes, bytes) != 0;)
        text = text->next;
    if (!text) {
        text = base_malloc(sizeof *text + n_bytes, "+check usage");
        memcpy(text->bytes, bytes, n_bytes);
        text->next = texts;
        texts = text;
    }
    pthread_mutex_unlock(&lock);
    return text->bytes;
}

void ampi_misuse_send_claim(struct ampi_win *win, const struct ampi_misuse_claim *claim,
                            const struct ampi_misuse_block *blocks, size_t n_blocks)
{
    struct header header = {.epoch = claim->epoch,
                            .n_blocks = (uint32_t)n_blocks,
                            .op = claim->op ? (uint16_t)(uintptr_t)claim->op->predefined : 0,
                            .kind = claim->kind,
                            .in = claim->in,
                            .is_exclusive = claim->is_exclusive,
                            .is_fetching = claim->is_fetching,
                            .is_noted = claim->is_noted};
    char text[2 * AMPI_CALL_SITE_BYTES], *message;
    struct base_text out = base_text_in(text, sizeof text);
    size_t blocks_bytes = n_blocks * sizeof *blocks;

    base_text_add(&out, claim->call.name);
    ampi_misuse_add_site(&out, claim->call.from);
    message = base_malloc(sizeof header + blocks_bytes + out.len + 1, "+check usage");
    memcpy(message, &header, sizeof header);
    memcpy(message + sizeof header, blocks, blocks_bytes);
    memcpy(message + sizeof header + blocks_bytes, text, out.len + 1);
    ampi_rma_remote_claim(win, claim->target, message, sizeof header + blocks_bytes + out.len + 1);
}

void ampi_misuse_send_end(struct ampi_win *win, int target, bool is_local)
{
    struct header header = {.kind = is_local ? END_LOCAL : END};

    ampi_rma_remote_claim(win, target,
                          memcpy(base_malloc(sizeof header, "+check usage"), &header, sizeof header),
                          sizeof header);
}

void ampi_misuse_await_ends(struct ampi_win *win, int target)
{
    (void)ampi_epoch_drain_remote(win, target);
}

static void handle(struct ampi_win_shared *shared, int origin, int target, const void *message)
{
    struct header header;
    struct ampi_misuse_claim claim;
    struct ampi_misuse_block *blocks;
    size_t blocks_bytes;

    memcpy(&header, message, sizeof header);
    if (header.kind >= END) {
        ampi_misuse_end_claims(shared, origin, target, header.kind == END_LOCAL);
        return;
    }
    blocks_bytes = header.n_blocks * sizeof *blocks;
    blocks = memcpy(base_malloc(blocks_bytes + 1, "+check usage"), (const char *)message + sizeof header,
                    blocks_bytes);
    claim = (struct ampi_misuse_claim){.text = keep((const char *)message + sizeof header + blocks_bytes),
                                       .op = header.op ? ampi_op_predefined[header.op - AMPI_OP_FIRST] : NULL,
                                       .origin = origin,
                                       .target = target,
                                       .epoch = header.epoch,
                                       .kind = header.kind,
                                       .in = header.in,
                                       .is_exclusive = header.is_exclusive,
                                       .is_fetching = header.is_fetching,
                                       .is_noted = header.is_noted};
    ampi_misuse_take_claim(shared, &claim, blocks, header.n_blocks);
    free(blocks);
}

void ampi_misuse_claims_connect(void)
{
    ampi_rma_checker.claimed = handle;
}
