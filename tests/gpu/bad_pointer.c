/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Invalid memory is an error of class MPI_ERR_BUFFER in every call: device memory that has been freed, and
 * addresses that neither CUDA's driver nor the CPU knows, such as those of GPUs that are not visible. Nothing
 * crashes or hangs, and later calls work. With an argument that names a case, errors are fatal: the message
 * names the rank, the call and CUDA's error.
 */
#include <stdbool.h>
#include <sys/mman.h>

#include "device.h"

#define SMALL 64
#define LARGE ((size_t)3 << 20)

enum bad { GOOD, FREED_SMALL, FREED_LARGE, FREED_MANAGED, NOT_VISIBLE, UNMAPPED, BADS };
static const char *const bad_names[] = {"good",          "freed small", "freed large",
                                        "freed managed", "not visible", "unmapped"};

static char host[LARGE];
static struct gtest_buffer device;
static int bad_class; /* the kind of memory at the address */

/* An address with nothing behind it, of a device's that MPI has seen alive. What the driver unmaps is kept
 * from being used again; the small one's neighbours live on. */
static char *bad_address(enum bad bad)
{
    struct gtest_buffer buffer;

    if (bad == GOOD) /* what the library keeps for later is allocated then, and does not take what is freed */
        return gtest_alloc(GTEST_GPU0, LARGE, NULL).data;
    if (bad == UNMAPPED)
        return (char *)8192; /* the kernel maps nothing there */
    if (bad == NOT_VISIBLE)
        return mmap(NULL, LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    buffer = gtest_alloc(bad == FREED_MANAGED ? GTEST_MANAGED : GTEST_GPU0,
                         bad == FREED_SMALL ? SMALL : LARGE, NULL);
    MTEST_OK(MPI_Sendrecv(buffer.data, 1, MPI_BYTE, 0, 9, host, 1, MPI_BYTE, 0, 9, MPI_COMM_SELF,
                          MPI_STATUS_IGNORE));
    /* One after the other: while a rank waits in the free, others run, and what they or the library map must not
     * come to lie there. */
    for (int i = 0; i < mtest_size; i++) {
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (i != mtest_rank)
            continue;
        gtest_free(&buffer);
        if (bad != FREED_SMALL)
            mmap((void *)((uintptr_t)buffer.memory & ~(uintptr_t)4095), LARGE, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return buffer.data;
}

static void expect(int got, int error_class, const char *what, enum bad bad, int n_bytes)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;

    if (got)
        MPI_Error_string(got, text, &length);
    MTEST_CHECK(mtest_class(got) == error_class, "%s, %s, %d bytes: class %d (%s), expected %d", what,
                bad_names[bad], n_bytes, mtest_class(got), text, error_class);
}

/* ---- Messages ---- */

/* From rank 0 to rank 1, whose receive is posted first, or not. A send that cannot be received is no error of
 * the sender's. */
static void message(void *from, void *to, int n_bytes, bool is_posted, int send_class, int recv_class,
                    const char *what, enum bad bad)
{
    MPI_Request request;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        if (is_posted)
            MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Isend(from, n_bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
        if (!is_posted)
            MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
        expect(MPI_Wait(&request, MPI_STATUS_IGNORE), send_class, what, bad, n_bytes);
    } else if (mtest_rank == 1 && is_posted) {
        MTEST_OK(MPI_Irecv(to, n_bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
        expect(MPI_Wait(&request, MPI_STATUS_IGNORE), recv_class, what, bad, n_bytes);
    } else if (mtest_rank == 1) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        expect(MPI_Recv(to, n_bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), recv_class, what,
               bad, n_bytes);
    }
}

static void messages(char *address, enum bad bad)
{
    static const int sizes[] = {8, SMALL, 60000, 2 << 20};
    int n_sizes = bad == FREED_SMALL ? 2 : 4;

    for (int i = 0; i < n_sizes; i++)
        for (int is_posted = 0; is_posted < 2; is_posted++) {
            int n = sizes[i];
            message(address, device.data, n, is_posted, bad_class, bad_class, "to a GPU", bad);
            message(address, host, n, is_posted, bad_class, bad_class, "to the host", bad);
            message(host, address, n, is_posted, MPI_SUCCESS, bad_class, "from the host", bad);
            message(device.data, address, n, is_posted, MPI_SUCCESS, bad_class, "from a GPU", bad);
            message(host, device.data, n, is_posted, MPI_SUCCESS, MPI_SUCCESS, "after errors", bad);
        }
}

/* ---- The rest ---- */

static void local(char *address, enum bad bad)
{
    char bytes[SMALL] = {0};
    int position = 0;

    expect(MPI_Pack(address, 8, MPI_BYTE, bytes, SMALL, &position, MPI_COMM_SELF), bad_class, "MPI_Pack", bad,
           8);
    position = 0;
    expect(MPI_Unpack(bytes, 8, &position, address, 8, MPI_BYTE, MPI_COMM_SELF), bad_class, "MPI_Unpack", bad,
           8);
    expect(MPI_Reduce_local(address, device.data, 1, MPI_INT, MPI_SUM), bad_class, "MPI_Reduce_local", bad,
           4);
    expect(MPI_Reduce_local(bytes, address, 1, MPI_INT, MPI_SUM), bad_class, "MPI_Reduce_local", bad, 4);
}

/* One of rank 0's buffers is bad: rank 0, or the ranks that need its data, get the error. */
static void collectives(char *address, enum bad bad)
{
    void *buffer = mtest_rank == 0 ? (void *)address : device.data;
    int got;

    got = MPI_Bcast(buffer, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (mtest_rank != 0)
        expect(got, bad_class, "MPI_Bcast", bad, 8);
    got = MPI_Allreduce(buffer, host, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(got, bad_class, "MPI_Allreduce from", bad, 8);
    got = MPI_Allgather(device.data, 8, MPI_BYTE, buffer, 8, MPI_BYTE, MPI_COMM_WORLD);
    expect(got, mtest_rank == 0 ? bad_class : MPI_SUCCESS, "MPI_Allgather to", bad, 8);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, host, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
}

static void fatal(const char *what)
{
    char *address = bad_address(FREED_SMALL);

    if (strcmp(what, "send") == 0 && mtest_rank == 0)
        MPI_Send(address, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (strcmp(what, "recv") == 0 && mtest_rank == 0)
        MPI_Send(host, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (strcmp(what, "recv") == 0 && mtest_rank == 1)
        MPI_Recv(address, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(what, "reduce") == 0)
        MPI_Allreduce(address, host, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    device = gtest_alloc(GTEST_GPU0, LARGE, NULL);
    MTEST_OK(MPI_Barrier(
        MPI_COMM_WORLD)); /* ranks share the address space: no rank may reuse memory that others free */
    if (argc > 1)
        fatal(argv[1]);
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    for (enum bad bad = 0; bad < BADS; bad++) {
        char *address = bad_address(bad);
        bad_class = bad == GOOD ? MPI_SUCCESS : MPI_ERR_BUFFER;
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        messages(address, bad);
        local(address, bad);
        collectives(address, bad);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    gtest_free(&device);
    return mtest_end();
}
