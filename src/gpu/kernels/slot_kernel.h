/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slot_kernel.h: small messages between streams (gpu/streams/stream_slots.c). The sender's kernel copies the
 * data into a slot of its GPU's memory, and never waits. The receiver's kernel waits for the slot to be
 * full, and copies out of it, perhaps from the other GPU. Before that it waits, in pinned memory, until the
 * PE has announced the slot.
 *
 * Memory order. Stores and loads of 8 bytes are not divided, so a word with the right turn has its data, and needs no
 * fence. The receiver has used its data when its threads meet before `reached`: the PE that sees `reached` gives the
 * slot to the next message. The plain copy of the data is ordered before `reached` by a barrier and a fence, as in
 * exchange_kernel.h.
 */
#ifndef GPU_KERNELS_SLOT_KERNEL_H
#define GPU_KERNELS_SLOT_KERNEL_H

#include "gpu/kernels/exchange_kernel.h"

GPU_FN uint32_t slot_words(uint32_t n_bytes)
{
    return n_bytes == 0 ? 1 : (n_bytes + 3) / 4;
}

/* The i-th 4 bytes of a message; behind its end they are 0. */
GPU_FN uint32_t slot_load(uint64_t from, uint32_t n_bytes, uint32_t i)
{
    uint32_t value = 0;

    if (from % 4 == 0 && 4 * i + 4 <= n_bytes)
        return *GPU_AT(const uint32_t, from + 4 * i);
    for (uint32_t j = 0; j < 4 && 4 * i + j < n_bytes; j++)
        value |= (uint32_t)*GPU_AT(const uint8_t, from + 4 * i + j) << 8 * j;
    return value;
}

GPU_FN void slot_store(uint64_t to, uint32_t n_bytes, uint32_t i, uint32_t value)
{
    if (to % 4 == 0 && 4 * i + 4 <= n_bytes) {
        *GPU_AT(uint32_t, to + 4 * i) = value;
        return;
    }
    for (uint32_t j = 0; j < 4 && 4 * i + j < n_bytes; j++)
        *GPU_AT(uint8_t, to + 4 * i + j) = (uint8_t)(value >> 8 * j);
}

/* Reports to the PE that the stream has come here. */
GPU_FN void slot_say(uint64_t reached, uint32_t number)
{
    gpu_write_now<uint32_t>(reached, number);
}

GPU_FN void fill_body(const struct gpu_kernel_fill &a, unsigned thread, unsigned n_threads)
{
    for (uint32_t i = thread; i < slot_words(a.n_bytes); i += n_threads) {
        uint32_t value = slot_load(a.from, a.n_bytes, i);
        gpu_write_now<uint64_t>(a.slot + offsetof(struct gpu_slot_memory, words) + i * sizeof(uint64_t),
                                (uint64_t)a.turn << 32 | value);
        slot_store(a.slot + offsetof(struct gpu_slot_memory, plain), a.n_bytes, i, value);
    }
    GPU_BARRIER();
    if (thread == 0) {
        GPU_FENCE();
        slot_say(a.reached, a.number);
    }
}

/* One thread: waits until the PE has announced the slot. */
GPU_FN void empty_find(uint64_t words_at, uint64_t *place, uint64_t *turn)
{
    for (;;) {
        *place = gpu_read_now<uint64_t>(words_at + offsetof(struct gpu_inbox_words, place));
        *turn = gpu_read_now<uint64_t>(words_at + offsetof(struct gpu_inbox_words, turn));
        if (*place && *turn)
            break;
        EXCHANGE_NAP();
    }
    GPU_FENCE(); /* the PE may have received the message */
}

GPU_FN void empty_slot(uint64_t to, uint64_t place, uint32_t turn, unsigned thread, unsigned n_threads)
{
    uint64_t words = place & (((uint64_t)1 << GPU_INBOX_ADDRESS_BITS) - 1);
    uint32_t n_bytes = (uint32_t)(place >> GPU_INBOX_ADDRESS_BITS);

    for (uint32_t i = thread; i < slot_words(n_bytes); i += n_threads) {
        uint64_t word;
        while ((uint32_t)((word = gpu_read_now<uint64_t>(words + i * sizeof(uint64_t))) >> 32) != turn)
            EXCHANGE_NAP();
        slot_store(to, n_bytes, i, (uint32_t)word);
    }
}

GPU_FN void empty_body(const struct gpu_kernel_empty &a, unsigned thread, unsigned n_threads)
{
    GPU_SHARED uint64_t found[2];

    if (thread == 0 && a.has_arrived)
        slot_say(a.reached, a.arrived);
    for (uint32_t i = 0; i < a.n; i++) {
        uint64_t place = a.ends[i].place, turn = a.ends[i].turn;
        if (turn == 0) {
            GPU_BARRIER();
            if (thread == 0)
                empty_find(a.ends[i].words_at, &found[0], &found[1]);
            GPU_BARRIER();
            place = found[0];
            turn = found[1];
        }
        if (place != GPU_INBOX_DONE)
            empty_slot(a.ends[i].to, place, (uint32_t)turn, thread, n_threads);
    }
    GPU_BARRIER();
    if (thread == 0 && a.has_done)
        slot_say(a.reached, a.done);
}

#endif
