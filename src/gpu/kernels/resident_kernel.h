/* SPDX-License-Identifier: BSD-3-Clause
 *
 * resident_kernel.h: a kernel that stays on the GPU for a while and makes the copies that the CPU orders:
 * without driver calls, and without waiting behind the program's kernels. kernels.h has the mailbox,
 * gpu/copy/resident.c the CPU's side.
 *
 * Before it leaves it reports that, checks for orders a last time, and then reports that it has left.
 * Orders not done by then will never be done, and the CPU does them another way.
 */
#ifndef GPU_KERNELS_RESIDENT_KERNEL_H
#define GPU_KERNELS_RESIDENT_KERNEL_H

#include "gpu/kernels/portable.h"

/* Loads in flight per thread. */
#define RESIDENT_LOADS 8

/* ---- Copying ---- */

template <typename T>
GPU_FN void resident_copy_units(uint64_t to, uint64_t from, uint64_t n_bytes, unsigned thread,
                                unsigned n_threads)
{
    unsigned n = (unsigned)(n_bytes / sizeof(T));

    for (unsigned i = thread; i < n; i += n_threads * RESIDENT_LOADS) {
        T value[RESIDENT_LOADS] = {};
        GPU_UNROLL
        for (unsigned j = 0; j < RESIDENT_LOADS; j++)
            if (i + j * n_threads < n)
                value[j] = GPU_READ_FRESH(T, from + (uint64_t)(i + j * n_threads) * sizeof(T));
        GPU_UNROLL
        for (unsigned j = 0; j < RESIDENT_LOADS; j++)
            if (i + j * n_threads < n)
                *GPU_AT(T, to + (uint64_t)(i + j * n_threads) * sizeof(T)) = value[j];
    }
}

GPU_FN void resident_copy(const uint64_t *words, unsigned thread, unsigned n_threads)
{
    const uint64_t mask = ((uint64_t)1 << GPU_RESIDENT_ADDRESS_BITS) - 1;
    uint64_t to = words[0] & mask, from = words[1] & mask, n_bytes = words[2] & mask;

    if ((to | from | n_bytes) % 16 == 0)
        resident_copy_units<uint4>(to, from, n_bytes, thread, n_threads);
    else if ((to | from | n_bytes) % 8 == 0)
        resident_copy_units<uint64_t>(to, from, n_bytes, thread, n_threads);
    else if ((to | from | n_bytes) % 4 == 0)
        resident_copy_units<uint32_t>(to, from, n_bytes, thread, n_threads);
    else
        resident_copy_units<uint8_t>(to, from, n_bytes, thread, n_threads);
}

/* ---- Orders ---- */

GPU_FN uint64_t resident_word(uint64_t mailbox, uint32_t number, unsigned word)
{
    uint64_t order = mailbox + offsetof(struct gpu_mailbox, orders) +
                     number % GPU_RESIDENT_ORDERS * sizeof(struct gpu_resident_order);

    return gpu_read_now<uint64_t>(order + word * sizeof(uint64_t));
}

GPU_FN bool resident_is_of(uint64_t word, uint32_t number)
{
    return word >> GPU_RESIDENT_ADDRESS_BITS == (number & 0xffff);
}

#ifdef __CUDACC__

/* One poll by the first warp, a word per thread. Returns the number of orders present from `number` on;
 * their words are in batch. *is_called_out: the kernel is evicted. */
GPU_FN unsigned resident_look(uint64_t mailbox, uint32_t number, uint64_t (*batch)[4], unsigned lane,
                              bool *is_called_out)
{
    unsigned order = lane / 4, word = lane % 4;
    uint64_t seen = resident_word(mailbox, number + order, word);
    bool is_call = word == GPU_RESIDENT_LEAVE;
    unsigned missing = ~__ballot_sync(0xffffffff, is_call || resident_is_of(seen, number + order));
    unsigned n = missing ? (__ffs((int)missing) - 1) / 4 : GPU_RESIDENT_BATCH;

    *is_called_out = __any_sync(0xffffffff, is_call && seen != 0);
    if (order < n)
        batch[order][word] = seen;
    return n;
}

/* The same value for the whole warp. */
GPU_FN uint64_t resident_now_ns()
{
    return __shfl_sync(0xffffffff, gpu_now_ns(), 0);
}

#else

GPU_FN unsigned resident_look(uint64_t mailbox, uint32_t number, uint64_t (*batch)[4], unsigned lane,
                              bool *is_called_out)
{
    unsigned n = 0;

    *is_called_out = resident_word(mailbox, number, GPU_RESIDENT_LEAVE) != 0;
    for (; n < GPU_RESIDENT_BATCH; n++)
        for (unsigned word = 0; word < 3; word++) {
            batch[n][word] = resident_word(mailbox, number + n, word);
            if (!resident_is_of(batch[n][word], number + n)) {
                /* On a CPU (the fake driver): yields to other threads. */
                if (n == 0 && !*is_called_out)
                    usleep(2);
                return n;
            }
        }
    return n;
}

GPU_FN uint64_t resident_now_ns()
{
    return gpu_now_ns();
}

#endif

GPU_FN void resident_say(const struct gpu_kernel_resident &a, enum gpu_resident_phase phase)
{
    gpu_write_now<uint32_t>(a.mailbox + offsetof(struct gpu_mailbox, state),
                            GPU_RESIDENT_SAYS(a.launch, phase));
}

/* Timing of the first warp. */
struct resident_stay {
    uint64_t begun_ns;
    uint64_t last_ns; /* time of the last order */
    bool is_leaving;
    bool is_leaving_now; /* it was evicted */
};

/* The first warp waits for orders. 0: there will be none. When evicted, it takes the orders it sees, and
 * reports its departure only once it has left: a caller waits for that. */
GPU_FN unsigned resident_wait(const struct gpu_kernel_resident &a, uint32_t number,
                              struct resident_stay *stay, uint64_t (*batch)[4], unsigned thread)
{
    for (;;) {
        uint64_t now_ns = resident_now_ns();
        unsigned n;
        if (stay->is_leaving_now)
            return 0;
        if (!stay->is_leaving &&
            (now_ns - stay->last_ns > a.wait_ns || now_ns - stay->begun_ns > a.stay_ns)) {
            stay->is_leaving = true;
            if (thread == 0)
                resident_say(a, GPU_RESIDENT_LEAVING);
            GPU_WARP_BARRIER();
            GPU_FENCE();
        }
        n = resident_look(a.mailbox, number, batch, thread, &stay->is_leaving_now);
        stay->is_leaving |= stay->is_leaving_now;
        if (n > 0)
            stay->last_ns = now_ns;
        if (n > 0 || stay->is_leaving)
            return n;
    }
}

GPU_FN void resident_body(const struct gpu_kernel_resident &a, unsigned thread, unsigned n_threads)
{
    GPU_SHARED uint64_t batch[GPU_RESIDENT_BATCH][4];
    GPU_SHARED unsigned n_orders;
    struct resident_stay stay = {gpu_now_ns(), 0, false, false};
    uint32_t number = a.first;

    if (thread < 32) {
        stay.begun_ns = stay.last_ns = resident_now_ns();
        if (thread == 0)
            resident_say(a, GPU_RESIDENT_HERE);
    }
    for (;;) {
        if (thread < 32) {
            unsigned n = resident_wait(a, number, &stay, batch, thread);
            if (thread == 0)
                n_orders = n;
        }
        GPU_BARRIER();
        if (n_orders == 0)
            break;
        /* Different warps do the small orders. */
        for (unsigned i = 0; i < n_orders; i++)
            resident_copy(batch[i], (thread + i * (n_threads / GPU_RESIDENT_BATCH)) % n_threads, n_threads);
        number += n_orders;
        GPU_BARRIER();
        if (thread == 0) {
            GPU_FENCE();
            gpu_write_now<uint32_t>(a.mailbox + offsetof(struct gpu_mailbox, done), number - 1);
        }
    }
    if (thread == 0) {
        GPU_FENCE();
        resident_say(a, GPU_RESIDENT_LEFT);
    }
}

#endif
