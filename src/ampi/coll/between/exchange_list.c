/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_list.c: several parts in one message, for algorithms that forward parts.
 */
#include "ampi/coll/between/exchange.h"

#define HEAD_BYTES sizeof(struct ampi_exchange_entry_head)

static size_t room(const struct ampi_exchange_entry *entry)
{
    return HEAD_BYTES + base_round_up(entry->part.n_bytes, HEAD_BYTES);
}

void ampi_exchange_send_entries(struct ampi_exchange *x, int to, int tag,
                                const struct ampi_exchange_entry *entries, int n)
{
    size_t n_bytes = 0;
    unsigned char *message, *at;

    for (int i = 0; i < n; i++)
        n_bytes += room(&entries[i]);
    at = message = ampi_exchange_alloc(x, n_bytes);
    for (int i = 0; i < n; i++) {
        struct ampi_exchange_entry_head head = {entries[i].source, entries[i].target,
                                                entries[i].part.n_bytes};
        memcpy(at, &head, sizeof head);
        ampi_exchange_copy(x, at + sizeof head, entries[i].part.bytes, head.n_bytes);
        at += room(&entries[i]);
    }
    ampi_exchange_send(x, to, tag, 0, message, n_bytes);
}

bool ampi_exchange_next_entry(const struct ampi_exchange_message *message, size_t *at,
                              struct ampi_exchange_entry *entry_out)
{
    struct ampi_exchange_entry_head head;

    if (*at >= message->n_bytes)
        return false;
    memcpy(&head, message->bytes + *at, sizeof head);
    *entry_out = (struct ampi_exchange_entry){
        head.source, head.target, {.bytes = message->bytes + *at + sizeof head, .n_bytes = head.n_bytes}};
    *at += room(entry_out);
    return true;
}
