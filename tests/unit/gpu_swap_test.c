/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a kernel compares and swaps elements of 1 to 16 bytes in a GPU's memory, at any address, with operands in
 * the host's, pinned and both GPUs' memory: that the old value is returned, that the element changes only if all its
 * bytes are as expected, and that nothing beside it does.
 */
#include <string.h>

#include "fakecuda.h"
#include "gpu/copy/queue.h"
#include "gpu_device.h"

enum { ROOM = 64 };

static CUcontext contexts[2]; /* the second is the first where there is one GPU */

static void open_devices(void)
{
    int n = 1;

    device_open();
    ULT_CHECK(cuCtxGetCurrent(&contexts[0]) == CUDA_SUCCESS && cuDeviceGetCount(&n) == CUDA_SUCCESS);
    contexts[1] = contexts[0];
    if (n > 1)
        ULT_CHECK(cuDevicePrimaryCtxRetain(&contexts[1], 1) == CUDA_SUCCESS);
}

enum place { HOST, PINNED, GPU0, GPU1, PLACES };

struct buffer {
    enum place place;
    char *bytes;
};

static struct buffer make(enum place place)
{
    struct buffer buffer = {place, NULL};
    void *pinned = NULL;

    if (place == HOST) {
        buffer.bytes = malloc(ROOM);
    } else if (place == PINNED) {
        ULT_CHECK(cuMemAllocHost(&pinned, ROOM) == CUDA_SUCCESS);
        buffer.bytes = pinned;
    } else {
        ULT_CHECK(cuCtxSetCurrent(contexts[place == GPU1]) == CUDA_SUCCESS);
        buffer.bytes = device_alloc(ROOM);
        ULT_CHECK(cuCtxSetCurrent(contexts[0]) == CUDA_SUCCESS);
    }
    return buffer;
}

/* Device and pinned memory stays until the process ends. */
static void release(const struct buffer *buffer)
{
    if (buffer->place == HOST)
        free(buffer->bytes);
}

static void put(const struct buffer *to, const unsigned char *image)
{
    if (to->place >= GPU0)
        device_write(to->bytes, image, ROOM);
    else
        memcpy(to->bytes, image, ROOM);
}

static void get(unsigned char *image, const struct buffer *from)
{
    if (from->place >= GPU0)
        device_read(image, from->bytes, ROOM);
    else
        memcpy(image, from->bytes, ROOM);
}

/* differs: the byte in which target and expected differ; -1: none. */
static void swap_once(const struct buffer buffers[4], size_t at, size_t n_bytes, int differs)
{
    unsigned char images[4][ROOM], after[4][ROOM];
    struct gpu_swap swap = {buffers[0].bytes + at, buffers[1].bytes + at, buffers[2].bytes + at,
                            buffers[3].bytes + at, n_bytes};

    for (int i = 0; i < 4; i++)
        random_fill(images[i], ROOM);
    memcpy(images[1] + at, images[0] + at, n_bytes);
    if (differs >= 0)
        images[1][at + (size_t)differs] ^= 0x10;
    for (int i = 0; i < 4; i++)
        put(&buffers[i], images[i]);
    ULT_CHECK(gpu_swap_can(&swap));
    ULT_CHECK(gpu_swap_now(&swap) == 0);
    memcpy(images[3] + at, images[0] + at, n_bytes);
    if (differs < 0)
        memcpy(images[0] + at, images[2] + at, n_bytes);
    for (int i = 0; i < 4; i++) {
        get(after[i], &buffers[i]);
        ULT_CHECK(memcmp(after[i], images[i], ROOM) == 0);
    }
}

static void all_places(void *arg)
{
    static const size_t sizes[] = {1, 2, 4, 8, 16};
    struct buffer of[PLACES][4];

    (void)arg;
    open_devices();
    for (int place = 0; place < PLACES; place++)
        for (int i = 0; i < 4; i++)
            of[place][i] = make((enum place)place);
    for (int target = GPU0; target < PLACES; target++)
        for (int operands = 0; operands < PLACES; operands++)
            for (size_t i = 0; i < BASE_COUNT(sizes); i++)
                for (size_t at = 16; at < 19; at++) {
                    struct buffer buffers[4] = {of[target][0], of[operands][1],
                                                of[(operands + 1) % PLACES][2],
                                                of[(operands + 2) % PLACES][3]};
                    swap_once(buffers, at, sizes[i], -1);
                    swap_once(buffers, at, sizes[i], 0);
                    swap_once(buffers, at, sizes[i], (int)sizes[i] - 1);
                }
    for (int i = 0; i < 4; i++)
        release(&of[HOST][i]);
}

START_TEST(an_element_changes_if_it_is_as_expected)
{
    ult_job_start(1, 1, all_places);
}
END_TEST

static void refused(void *arg)
{
    struct buffer host[4], device;

    (void)arg;
    open_devices();
    device = make(GPU0);
    for (int i = 0; i < 4; i++)
        host[i] = make(HOST);
    ULT_CHECK(
        !gpu_swap_can(&(struct gpu_swap){host[0].bytes, host[1].bytes, host[2].bytes, host[3].bytes, 8}));
    ULT_CHECK(!gpu_swap_can(&(struct gpu_swap){device.bytes, host[1].bytes, host[2].bytes, host[3].bytes,
                                               GPU_SWAP_BYTES_MAX + 1}));
    for (int i = 0; i < 4; i++)
        release(&host[i]);
}

START_TEST(host_targets_and_large_elements_have_no_kernel)
{
    ult_job_start(1, 1, refused);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_swap");
    TCase *tcase = tcase_create("swap");

    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, an_element_changes_if_it_is_as_expected);
    tcase_add_test(tcase, host_targets_and_large_elements_have_no_kernel);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
