/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late_writes.c: values that streams store in host memory become visible late (FAKECUDA_LATE_WRITES). A GPU orders its writes
 * to one word, but the host may see those to different words in another order. The fake driver delays zeros, which reset
 * words, and stores other values at once.
 */
#include "fake.h"

#include <time.h>

#define LATE_MAX 256
#define LATE_NS 2000000

static struct {
    struct fake_range *range; /* has a reference */
    uint32_t *to;
    uint64_t due_ns;
} late[LATE_MAX];
static int n_late;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Lock held. */
static void take_out(int i)
{
    fake_range_unref(late[i].range);
    late[i] = late[--n_late];
}

static int find(const void *to)
{
    for (int i = 0; i < n_late; i++)
        if (late[i].to == to)
            return i;
    return -1;
}

bool fake_write_late(const struct fake_op *op)
{
    int i;
    bool is_late;

    if (!fake.has_late_writes)
        return false;
    pthread_mutex_lock(&fake_lock);
    i = find(op->to);
    if (i >= 0)
        take_out(i); /* a later write to the same word */
    is_late = op->value == 0 && op->value_bytes == 4 && n_late < LATE_MAX;
    if (is_late) {
        late[n_late].range = op->to_range;
        late[n_late].to = (uint32_t *)op->to;
        late[n_late++].due_ns = now_ns() + LATE_NS;
        op->to_range->n_refs++;
    }
    pthread_mutex_unlock(&fake_lock);
    return is_late;
}

bool fake_is_written_late(const void *to)
{
    uint64_t now = n_late > 0 ? now_ns() : 0;

    for (int i = n_late - 1; i >= 0; i--)
        if (late[i].due_ns <= now) {
            __atomic_store_n(late[i].to, 0, __ATOMIC_SEQ_CST);
            take_out(i);
        }
    return find(to) >= 0;
}
