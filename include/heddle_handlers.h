/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_handlers.h: the protocol of messages that run handlers on a GPU: the memory that kernels and the library share. heddle_handlers_device.h has
 * the code of kernels, mpi-ext-handlers.cuh the functions that programs call.
 *
 * Each rank of a set of handlers has a ring of slots in the memory of its GPU. Senders are kernels of any rank: user kernels, handlers,
 * and a small kernel that the library launches for a message of a host. Receivers are the blocks of the rank's resident kernel.
 *
 *      n_reserved    slots in use: a sender adds 1, and takes it back if there were n_slots already: the ring is full
 *      tickets       messages so far << 1 | AWAY: a sender adds 2 and gets its message's number, i
 *      slot.word     i << 32                                       slot i % n_slots is free for message i
 *                    i << 32 | FULL | tag << 16 | n_bytes          it holds message i
 *                    (i + n_slots) << 32                           message i has been copied out of it
 *      taken         number of the first message that no block has taken: blocks take messages in the order of their numbers
 *      n_done        messages whose handlers have returned
 *
 * No sender waits for a handler. Blocks take messages in order, so if i - n_slots had not been taken, the n_slots messages before i would all
 * be in use besides message i, and the reservation would have failed. So message i - n_slots has been taken, and its slot becomes free as soon as its
 * block has copied it. (A message for the whole grid keeps its slot until its handlers return. But no later message is taken meanwhile, so a sender with
 * number i would again find n_slots in use.)
 *
 * Far senders. Each access to another GPU is a round trip of about 1.2 us. So a sender looks at the slot that its message probably gets while its reservation is
 * under way. If the ticket then has another number, or the slot was not free, it looks at the right one. A free slot stays free for its message: only the
 * sender with that number may fill it.
 *
 * Order of memory. The scope of each access below contains both ends: it is that of the GPU only if both are there, else of the system.
 *
 *   1. sender         stores of data that the message tells of, and of the message into the slot
 *   2.                barrier, if other threads of the block made some of them
 *   3.                store-release of slot.word, FULL
 *   4. receiver       load-acquire of slot.word finds FULL with the number that it expects
 *   5.                barrier of the block: the other threads of the handler
 *   6.                loads of the message, and of the data that it tells of
 *
 * 3 synchronizes with 4, and barriers are synchronization within a block; causality order is transitive, so 1 happens before 6. The way back is the same:
 * the block's loads of the slot, its barrier, a store-release of the slot's next number, and the load-acquire of the sender that waits for it; so no
 * message is overwritten before it has been copied. A block that has taken message i by compare-and-swap is the only one that has: `taken` only grows.
 * Messages for the whole grid: each block loads slot.word itself (4), and a barrier of the grid orders what blocks do before it and behind it (an atomic
 * add that is release and acquire, and a load-acquire of the number of the barrier that the last block stores).
 *
 * The end of work. A handler's sends take their tickets before the handler is counted in n_done. So the sum of n_done over all ranks, read first, and the
 * sum of tickets, read when all have read the former, are equal only if there was no message left in between: both only grow, and no n_done is larger than
 * the tickets of its rank at the same time.
 *
 * Leaving. The kernel leaves by a compare-and-swap of `tickets` from n << 1 to n << 1 | AWAY, where n messages have been done. So either it sees a message's ticket
 * and stays, or the ticket's sender sees AWAY, and rings the doorbell when it has stored the message: a word in pinned memory that the PE of the receiver
 * polls, which launches the kernel again. The PE clears the doorbell before it launches, and the kernel clears AWAY before it looks for messages. A ring
 * that comes late costs a launch without a message, no message waits for one.
 */
#ifndef HEDDLE_HANDLERS_H
#define HEDDLE_HANDLERS_H

#include <stddef.h>
#include <stdint.h>

#define HEDDLE_HANDLERS_TAGS 256
#define HEDDLE_HANDLERS_SLOTS_MAX 65536
#define HEDDLE_HANDLERS_BYTES_MAX 2048 /* of a message */
#define HEDDLE_HANDLERS_THREADS_MAX 512
#define HEDDLE_HANDLERS_BLOCKS_MAX 2 /* of all sets on a multiprocessor */
#define HEDDLE_HANDLERS_AWAY 1u
#define HEDDLE_HANDLERS_FULL 0x80000000u

/* Errors of a send in a kernel. */
enum HEDDLE_Handlers_fault {
    HEDDLE_HANDLERS_FINE,
    HEDDLE_HANDLERS_NO_RANK,    /* the destination is not a rank of the communicator */
    HEDDLE_HANDLERS_NO_HANDLER, /* the destination has no handler with this tag */
    HEDDLE_HANDLERS_TOO_LONG,   /* the message is longer than a slot of the destination */
    HEDDLE_HANDLERS_ELSEWHERE,  /* the destination is in another process */
    HEDDLE_HANDLERS_NO_ACCESS,  /* this GPU cannot use memory of the destination's */
    HEDDLE_HANDLERS_NO_SLOT,    /* the destination's queue is full: not recorded, the caller may try again */
};

/* How a handler runs. */
enum HEDDLE_Handlers_by {
    HEDDLE_HANDLERS_BY_NONE, /* there is none */
    HEDDLE_HANDLERS_BY_BLOCK,
    HEDDLE_HANDLERS_BY_GRID,
};

struct HEDDLE_Handlers_slot {
    uint64_t word;
    uint32_t source;
    uint32_t pad;
    /* the message, in multiples of 16 bytes */
};

/* Words that are written by different parties are 128 bytes apart. */
struct HEDDLE_Handlers_ring {
    uint64_t tickets;
    uint64_t pad_0[15];
    uint32_t n_reserved;
    uint32_t pad_1[31];
    uint64_t taken;
    uint64_t left; /* number of the last launch that is leaving */
    uint64_t pad_2[14];
    uint64_t n_done;
    uint64_t pad_3[15];
    uint32_t n_arrived; /* blocks in the current barrier of the grid */
    uint32_t pad_4[31];
    uint32_t barrier; /* barriers so far */
    uint32_t pad_5[31];
};

/* Pinned memory of a rank. */
struct HEDDLE_Handlers_page {
    uint64_t doorbell; /* 1: a message has come to a kernel that is away */
    uint64_t pad_0[15];
    uint64_t left;   /* number of the last launch that has left; its last blocks may still return */
    uint64_t posted; /* messages of the host that are in their rings */
    uint64_t fault;  /* the last wrong send in a kernel: fault << 48 | tag << 32 | destination; 0: none */
    uint64_t pad_1[13];
    uint64_t evict; /* written by the host: leave now, for good */
    uint64_t pad_2[15];
};

struct HEDDLE_Handlers_entry {
    uint64_t function;
    uint64_t argument;
    uint32_t by; /* enum HEDDLE_Handlers_by */
    uint32_t pad;
};

/* How to reach a rank. Addresses are those of GPUs. */
struct HEDDLE_Handlers_peer {
    uint64_t ring;
    uint64_t slots;
    uint64_t doorbell;
    uint32_t n_slots; /* a power of 2 */
    uint32_t slot_bytes;
    uint32_t is_near;                         /* it is on the same GPU */
    uint32_t obstacle;                        /* enum HEDDLE_Handlers_fault: why it cannot be reached */
    uint64_t tags[HEDDLE_HANDLERS_TAGS / 64]; /* a bit for each tag that has a handler */
};

/* All that kernels need, in the memory of the rank's GPU. It does not change after the start, but for the guesses. */
struct HEDDLE_Handlers_device {
    uint32_t rank;
    uint32_t n_ranks;
    uint32_t n_blocks; /* of the resident kernel */
    uint32_t n_slots;
    uint32_t slot_bytes;
    uint32_t is_alone; /* all ranks that can send to this one are on its GPU */
    uint64_t idle_ns;  /* the kernel leaves after this time without messages */
    uint64_t ring;
    uint64_t slots;
    uint64_t page;
    struct HEDDLE_Handlers_entry entries[HEDDLE_HANDLERS_TAGS];
    /* n_ranks peers follow, and then n_ranks guesses: the number that the next message to each peer gets, if no other rank sends to it. */
};

/* The parameter of the resident kernel. */
struct HEDDLE_Handlers_launch {
    uint64_t device; /* address of a struct HEDDLE_Handlers_device */
    uint64_t number; /* of the launch; 0: it only loads the kernel, and returns at once */
};

/* The parameter of the kernel that sends a message of the host. */
struct HEDDLE_Handlers_post {
    uint64_t device;
    uint64_t number; /* of the message, for page.posted; 0: it only loads the kernel */
    uint32_t dest;
    uint32_t tag;
    uint32_t n_bytes;
    uint32_t pad;
    uint64_t data[HEDDLE_HANDLERS_BYTES_MAX / 8];
};

/* What a handler gets. */
struct HEDDLE_Handlers_message {
    const void *data; /* n_bytes; valid until the handler returns, aligned to 16 bytes */
    int n_bytes;
    int source; /* the sender's rank */
    int tag;
    int rank;  /* the receiver's */
    int block; /* of n_blocks that run this handler together: 0 of 1, unless it runs on the whole grid */
    int n_blocks;
    void *argument;                        /* of AMPI_GPU_Register_handler */
    struct HEDDLE_Handlers_device *device; /* for AMPI_GPU_Send */
};

/* Bytes of a struct HEDDLE_Handlers_device with all that follows. */
#define HEDDLE_HANDLERS_DEVICE_BYTES(n_ranks) \
    (sizeof(struct HEDDLE_Handlers_device) +  \
     (uint64_t)(n_ranks) * (sizeof(struct HEDDLE_Handlers_peer) + sizeof(uint64_t)))

/* Distance of slots. */
#define HEDDLE_HANDLERS_STRIDE(slot_bytes) (sizeof(struct HEDDLE_Handlers_slot) + (uint64_t)(slot_bytes))

#endif /* HEDDLE_HANDLERS_H */
