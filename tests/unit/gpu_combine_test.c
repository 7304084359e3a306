/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that every built-in operation gives the same bits on a GPU as on the CPU (any NaN for a NaN), on
 * every type that has a kernel, for 1 to 600 inputs and 1 to 500 outputs, odd lengths and alignments, on two
 * GPUs, with buffers on the host and on a second GPU among them, waiting or not, and keeps the first input where that
 * is wanted; the types with kernels; that
 * no caller waits unnecessarily; and the handling of errors.
 */
#include <string.h>

#include "ampi/datatype/buffer.h"
#include "ampi/op/op.h"
#include "fakecuda.h"
#include "gpu/copy/pool.h"
#include "gpu/copy/queue.h"
#include "gpu/kernels/kernels.h"
#include "gpu_device.h"

#define N_MAX 600 /* inputs */
#define OUTS_MAX 500
#define ELEMS 700

/* MPI's types in the order of the kernels. */
#define BASIC_OF(X, type) AMPI_BASIC_##type,
static const int basic_of[] = {GPU_TYPES(BASIC_OF, )};
#define NAME_OF(X, type) #type,
static const char *const name_of[] = {GPU_TYPES(NAME_OF, )};

static bool is_nan_bits(const unsigned char *bytes, int basic)
{
    uint16_t half;
    float single;
    double wide;

    switch (basic) {
    case AMPI_BASIC_FLOAT16:
    case AMPI_BASIC_COMPLEX_FLOAT16:
        memcpy(&half, bytes, sizeof half);
        return (half & 0x7fff) > 0x7c00;
    case AMPI_BASIC_FLOAT:
    case AMPI_BASIC_COMPLEX_FLOAT:
        memcpy(&single, bytes, sizeof single);
        return single != single;
    case AMPI_BASIC_DOUBLE:
    case AMPI_BASIC_COMPLEX_DOUBLE:
        memcpy(&wide, bytes, sizeof wide);
        return wide != wide;
    default:
        return false;
    }
}

/* Bytes of one number: of what may be a NaN. */
static size_t number_bytes(int basic)
{
    size_t stride = ampi_op_stride_bytes[basic];

    return basic >= AMPI_BASIC_COMPLEX_FLOAT16 && basic <= AMPI_BASIC_COMPLEX_FLOAT128 ? stride / 2 : stride;
}

static bool is_same(const unsigned char *a, const unsigned char *b, size_t n_bytes, int basic)
{
    size_t step = number_bytes(basic);

    for (size_t i = 0; i < n_bytes; i += step)
        if (memcmp(a + i, b + i, step) != 0 && !(is_nan_bits(a + i, basic) && is_nan_bits(b + i, basic)))
            return false;
    return true;
}

/* Random bits, among them often equal, small and special values. */
static void fill(unsigned char *bytes, size_t n_elems, int basic)
{
    size_t stride = ampi_op_stride_bytes[basic];

    random_fill(bytes, n_elems * stride);
    for (size_t i = 0; i < n_elems; i++) {
        unsigned char *elem = bytes + i * stride;
        float value = (float)random_in(-3, 3);
        double wide = value;
        if (random_bits() % 2)
            continue;
        if (basic == AMPI_BASIC_FLOAT_INT || basic == AMPI_BASIC_2FLOAT || basic == AMPI_BASIC_FLOAT)
            memcpy(elem, &value, sizeof value);
        else if (basic == AMPI_BASIC_DOUBLE_INT || basic == AMPI_BASIC_2DOUBLE || basic == AMPI_BASIC_DOUBLE)
            memcpy(elem, &wide, sizeof wide);
        else
            memset(elem, (int)random_in(0, 1), stride);
    }
}

struct buffers {
    unsigned char *host[N_MAX];
    char *device[N_MAX]; /* of GPU 0, every third of GPU 1 */
    char *out[OUTS_MAX]; /* of GPU 0, GPU 1, the host, in turn */
    char *old[4];        /* none, of the host, GPU 0, GPU 1 */
    unsigned char *want, *seen;
};

static CUcontext contexts[2]; /* the second is the first where there is one GPU */

static void open_devices(void)
{
    int n = 1;

    device_open();
    ampi_device_init();
    ULT_CHECK(cuCtxGetCurrent(&contexts[0]) == CUDA_SUCCESS && cuDeviceGetCount(&n) == CUDA_SUCCESS);
    contexts[1] = contexts[0];
    if (n > 1)
        ULT_CHECK(cuDevicePrimaryCtxRetain(&contexts[1], 1) == CUDA_SUCCESS);
}

static char *alloc_on(int device, size_t n_bytes)
{
    char *made;

    ULT_CHECK(cuCtxSetCurrent(contexts[device]) == CUDA_SUCCESS);
    made = device_alloc(n_bytes);
    ULT_CHECK(cuCtxSetCurrent(contexts[0]) == CUDA_SUCCESS);
    return made;
}

static bool is_device(const void *addr)
{
    unsigned type = 0;

    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)addr) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE;
}

/* An output, wherever it is. */
static void put(char *to, const void *from, size_t n_bytes)
{
    if (is_device(to))
        device_write(to, from, n_bytes);
    else
        memcpy(to, from, n_bytes);
}

static void get(void *to, const char *from, size_t n_bytes)
{
    if (is_device(from))
        device_read(to, from, n_bytes);
    else
        memcpy(to, from, n_bytes);
}

/* A call that is not waited for. */
struct started {
    struct gpu_combine combine;
    struct ult *u;
    bool is_done, is_waiting;
    int error;
};

static void done(struct gpu_combine *combine, int error)
{
    struct started *started = BASE_CONTAINER(combine, struct started, combine);

    started->is_done = true;
    started->error = error;
    if (started->is_waiting)
        ult_ready(started->u);
}

static int start(struct started *started, const struct gpu_combine *combine)
{
    *started = (struct started){.combine = *combine, .u = ult_self()};
    started->combine.done = done;
    return gpu_combine_start(&started->combine);
}

static int finish(struct started *started)
{
    if (!started->is_done) {
        started->is_waiting = true;
        ult_suspend();
    }
    ULT_CHECK(started->is_done);
    return started->error;
}

static int combine_somehow(const struct gpu_combine *combine)
{
    struct started started;
    int error;

    if (random_bits() % 2)
        return gpu_combine_now(combine);
    error = start(&started, combine);
    return error ? error : finish(&started);
}

/* The elements without what pairs have between their two values. */
static void copy_values(unsigned char *to, const unsigned char *from, size_t n_elems, int type)
{
    size_t stride = ampi_op_stride_bytes[basic_of[type]], at = stride, n = 0;

    if (type == GPU_TYPE_SHORT_INT)
        at = 2, n = 2;
    else if (type == GPU_TYPE_DOUBLE_INT || type == GPU_TYPE_LONG_INT)
        at = 12, n = 4;
    for (size_t i = 0; i < n_elems; i++) {
        memcpy(to + i * stride, from + i * stride, at);
        memcpy(to + i * stride + at + n, from + i * stride + at + n, stride - at - n);
    }
}

static void clear(char *at, size_t n_bytes)
{
    static const unsigned char zeros[ELEMS * 16];

    put(at, zeros, n_bytes);
}

/* n_outs outputs and, if in_place >= 0, that input as well. */
static void check_pair(struct buffers *b, int op, int type, int n_inputs, int n_outs, size_t n_elems,
                       size_t shift, int in_place)
{
    int basic = basic_of[type];
    size_t stride = ampi_op_stride_bytes[basic], n_bytes = n_elems * stride;
    const void *inputs[N_MAX];
    void *outs[OUTS_MAX + 1];
    char *old = b->old[random_bits() % BASE_COUNT(b->old)];
    struct gpu_combine combine = {.outs = outs,
                                  .old = old,
                                  .inputs = inputs,
                                  .n_inputs = n_inputs,
                                  .count_elems = (int64_t)n_elems,
                                  .op = op,
                                  .type = type,
                                  .device = (int)random_in(-1, contexts[0] != contexts[1])};
    bool is_right = true;

    shift *= stride;
    for (int i = 0; i < n_inputs; i++) {
        fill(b->host[i], n_elems, basic);
        device_write(b->device[i] + shift, b->host[i], n_bytes);
        inputs[i] = b->device[i] + shift;
        if (i != in_place && i % 5 == 4) /* some are the host's */
            inputs[i] = b->host[i];
    }
    if (in_place >= 0)
        outs[combine.n_outs++] = b->device[in_place] + shift;
    for (int i = 0; i < n_outs; i++)
        outs[combine.n_outs++] = b->out[i] + shift;
    memcpy(b->want, b->host[in_place > 0 ? in_place : 0], n_bytes); /* what pairs have between them */
    for (int i = 0; i < combine.n_outs; i++)
        if (i > 0 || in_place < 0)
            put(outs[i], b->want, n_bytes);
    memcpy(b->seen, b->host[0], n_bytes);
    for (int i = 1; i < n_inputs; i++)
        ampi_op_kernels[op][basic](b->host[i], b->seen, n_elems);
    if (in_place > 0)
        copy_values(b->want, b->seen, n_elems, type);
    else
        memcpy(b->want, b->seen, n_bytes);
    if (old)
        put(old, b->host[0], n_bytes); /* what pairs have between them */
    if (old && basic_of[type] != AMPI_BASIC_SHORT_INT && basic_of[type] != AMPI_BASIC_DOUBLE_INT &&
        basic_of[type] != AMPI_BASIC_LONG_INT)
        clear(old, n_bytes);
    ULT_CHECK(combine_somehow(&combine) == 0);
    if (old) {
        get(b->seen, old, n_bytes);
        ULT_CHECK(memcmp(b->host[0], b->seen, n_bytes) == 0);
    }
    for (int i = 0; i < combine.n_outs && is_right; i++) {
        get(b->seen, outs[i], n_bytes);
        is_right = is_same(b->want, b->seen, n_bytes, basic);
        if (!is_right)
            printf("operation %d on %s: %d inputs, output %d of %d, %zu elements, shift %zu, in place %d\n",
                   op, name_of[type], n_inputs, i, combine.n_outs, n_elems, shift, in_place);
    }
    ULT_CHECK(is_right);
}

static void all_pairs(void *arg)
{
    struct buffers b;
    int n_pairs = 0;

    open_devices();
    for (int i = 0; i < N_MAX; i++) {
        b.host[i] = malloc(ELEMS * 16 + 64);
        b.device[i] = alloc_on(i % 3 == 2, ELEMS * 16 + 64);
    }
    for (int i = 0; i < OUTS_MAX; i++)
        b.out[i] = i % 3 == 2 ? malloc(ELEMS * 16 + 64) : alloc_on(i % 3, ELEMS * 16 + 64);
    b.old[0] = NULL;
    b.old[1] = malloc(ELEMS * 16);
    b.old[2] = alloc_on(0, ELEMS * 16);
    b.old[3] = alloc_on(1, ELEMS * 16);
    b.want = malloc(ELEMS * 16 + 64);
    b.seen = malloc(ELEMS * 16 + 64);
    for (int type = 0; type < GPU_TYPE_COUNT; type++) {
        for (int op = 0; op < GPU_OP_COUNT; op++) {
            if (!gpu_can_combine(op, type))
                continue;
            ULT_CHECK(ampi_op_kernels[op][basic_of[type]] != NULL);
            n_pairs++;
            check_pair(&b, op, type, 2, 1, ELEMS, 0, -1);
            check_pair(&b, op, type, 2, 0, ELEMS - 1, 1, 0);
            check_pair(&b, op, type, 2, 2, ELEMS - 1, 1, 1);
            check_pair(&b, op, type, 7, (int)random_in(1, 4), (size_t)random_in(1, ELEMS), 0, -1);
            check_pair(&b, op, type, 1, (int)random_in(1, 4), (size_t)random_in(1, ELEMS), 0, -1);
        }
    }
    check_pair(&b, GPU_OP_SUM, GPU_TYPE_DOUBLE, N_MAX, 1, 100, 0, -1);
    check_pair(&b, GPU_OP_SUM, GPU_TYPE_FLOAT, 300, OUTS_MAX, 100, 0, -1);
    check_pair(&b, GPU_OP_SUM, GPU_TYPE_FLOAT, 3, OUTS_MAX, 100, 1, 1);
    check_pair(&b, GPU_OP_MAXLOC, GPU_TYPE_LONG_INT, N_MAX, 0, 33, 0, 0);
    /* What is written before all inputs have been read is none of them. */
    check_pair(&b, GPU_OP_SUM, GPU_TYPE_INT32, N_MAX, 0, 33, 0, N_MAX - 1);
    ULT_CHECK(n_pairs == 8 * 10 + 3 * 4 + 3 * 2 + 3 + 5 * 3 + 7 * 2);
    for (int i = 0; i < N_MAX; i++)
        free(b.host[i]);
    for (int i = 2; i < OUTS_MAX; i += 3) /* the others are a device's */
        free(b.out[i]);
    free(b.old[1]);
    free(b.want);
    free(b.seen);
}

START_TEST(all_operations_on_all_types_as_on_the_cpu)
{
    ult_job_start(1, 1, all_pairs);
}
END_TEST

/* Where the CPU has a kernel and the GPU does not, the type is one that GPUs do not have. */
START_TEST(what_has_no_kernel)
{
    for (int op = 0; op < GPU_OP_COUNT; op++) {
        for (int basic = 0; basic < AMPI_BASIC_COUNT; basic++) {
            bool has = false;
            for (int type = 0; type < GPU_TYPE_COUNT; type++)
                has |= basic_of[type] == basic && gpu_can_combine(op, type);
            if (!ampi_op_kernels[op][basic] || ampi_op_stride_bytes[basic] == 0)
                ck_assert(!has);
            else
                ck_assert_msg(has || ampi_op_stride_bytes[basic] >= 16, "operation %d, type %d", op, basic);
        }
    }
}
END_TEST

/* The result goes to the host's memory if that is where it belongs, in several chunks if it is large. */
static void host_result(void *arg)
{
    enum { N = 3 << 20 };
    double *a = malloc(N * sizeof *a), *out = malloc(N * sizeof *out);
    const void *inputs[2];
    void *to = out;
    struct gpu_combine combine = {.outs = &to,
                                  .inputs = inputs,
                                  .n_outs = 1,
                                  .n_inputs = 2,
                                  .count_elems = N,
                                  .op = GPU_OP_SUM,
                                  .type = GPU_TYPE_DOUBLE,
                                  .device = -1};

    open_devices();
    for (int i = 0; i < N; i++)
        a[i] = i;
    inputs[0] = device_alloc(N * sizeof *a);
    device_write((char *)(uintptr_t)inputs[0], a, N * sizeof *a);
    inputs[1] = a;
    for (int is_started = 0; is_started < 2; is_started++) {
        struct started started;
        bool is_right = true;
        memset(out, 0, N * sizeof *out);
        if (is_started) {
            ULT_CHECK(start(&started, &combine) == 0);
            ULT_CHECK(!started.is_done);
            ULT_CHECK(finish(&started) == 0);
        } else {
            ULT_CHECK(gpu_combine_now(&combine) == 0);
        }
        for (int i = 0; i < N; i++)
            is_right &= out[i] == 2.0 * i;
        ULT_CHECK(is_right);
    }
    free(a);
    free(out);
}

START_TEST(results_in_host_memory)
{
    ult_job_start(1, 1, host_result);
}
END_TEST

/* ---- Combinations that no rank waits for, and errors: on the fake driver ---- */

#define N_BYTES (GPU_PINNED_SMALL + 4096) /* smaller data is copied by the CPU */

/* Three inputs, of two GPUs and the host; two outputs, of two GPUs. */
struct small {
    const void *inputs[3];
    void *outs[2];
    float ones[N_BYTES / sizeof(float)];
    struct gpu_combine combine;
};

static void make_small(struct small *s)
{
    open_devices();
    for (size_t i = 0; i < BASE_COUNT(s->ones); i++)
        s->ones[i] = 1;
    for (int i = 0; i < 2; i++) {
        char *input = alloc_on(i, N_BYTES);
        device_write(input, s->ones, N_BYTES);
        s->inputs[i] = input;
        s->outs[i] = alloc_on(i, N_BYTES);
    }
    s->inputs[2] = s->ones;
    s->combine = (struct gpu_combine){.outs = s->outs,
                                      .inputs = s->inputs,
                                      .n_outs = 2,
                                      .n_inputs = 3,
                                      .count_elems = N_BYTES / sizeof(float),
                                      .op = GPU_OP_SUM,
                                      .type = GPU_TYPE_FLOAT,
                                      .device = 0};
}

static void check_small(const struct small *s, float expected)
{
    for (int i = 0; i < 2; i++) {
        float seen[N_BYTES / sizeof(float)];
        bool is_right = true;
        device_read(seen, s->outs[i], N_BYTES);
        for (size_t k = 0; k < BASE_COUNT(seen); k++)
            is_right &= seen[k] == expected;
        ULT_CHECK(is_right);
    }
}

static void held(void *arg)
{
    struct small s;
    struct started started[2];

    make_small(&s);
    fakecuda_hold_kernels(true);
    for (int i = 0; i < 2; i++)
        ULT_CHECK(start(&started[i], &s.combine) == 0);
    for (int i = 0; i < 1000; i++)
        ult_yield();
    ULT_CHECK(!started[0].is_done && !started[1].is_done);
    fakecuda_hold_kernels(false);
    ULT_CHECK(finish(&started[0]) == 0 && finish(&started[1]) == 0);
    check_small(&s, 3);
}

START_TEST(who_starts_does_not_wait)
{
    if (fakecuda_is_here())
        ult_job_start(1, 1, held);
}
END_TEST

static int combine_either_way(const struct gpu_combine *combine, bool is_started)
{
    struct started started;
    int error = is_started ? start(&started, combine) : gpu_combine_now(combine);

    return is_started && !error ? finish(&started) : error;
}

/* No device memory is left for what has to be staged. */
static void check_out_of_memory(struct small *s, bool is_started)
{
    CUdeviceptr all[512] = {0};
    int n = 0;

    ULT_CHECK(cuCtxSetCurrent(contexts[1]) == CUDA_SUCCESS);
    for (size_t n_bytes = 1 << 20; n_bytes >= 4096 && n < 512; n_bytes /= 2)
        while (n < 512 && cuMemAlloc(&all[n], n_bytes) == CUDA_SUCCESS)
            n++;
    ULT_CHECK(n < 512);
    s->combine.device = 1;
    ULT_CHECK(combine_either_way(&s->combine, is_started) == CUDA_ERROR_OUT_OF_MEMORY);
    s->combine.device = 0;
    while (n > 0)
        ULT_CHECK(cuMemFree(all[--n]) == CUDA_SUCCESS);
    ULT_CHECK(cuCtxSetCurrent(contexts[0]) == CUDA_SUCCESS);
}

/* Whatever the call of the driver that fails, the error comes out, once, and the next one is well. */
static void failing(void *arg)
{
    static const char *const functions[] = {"cuLaunchKernel", "cuMemcpyAsync"};
    struct small s;

    make_small(&s);
    ULT_CHECK(gpu_combine_now(&s.combine) == 0);
    for (int is_started = 0; is_started < 2; is_started++) {
        for (size_t i = 0; i < BASE_COUNT(functions); i++) {
            fakecuda_fail(functions[i], 1, CUDA_ERROR_UNKNOWN);
            ULT_CHECK(combine_either_way(&s.combine, is_started) == CUDA_ERROR_UNKNOWN);
            ULT_CHECK(combine_either_way(&s.combine, is_started) == 0);
        }
        check_out_of_memory(&s, is_started);
        ULT_CHECK(combine_either_way(&s.combine, is_started) == 0);
    }
    check_small(&s, 3);
    ULT_CHECK(cuMemFree((CUdeviceptr)s.outs[1]) == CUDA_SUCCESS);
    ULT_CHECK(gpu_combine_now(&s.combine) != 0);
    ULT_CHECK(gpu_combine_start(&s.combine) != 0); /* without done, which would be called */
}

START_TEST(errors_come_out_once)
{
    if (fakecuda_is_here())
        ult_job_start(1, 1, failing);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_combine");
    TCase *tcase = tcase_create("combine");

    tcase_set_timeout(tcase, 280);
    tcase_add_test(tcase, all_operations_on_all_types_as_on_the_cpu);
    tcase_add_test(tcase, what_has_no_kernel);
    tcase_add_test(tcase, results_in_host_memory);
    tcase_add_test(tcase, who_starts_does_not_wait);
    tcase_add_test(tcase, errors_come_out_once);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
