/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_room.h: divides pieces of address space into blocks: first fit, by address. Touches no memory.
 *
 * Invariant: free blocks are sorted by address, are not empty, and two of one piece are never neighbours.
 */
#ifndef GPU_DEVICE_ROOM_H
#define GPU_DEVICE_ROOM_H

#include "base/base.h"

struct gpu_room_block {
    uint64_t at;
    size_t n_bytes;
    int piece; /* blocks of different pieces are never joined */
};

struct gpu_room_piece {
    uint64_t at;
    size_t n_bytes;
};

struct gpu_room {
    struct gpu_room_block *free; /* sorted */
    int n_free;
    int capacity; /* of the array */
    int n_pieces;
    struct gpu_room_piece *pieces;
};

/* Adds a piece. */
void gpu_room_add(struct gpu_room *room, uint64_t at, size_t n_bytes);

/* Removes a piece that is all free. False: there is none. */
bool gpu_room_remove(struct gpu_room *room, struct gpu_room_piece *piece_out) BASE_MUST_CHECK;

/* A block of n_bytes, a multiple of the caller's unit. False: there is none. */
bool gpu_room_take(struct gpu_room *room, size_t n_bytes, uint64_t *at_out) BASE_MUST_CHECK;
void gpu_room_give(struct gpu_room *room, uint64_t at, size_t n_bytes);

#endif
