/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that every built-in operation gives the same bits on a GPU as on the CPU (any NaN for a NaN), on
 * every type that has a kernel, for 1 to 300 inputs, odd lengths and alignments, and with buffers of the host
 * among those of GPUs; and which types have kernels.
 */
#include <string.h>

#include "ampi/op.h"
#include "gpu/kernels/kernels.h"
#include "gpu/queue.h"
#include "gpu_device.h"

#define N_MAX 300 /* inputs */
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
    char *device[N_MAX];
    char *out;
    unsigned char *want, *seen;
};

static void check_pair(struct buffers *b, int op, int type, int n_inputs, size_t n_elems, size_t shift,
                       bool is_in_place)
{
    int basic = basic_of[type];
    size_t stride = ampi_op_stride_bytes[basic], n_bytes = n_elems * stride;
    const void *inputs[N_MAX];
    void *out = is_in_place ? b->device[0] : b->out;
    struct gpu_combine combine = {
        .outs = &out, .inputs = inputs, .n_outs = 1, .n_inputs = n_inputs, .op = op, .type = type, .device = -1};

    shift *= stride;
    combine.count_elems = (int64_t)n_elems;
    out = (char *)out + shift;
    for (int i = 0; i < n_inputs; i++) {
        fill(b->host[i], n_elems, basic);
        device_write(b->device[i] + shift, b->host[i], n_bytes);
        inputs[i] = b->device[i] + shift;
        if (!is_in_place && i > 0 && i % 5 == 0) /* some are the host's */
            inputs[i] = b->host[i];
    }
    memcpy(b->want, b->host[0], n_bytes);
    if (!is_in_place)
        device_write(b->out + shift, b->host[0], n_bytes); /* what pairs have between them */
    for (int i = 1; i < n_inputs; i++)
        ampi_op_kernels[op][basic](b->host[i], b->want, n_elems);
    ULT_CHECK(gpu_combine_now(&combine) == 0);
    device_read(b->seen, out, n_bytes);
    if (!is_same(b->want, b->seen, n_bytes, basic)) {
        printf("operation %d on %s: %d inputs, %zu elements, shift %zu\n", op, name_of[type], n_inputs,
               n_elems, shift);
        ULT_CHECK(!"the same bits as the CPU");
    }
}

static void all_pairs(void *arg)
{
    struct buffers b;
    int n_pairs = 0;

    device_open();
    for (int i = 0; i < N_MAX; i++) {
        b.host[i] = malloc(ELEMS * 16 + 64);
        b.device[i] = device_alloc(ELEMS * 16 + 64);
    }
    b.out = device_alloc(ELEMS * 16 + 64);
    b.want = malloc(ELEMS * 16 + 64);
    b.seen = malloc(ELEMS * 16 + 64);
    for (int type = 0; type < GPU_TYPE_COUNT; type++) {
        for (int op = 0; op < GPU_OP_COUNT; op++) {
            if (!gpu_can_combine(op, type))
                continue;
            ULT_CHECK(ampi_op_kernels[op][basic_of[type]] != NULL);
            n_pairs++;
            check_pair(&b, op, type, 2, ELEMS, 0, false);
            check_pair(&b, op, type, 2, ELEMS - 1, 1, true);
            check_pair(&b, op, type, 7, (size_t)random_in(1, ELEMS), 0, false);
            check_pair(&b, op, type, 1, (size_t)random_in(1, ELEMS), 0, false);
        }
    }
    check_pair(&b, GPU_OP_SUM, GPU_TYPE_DOUBLE, N_MAX, 100, 0, false);
    check_pair(&b, GPU_OP_MAXLOC, GPU_TYPE_LONG_INT, N_MAX, 33, 0, true);
    ULT_CHECK(n_pairs == 8 * 10 + 3 * 4 + 3 * 2 + 3 + 5 * 3 + 7 * 2);
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
                                  .device = -1,
                                  .n_inputs = 2,
                                  .count_elems = N,
                                  .op = GPU_OP_SUM,
                                  .type = GPU_TYPE_DOUBLE};
    bool is_right = true;

    device_open();
    for (int i = 0; i < N; i++)
        a[i] = i;
    inputs[0] = device_alloc(N * sizeof *a);
    device_write((char *)(uintptr_t)inputs[0], a, N * sizeof *a);
    inputs[1] = a;
    ULT_CHECK(gpu_combine_now(&combine) == 0);
    for (int i = 0; i < N; i++)
        is_right &= out[i] == 2.0 * i;
    ULT_CHECK(is_right);
    free(a);
    free(out);
}

START_TEST(results_in_host_memory)
{
    ult_job_start(1, 1, host_result);
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
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
