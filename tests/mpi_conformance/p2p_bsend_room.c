/* SPDX-License-Identifier: BSD-3-Clause */
/* An attached buffer takes all messages that the standard's circular policy takes (MPI 5.0, section 3.6.3),
 * in any order of their receives, and 128 bytes for each message besides its data are enough. */
#include "mtest.h"

enum { BUFFER = 40000, ENTRIES = 64, ROUNDS = 3000 };

static char space[BUFFER];
static unsigned char out[BUFFER], in[BUFFER];

/* The queue of the standard's model implementation. */
struct entry {
    int begin, end; /* in the buffer */
    int n_bytes;    /* of the message; its tag is the entry's index */
    int is_done;
};
static struct entry entries[ENTRIES];
static int head, n_entries, tail; /* tail: where the youngest entry ends */

/* The offset at which the policy puts n bytes; -1: no room. */
static int place(int n)
{
    int oldest = n_entries ? entries[head].begin : -1;

    if (oldest < 0) /* empty: the space behind the tail, else that at the start */
        return tail + n <= BUFFER ? tail : n <= BUFFER ? 0 : -1;
    if (tail > oldest) {
        if (tail + n <= BUFFER)
            return tail;
        return n <= oldest ? 0 : -1;
    }
    return tail + n <= oldest ? tail : -1;
}

static void receive(struct entry *entry)
{
    int tag = (int)(entry - entries);

    MTEST_OK(MPI_Recv(in, entry->n_bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    MTEST_CHECK(mtest_differs(in, (size_t)entry->n_bytes, (unsigned)tag) < 0, "wrong data in a message of %d",
                entry->n_bytes);
    entry->is_done = 1;
    for (; n_entries && entries[head].is_done; n_entries--)
        head = (head + 1) % ENTRIES;
}

/* Random messages, received in random order. */
static void try_policy(uint64_t seed)
{
    uint64_t random = seed;

    head = n_entries = tail = 0;
    for (int round = 0; round < ROUNDS && mtest_errors == 0; round++) {
        int n_bytes = (int)(mtest_random(&random) % (round & 1 ? 20000 : 3000));
        int begin = place(n_bytes + MPI_BSEND_OVERHEAD), tag = (head + n_entries) % ENTRIES;
        if (begin >= 0 && n_entries < ENTRIES) {
            mtest_fill(out, (size_t)n_bytes, (unsigned)tag);
            MTEST_OK(MPI_Bsend(out, n_bytes, MPI_BYTE, 0, tag, MPI_COMM_SELF));
            tail = begin + n_bytes + MPI_BSEND_OVERHEAD;
            entries[tag] = (struct entry){begin, tail, n_bytes, 0};
            n_entries++;
        } else {
            int skip = (int)(mtest_random(&random) % (unsigned)n_entries);
            while (entries[(head + skip) % ENTRIES].is_done)
                skip = (skip + 1) % n_entries;
            receive(&entries[(head + skip) % ENTRIES]);
        }
    }
    while (n_entries)
        receive(&entries[head]);
}

/* Messages that fill a buffer with 128 bytes for each. */
static void try_overhead(int n_bytes, int n_messages)
{
    int room = n_messages * (n_bytes + 128), size;
    char *buffer = mtest_alloc((size_t)room);
    void *address;

    MTEST_OK(MPI_Buffer_attach(buffer, room));
    for (int i = 0; i < n_messages; i++) {
        mtest_fill(out, (size_t)n_bytes, (unsigned)i);
        MTEST_OK(MPI_Bsend(out, n_bytes, MPI_BYTE, 0, i, MPI_COMM_SELF));
    }
    for (int i = n_messages; i-- > 0;) {
        MTEST_OK(MPI_Recv(in, n_bytes, MPI_BYTE, 0, i, MPI_COMM_SELF, MPI_STATUS_IGNORE));
        MTEST_CHECK(mtest_differs(in, (size_t)n_bytes, (unsigned)i) < 0, "wrong data in message %d", i);
    }
    MTEST_OK(MPI_Buffer_detach(&address, &size));
    MTEST_CHECK(address == buffer && size == room, "detach gives another buffer");
    free(buffer);
}

int main(int argc, char **argv)
{
    void *address;
    int size;
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Buffer_attach(space, BUFFER));
    for (uint64_t seed = 1; seed <= 5; seed++)
        try_policy(seed + 10 * (uint64_t)mtest_rank);
    /* More than the buffer's size is refused all the same. */
    MTEST_OK(MPI_Bsend(out, BUFFER / 2, MPI_BYTE, 0, 1, MPI_COMM_SELF));
    MTEST_CLASS(MPI_Bsend(out, BUFFER / 2 + 1, MPI_BYTE, 0, 2, MPI_COMM_SELF), MPI_ERR_BUFFER);
    MTEST_OK(MPI_Recv(in, BUFFER, MPI_BYTE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Buffer_detach(&address, &size));
    try_overhead(1, 100);
    try_overhead(1000, 10);
    try_overhead(20000, 3);
    return mtest_end();
}
