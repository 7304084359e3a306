/* SPDX-License-Identifier: BSD-3-Clause
 *
 * service_kernel.h: a kernel that stays on the GPU for a while and copies what the CPU orders: no call of the
 * driver, and no wait behind the program's kernels. kernels.h has the mailbox, gpu/service.c the other side.
 *
 * When it leaves it says so, looks a last time, and says that it has left. What it has not done by then it
 * never will, and the CPU does it another way.
 */
#ifndef GPU_KERNELS_SERVICE_KERNEL_H
#define GPU_KERNELS_SERVICE_KERNEL_H

#include "gpu/kernels/portable.h"

/* Loads of a thread that are under way at once. */
#define SERVICE_LOADS 8

/* ---- Copying ---- */

template <typename T>
GPU_FN void service_copy_units(uint64_t to, uint64_t from, uint64_t n_bytes, unsigned thread,
                               unsigned n_threads)
{
    unsigned n = (unsigned)(n_bytes / sizeof(T));

    for (unsigned i = thread; i < n; i += n_threads * SERVICE_LOADS) {
        T value[SERVICE_LOADS] = {};
        GPU_UNROLL
        for (unsigned j = 0; j < SERVICE_LOADS; j++)
            if (i + j * n_threads < n)
                value[j] = GPU_READ_FRESH(T, from + (uint64_t)(i + j * n_threads) * sizeof(T));
        GPU_UNROLL
        for (unsigned j = 0; j < SERVICE_LOADS; j++)
            if (i + j * n_threads < n)
                *GPU_AT(T, to + (uint64_t)(i + j * n_threads) * sizeof(T)) = value[j];
    }
}

GPU_FN void service_copy(const uint64_t *words, unsigned thread, unsigned n_threads)
{
    const uint64_t mask = ((uint64_t)1 << GPU_SERVICE_ADDRESS_BITS) - 1;
    uint64_t to = words[0] & mask, from = words[1] & mask, n_bytes = words[2] & mask;

    if ((to | from | n_bytes) % 16 == 0)
        service_copy_units<uint4>(to, from, n_bytes, thread, n_threads);
    else if ((to | from | n_bytes) % 8 == 0)
        service_copy_units<uint64_t>(to, from, n_bytes, thread, n_threads);
    else if ((to | from | n_bytes) % 4 == 0)
        service_copy_units<uint32_t>(to, from, n_bytes, thread, n_threads);
    else
        service_copy_units<uint8_t>(to, from, n_bytes, thread, n_threads);
}

/* ---- Orders ---- */

GPU_FN uint64_t service_word(uint64_t mailbox, uint32_t number, unsigned word)
{
    uint64_t order = mailbox + offsetof(struct gpu_mailbox, orders) +
                     number % GPU_SERVICE_ORDERS * sizeof(struct gpu_service_order);

    return gpu_read_now<uint64_t>(order + word * sizeof(uint64_t));
}

GPU_FN bool service_is_of(uint64_t word, uint32_t number)
{
    return word >> GPU_SERVICE_ADDRESS_BITS == (number & 0xffff);
}

#ifdef __CUDACC__

/* One look of the first warp, a word per thread. Returns how many orders from this number on are there; their
 * words are in batch. *is_called_out: it is called away. */
GPU_FN unsigned service_look(uint64_t mailbox, uint32_t number, uint64_t (*batch)[4], unsigned lane,
                             bool *is_called_out)
{
    unsigned order = lane / 4, word = lane % 4;
    uint64_t seen = service_word(mailbox, number + order, word);
    bool is_call = word == GPU_SERVICE_LEAVE;
    unsigned missing = ~__ballot_sync(0xffffffff, is_call || service_is_of(seen, number + order));
    unsigned n = missing ? (__ffs((int)missing) - 1) / 4 : GPU_SERVICE_BATCH;

    *is_called_out = __any_sync(0xffffffff, is_call && seen != 0);
    if (order < n)
        batch[order][word] = seen;
    return n;
}

/* All of the warp get the same. */
GPU_FN uint64_t service_now_ns()
{
    return __shfl_sync(0xffffffff, gpu_now_ns(), 0);
}

#else

GPU_FN unsigned service_look(uint64_t mailbox, uint32_t number, uint64_t (*batch)[4], unsigned lane,
                             bool *is_called_out)
{
    unsigned n = 0;

    *is_called_out = service_word(mailbox, number, GPU_SERVICE_LEAVE) != 0;
    for (; n < GPU_SERVICE_BATCH; n++)
        for (unsigned word = 0; word < 3; word++) {
            batch[n][word] = service_word(mailbox, number + n, word);
            if (!service_is_of(batch[n][word], number + n)) {
                /* The machine that this runs on has other things to do. */
                if (n == 0 && !*is_called_out)
                    usleep(2);
                return n;
            }
        }
    return n;
}

GPU_FN uint64_t service_now_ns()
{
    return gpu_now_ns();
}

#endif

GPU_FN void service_say(const struct gpu_kernel_service &a, enum gpu_service_phase phase)
{
    gpu_write_now<uint32_t>(a.mailbox + offsetof(struct gpu_mailbox, state),
                            GPU_SERVICE_SAYS(a.launch, phase));
}

/* Times of the first warp. */
struct service_stay {
    uint64_t begun_ns;
    uint64_t last_ns; /* when there was an order last */
    bool is_leaving;
    bool is_leaving_now; /* it was called away */
};

/* The first warp waits for orders. 0: there will be none. Called away, it takes what it sees and says that it
 * leaves only when it has left: somebody waits for that. */
GPU_FN unsigned service_wait(const struct gpu_kernel_service &a, uint32_t number, struct service_stay *stay,
                             uint64_t (*batch)[4], unsigned thread)
{
    for (;;) {
        uint64_t now_ns = service_now_ns();
        unsigned n;
        if (stay->is_leaving_now)
            return 0;
        if (!stay->is_leaving &&
            (now_ns - stay->last_ns > a.wait_ns || now_ns - stay->begun_ns > a.stay_ns)) {
            stay->is_leaving = true;
            if (thread == 0)
                service_say(a, GPU_SERVICE_LEAVING);
            GPU_WARP_BARRIER();
            GPU_FENCE();
        }
        n = service_look(a.mailbox, number, batch, thread, &stay->is_leaving_now);
        stay->is_leaving |= stay->is_leaving_now;
        if (n > 0)
            stay->last_ns = now_ns;
        if (n > 0 || stay->is_leaving)
            return n;
    }
}

GPU_FN void service_body(const struct gpu_kernel_service &a, unsigned thread, unsigned n_threads)
{
    GPU_SHARED uint64_t batch[GPU_SERVICE_BATCH][4];
    GPU_SHARED unsigned n_orders;
    struct service_stay stay = {gpu_now_ns(), 0, false, false};
    uint32_t number = a.first;

    if (thread < 32) {
        stay.begun_ns = stay.last_ns = service_now_ns();
        if (thread == 0)
            service_say(a, GPU_SERVICE_HERE);
    }
    for (;;) {
        if (thread < 32) {
            unsigned n = service_wait(a, number, &stay, batch, thread);
            if (thread == 0)
                n_orders = n;
        }
        GPU_BARRIER();
        if (n_orders == 0)
            break;
        /* Small orders are done by different warps. */
        for (unsigned i = 0; i < n_orders; i++)
            service_copy(batch[i], (thread + i * (n_threads / GPU_SERVICE_BATCH)) % n_threads, n_threads);
        number += n_orders;
        GPU_BARRIER();
        if (thread == 0) {
            GPU_FENCE();
            gpu_write_now<uint32_t>(a.mailbox + offsetof(struct gpu_mailbox, done), number - 1);
        }
    }
    if (thread == 0) {
        GPU_FENCE();
        service_say(a, GPU_SERVICE_LEFT);
    }
}

#endif
