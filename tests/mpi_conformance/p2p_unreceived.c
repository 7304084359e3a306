/* SPDX-License-Identifier: BSD-3-Clause */
/* Unreceived messages do no harm when their communicator is freed, whether they arrive before or after the
 * receiver has freed it, or after the sender has freed it, too; and their memory is freed.
 */
#define _GNU_SOURCE
#include "mtest.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LARGE = 10000, N_ROUNDS = 1500 };

static unsigned char out[LARGE];

/* A rank's message to another: its process, and a flag that ranks of its process can set. */
struct place {
    char host[64];
    long process, thread;
    int is_near; /* in the same process */
    _Atomic int *is_freed;
};

static _Atomic int is_freed;

static struct place place_of_partner(int partner)
{
    struct place mine = {.process = syscall(SYS_getpid), .thread = (long)gettid(), .is_freed = &is_freed},
                 other;

    gethostname(mine.host, sizeof mine.host - 1);
    MTEST_OK(MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, partner, 1, &other, sizeof other, MPI_BYTE, partner,
                          1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    other.is_near = strcmp(mine.host, other.host) == 0 && mine.process == other.process;
    if (!other.is_near || mine.thread == other.thread)
        other.is_freed = NULL; /* not to be reached; or a thread that would wait for itself */
    return other;
}

/* The receiver has freed the communicator and looks for messages again when the sender has done so, too. */
static void send_and_free(MPI_Comm comm, int to, int n_bytes, const struct place *other)
{
    MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, to, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Send(out, n_bytes, MPI_BYTE, to, i, comm));
    MTEST_OK(MPI_Comm_free(&comm));
    if (other->is_freed)
        atomic_store(other->is_freed, 1);
}

static void free_and_look(MPI_Comm comm, int from, const struct place *other)
{
    int flag;

    atomic_store(&is_freed, 0);
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, from, 2, MPI_COMM_WORLD));
    while (other->is_freed && !atomic_load(&is_freed))
        ;
    MTEST_OK(MPI_Iprobe(from, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
}

/* The receiver frees it when the message is there. */
static void probe_and_free(MPI_Comm comm, int from)
{
    MTEST_OK(MPI_Probe(from, 1, comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Comm_free(&comm));
}

/* The memory of this rank's PE for messages; 0 where the MPI does not say. */
static unsigned long message_bytes(void)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned long bytes = 0;
    int provided, index, count;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    if (MPI_T_pvar_get_index("heddle_message_bytes", MPI_T_PVAR_CLASS_LEVEL, &index) == MPI_SUCCESS) {
        MPI_T_pvar_session_create(&session);
        MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count);
        MPI_T_pvar_read(session, handle, &bytes);
        MPI_T_pvar_session_free(&session);
    }
    MPI_T_finalize();
    return bytes;
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 8, 100, LARGE};
    int last, is_end;
    struct place other = {.is_freed = NULL};
    unsigned long bytes;
    MPI_Comm comm;

    mtest_init(&argc, &argv, 2);
    last = mtest_size - 1;
    is_end = mtest_rank == 0 || mtest_rank == last;
    if (is_end)
        other = place_of_partner(last - mtest_rank);
    for (int i = 0; i < 40; i++) {
        MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (mtest_rank == 0)
            send_and_free(comm, last, sizes[i % (other.is_near ? 4 : 3)], &other); /* large ones may block */
        else if (mtest_rank == last)
            free_and_look(comm, 0, &other);
        else
            MTEST_OK(MPI_Comm_free(&comm));
    }
    for (int i = 0; i < N_ROUNDS; i++) {
        MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, is_end, 0, &comm));
        if (mtest_rank == last)
            probe_and_free(comm, 0);
        else if (mtest_rank == 0)
            MTEST_OK(MPI_Send(out, LARGE, MPI_BYTE, 1, 1, comm));
        if (mtest_rank != last)
            MTEST_OK(MPI_Comm_free(&comm));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    bytes = message_bytes();
    MTEST_CHECK(bytes < (unsigned long)N_ROUNDS * LARGE / 4, "%lu bytes of memory for messages", bytes);
    return mtest_end();
}
