/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wrong use of handlers is an error with its class: options, registrations, handles that are freed or not started, messages that are too long, without a
 * handler, to no rank, to another process or to a GPU that cannot be reached, of hosts and of kernels; too many blocks; no memory. Right messages work
 * afterwards. A set that is not freed ends with MPI_Finalize, also while its handlers send on for ever. Arguments: fatal: a message without a handler ends
 * the job.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "handlers.h"

enum { COUNT, ON, HOST };

static struct htest_kernels kernels;
static long n_counts;

static void count(const struct HEDDLE_Handlers_message *message)
{
    (void)message;
    __atomic_fetch_add(&n_counts, 1, __ATOMIC_RELAXED);
}

/* Sends itself the same message, for ever. */
static void go_on(const struct HEDDLE_Handlers_message *message)
{
    heddle_handlers_send(message->data, 0, (uint32_t)message->rank, ON, message->device);
}

static AMPI_GPU_Handlers open_set(void)
{
    static const char *const pairs[] = {"blocks", "1", "slot_bytes", "60", NULL};
    AMPI_GPU_Handlers made = AMPI_GPU_HANDLERS_NULL;
    MPI_Info info = htest_info(pairs);

    MTEST_OK(AMPI_GPU_Handlers_create(MPI_COMM_WORLD, info, &made));
    MTEST_OK(MPI_Info_free(&info));
    return made;
}

static AMPI_GPU_Handlers make(void)
{
    AMPI_GPU_Handlers made = open_set();

    MTEST_OK(htest_register(COUNT, AMPI_GPU_BY_BLOCK, count, NULL, &kernels, made));
    MTEST_OK(htest_register(ON, AMPI_GPU_BY_BLOCK, go_on, NULL, &kernels, made));
    MTEST_OK(AMPI_GPU_Handlers_start(made));
    return made;
}

/* ---- Creating ---- */

static void check_option(const char *key, const char *value)
{
    const char *pairs[] = {key, value, NULL};
    AMPI_GPU_Handlers made = AMPI_GPU_HANDLERS_NULL;
    MPI_Info info = htest_info(pairs);

    MTEST_CLASS(AMPI_GPU_Handlers_create(MPI_COMM_WORLD, info, &made), MPI_ERR_INFO_VALUE);
    MTEST_CHECK(made == AMPI_GPU_HANDLERS_NULL, "there are handlers with %s %s", key, value);
    MTEST_OK(MPI_Info_free(&info));
}

static void check_creation(void)
{
    static const char *const many[] = {"blocks", "9", NULL};
    AMPI_GPU_Handlers made = AMPI_GPU_HANDLERS_NULL;
    MPI_Info info = htest_info(many);

    check_option("blocks", "0");
    check_option("blocks", "two");
    check_option("threads", "513");
    check_option("slots", "1000");
    check_option("slots", "");
    check_option("slot_bytes", "2049");
    check_option("idle_us", "-1");
    MTEST_CLASS(AMPI_GPU_Handlers_create(MPI_COMM_NULL, MPI_INFO_NULL, &made), MPI_ERR_COMM);
    MTEST_CLASS(AMPI_GPU_Handlers_create(MPI_COMM_WORLD, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    /* More blocks than the GPU has multiprocessors. */
    MTEST_CLASS(AMPI_GPU_Handlers_create(MPI_COMM_WORLD, info, &made), MPI_ERR_ARG);
    MTEST_OK(MPI_Info_free(&info));
    /* No memory on one rank's GPU: all ranks get an error. */
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        fakecuda_fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    if (mtest_size == 1)
        MTEST_CLASS(AMPI_GPU_Handlers_create(MPI_COMM_WORLD, MPI_INFO_NULL, &made), MPI_ERR_NO_MEM);
    else
        MTEST_CHECK(AMPI_GPU_Handlers_create(MPI_COMM_WORLD, MPI_INFO_NULL, &made) != MPI_SUCCESS,
                    "a set was created without memory");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void check_registration(void)
{
    AMPI_GPU_Handlers set = open_set();
    struct htest_kernels others = {kernels.post, kernels.resident}, none = {NULL, NULL};
    AMPI_GPU_Device device;

    MTEST_CLASS(htest_register(-1, AMPI_GPU_BY_BLOCK, count, NULL, &kernels, set), MPI_ERR_TAG);
    MTEST_CLASS(htest_register(256, AMPI_GPU_BY_BLOCK, count, NULL, &kernels, set), MPI_ERR_TAG);
    MTEST_CLASS(htest_register(COUNT, 3, count, NULL, &kernels, set), MPI_ERR_ARG);
    MTEST_CLASS(htest_register(COUNT, AMPI_GPU_BY_BLOCK, NULL, NULL, &kernels, set), MPI_ERR_OTHER);
    MTEST_CLASS(htest_register(COUNT, AMPI_GPU_BY_BLOCK, count, NULL, &none, set), MPI_ERR_OTHER);
    MTEST_OK(htest_register(COUNT, AMPI_GPU_BY_BLOCK, count, NULL, &kernels, set));
    MTEST_CLASS(htest_register(COUNT, AMPI_GPU_BY_GRID, count, NULL, &kernels, set), MPI_ERR_TAG);
    MTEST_CLASS(htest_register(ON, AMPI_GPU_BY_BLOCK, count, NULL, &others, set), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Send(NULL, 0, mtest_rank, COUNT, set), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Handlers_wait(set), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Handlers_device(set, &device), MPI_ERR_ARG);
    MTEST_OK(AMPI_GPU_Handlers_start(set));
    MTEST_CLASS(AMPI_GPU_Handlers_start(set), MPI_ERR_ARG);
    MTEST_CLASS(htest_register(ON, AMPI_GPU_BY_BLOCK, count, NULL, &kernels, set), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Handlers_device(set, NULL), MPI_ERR_ARG);
    MTEST_OK(AMPI_GPU_Handlers_free(&set));
    MTEST_CLASS(AMPI_GPU_Handlers_free(&set), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Handlers_free(NULL), MPI_ERR_ARG);
    set = open_set(); /* one that is never started */
    MTEST_OK(AMPI_GPU_Handlers_free(&set));
}

/* A start that fails on one rank fails on all, and can be repeated. */
static void check_start(void)
{
    AMPI_GPU_Handlers set = open_set();
    long before = __atomic_load_n(&n_counts, __ATOMIC_RELAXED);

    MTEST_OK(htest_register(COUNT, AMPI_GPU_BY_BLOCK, count, NULL, &kernels, set));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        fakecuda_fail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    MTEST_CHECK(AMPI_GPU_Handlers_start(set) != MPI_SUCCESS, "the start has not failed");
    MTEST_CLASS(AMPI_GPU_Handlers_wait(set), MPI_ERR_ARG);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(AMPI_GPU_Handlers_start(set));
    MTEST_OK(AMPI_GPU_Send(NULL, 0, mtest_rank, COUNT, set));
    MTEST_OK(AMPI_GPU_Handlers_wait(set));
    MTEST_CHECK(__atomic_load_n(&n_counts, __ATOMIC_RELAXED) == before + 1, "the message has not come");
    MTEST_OK(AMPI_GPU_Handlers_free(&set));
}

/* ---- Sending ---- */

/* One wrong send in a kernel. */
struct wrong {
    struct HEDDLE_Handlers_device *device;
    int dest, tag, n_bytes;
    enum HEDDLE_Handlers_fault expected, fault;
    int error_class;
};

static void send_wrong(void *data)
{
    struct wrong *wrong = data;

    wrong->fault = heddle_handlers_send(NULL, (uint32_t)wrong->n_bytes, (uint32_t)wrong->dest,
                                        (uint32_t)wrong->tag, wrong->device);
}

static void check_kernel(AMPI_GPU_Handlers set, struct wrong wrong, CUstream stream)
{
    MTEST_OK(AMPI_GPU_Handlers_device(set, &wrong.device));
    GTEST_CU((CUresult)fakecuda_launch(stream, send_wrong, &wrong));
    MTEST_OK(AMPI_GPU_Invoke(stream));
    MTEST_CHECK(wrong.fault == wrong.expected, "the kernel got %d instead of %d", wrong.fault,
                wrong.expected);
    MTEST_CLASS(AMPI_GPU_Handlers_wait(set), wrong.error_class);
}

/* Can messages be sent to the rank? */
static int is_near(int rank)
{
    int *processes = mtest_alloc((size_t)mtest_size * sizeof *processes), own = (int)syscall(SYS_getpid),
        result;

    MTEST_OK(MPI_Allgather(&own, 1, MPI_INT, processes, 1, MPI_INT, MPI_COMM_WORLD));
    result = processes[rank] == own;
    free(processes);
    return result;
}

static void check_sends(CUstream stream)
{
    AMPI_GPU_Handlers set = make(), copy = set;
    int next = (mtest_rank + 1) % mtest_size, far = (mtest_rank + mtest_size / 2) % mtest_size;
    int is_far_near = is_near(far), is_next_near = is_near(next);
    char bytes[80] = {0};
    struct gtest_buffer buffer = gtest_alloc(GTEST_GPU0, 64, NULL);
    long before;

    (void)htest_select();
    MTEST_CLASS(AMPI_GPU_Send(bytes, 1, -7, COUNT, set), MPI_ERR_RANK);
    MTEST_CLASS(AMPI_GPU_Send(bytes, 1, mtest_size, COUNT, set), MPI_ERR_RANK);
    MTEST_OK(AMPI_GPU_Send(bytes, 1, MPI_PROC_NULL, COUNT, set));
    MTEST_CLASS(AMPI_GPU_Send(bytes, -1, mtest_rank, COUNT, set), MPI_ERR_COUNT);
    MTEST_CLASS(AMPI_GPU_Send(bytes, 65, mtest_rank, COUNT, set), MPI_ERR_COUNT);
    MTEST_CLASS(AMPI_GPU_Send(bytes, 1, mtest_rank, HOST, set), MPI_ERR_TAG);
    MTEST_CLASS(AMPI_GPU_Send(bytes, 1, mtest_rank, -1, set), MPI_ERR_TAG);
    MTEST_CLASS(AMPI_GPU_Send(NULL, 1, mtest_rank, COUNT, set), MPI_ERR_BUFFER);
    MTEST_CLASS(AMPI_GPU_Send(buffer.data, 1, mtest_rank, COUNT, set), MPI_ERR_BUFFER);
    if (!is_far_near)
        MTEST_CLASS(AMPI_GPU_Send(bytes, 1, far, COUNT, set), MPI_ERR_UNSUPPORTED_OPERATION);
    check_kernel(set, (struct wrong){NULL, -1, COUNT, 0, HEDDLE_HANDLERS_NO_RANK, 0, MPI_ERR_RANK}, stream);
    check_kernel(set, (struct wrong){NULL, mtest_size, COUNT, 0, HEDDLE_HANDLERS_NO_RANK, 0, MPI_ERR_RANK},
                 stream);
    check_kernel(set, (struct wrong){NULL, mtest_rank, HOST, 0, HEDDLE_HANDLERS_NO_HANDLER, 0, MPI_ERR_TAG},
                 stream);
    check_kernel(set, (struct wrong){NULL, mtest_rank, 256, 0, HEDDLE_HANDLERS_NO_HANDLER, 0, MPI_ERR_TAG},
                 stream);
    check_kernel(set, (struct wrong){NULL, mtest_rank, COUNT, 65, HEDDLE_HANDLERS_TOO_LONG, 0, MPI_ERR_COUNT},
                 stream);
    if (!is_far_near)
        check_kernel(
            set,
            (struct wrong){NULL, far, COUNT, 0, HEDDLE_HANDLERS_ELSEWHERE, 0, MPI_ERR_UNSUPPORTED_OPERATION},
            stream);
    /* All are well afterwards. */
    before = __atomic_load_n(&n_counts, __ATOMIC_RELAXED);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(AMPI_GPU_Send(bytes, 64, is_next_near ? next : mtest_rank, COUNT, set));
    MTEST_OK(AMPI_GPU_Handlers_wait(set));
    {
        long mine = __atomic_load_n(&n_counts, __ATOMIC_RELAXED) - before, all = 0;
        MTEST_OK(MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
        MTEST_CHECK(all == mtest_size, "%ld messages instead of %d", all, mtest_size);
    }
    MTEST_OK(AMPI_GPU_Handlers_free(&set));
    MTEST_CLASS(AMPI_GPU_Handlers_wait(copy), MPI_ERR_ARG);
    gtest_free(&buffer);
    (void)htest_select();
}

/* GPUs that cannot use each other's memory. */
static void check_access(void)
{
    int can = 1, far = mtest_rank ^ 1;
    AMPI_GPU_Handlers set;

    if (gtest_n_devices > 1)
        GTEST_CU(cuDeviceCanAccessPeer(&can, 0, 1));
    if (can || mtest_size % 2 || !is_near(far))
        return;
    gtest_select(mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0);
    kernels = htest_load();
    set = make();
    MTEST_CLASS(AMPI_GPU_Send(NULL, 0, far, COUNT, set), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_OK(AMPI_GPU_Handlers_free(&set));
}

int main(int argc, char **argv)
{
    AMPI_GPU_Handlers set;
    CUstream stream;

    htest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    (void)htest_select();
    kernels = htest_load();
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (argc > 1 && strcmp(argv[1], "fatal") == 0) {
        MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
        set = make();
        (void)AMPI_GPU_Send(NULL, 0, mtest_rank, HOST, set);
        return 0;
    }
    check_creation();
    check_registration();
    check_start();
    check_sends(stream);
    check_access();
    set = make(); /* it is not freed */
    MTEST_OK(AMPI_GPU_Send(NULL, 0, mtest_rank, ON, set));
    return mtest_end();
}
