/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_room.c: see device_room.h. Taking and giving cost a search in the list of free blocks.
 */
#include "gpu/work/device_room.h"

#include <string.h>

#include "base/log.h"

/* The first free block at or above the address. */
static int find(const struct gpu_room *room, uint64_t at)
{
    int low = 0, high = room->n_free;

    while (low < high) {
        int mid = (low + high) / 2;
        if (room->free[mid].at < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void insert(struct gpu_room *room, int index, struct gpu_room_block block)
{
    if (room->n_free == room->capacity) {
        room->capacity = room->capacity ? 2 * room->capacity : 64;
        room->free = base_realloc(room->free, (size_t)room->capacity * sizeof *room->free, "a GPU's memory");
    }
    memmove(&room->free[index + 1], &room->free[index], (size_t)(room->n_free - index) * sizeof *room->free);
    room->free[index] = block;
    room->n_free++;
}

static void erase(struct gpu_room *room, int index)
{
    room->n_free--;
    memmove(&room->free[index], &room->free[index + 1], (size_t)(room->n_free - index) * sizeof *room->free);
}

/* The piece that an address lies in: the one that begins last at or below it. */
static int piece_of(const struct gpu_room *room, uint64_t at)
{
    int found = -1;

    for (int i = 0; i < room->n_pieces; i++)
        if (room->pieces[i].at <= at && (found < 0 || room->pieces[i].at > room->pieces[found].at))
            found = i;
    return found;
}

static bool touch(const struct gpu_room_block *a, const struct gpu_room_block *b)
{
    return a->piece == b->piece && a->at + a->n_bytes == b->at;
}

void gpu_room_add(struct gpu_room *room, uint64_t at, size_t n_bytes)
{
    room->pieces =
        base_realloc(room->pieces, (size_t)(room->n_pieces + 1) * sizeof *room->pieces, "a GPU's memory");
    room->pieces[room->n_pieces++] = (struct gpu_room_piece){at, n_bytes};
    gpu_room_give(room, at, n_bytes);
}

bool gpu_room_remove(struct gpu_room *room, struct gpu_room_piece *piece_out)
{
    int i = 0, piece, last = room->n_pieces - 1;

    while (i < room->n_free && room->free[i].n_bytes < room->pieces[room->free[i].piece].n_bytes)
        i++;
    if (i == room->n_free)
        return false;
    piece = room->free[i].piece;
    *piece_out = room->pieces[piece];
    erase(room, i);
    for (i = 0; i < room->n_free; i++)
        if (room->free[i].piece == last)
            room->free[i].piece = piece;
    room->pieces[piece] = room->pieces[last];
    room->n_pieces = last;
    return true;
}

bool gpu_room_take(struct gpu_room *room, size_t n_bytes, uint64_t *at_out)
{
    for (int i = 0; i < room->n_free; i++) {
        struct gpu_room_block *block = &room->free[i];
        if (block->n_bytes < n_bytes)
            continue;
        *at_out = block->at;
        block->at += n_bytes;
        block->n_bytes -= n_bytes;
        if (block->n_bytes == 0)
            erase(room, i);
        return true;
    }
    return false;
}

void gpu_room_give(struct gpu_room *room, uint64_t at, size_t n_bytes)
{
    struct gpu_room_block block = {at, n_bytes, piece_of(room, at)};
    int index = find(room, at);

    if (index < room->n_free && touch(&block, &room->free[index])) {
        block.n_bytes += room->free[index].n_bytes;
        erase(room, index);
    }
    if (index > 0 && touch(&room->free[index - 1], &block))
        room->free[index - 1].n_bytes += block.n_bytes;
    else
        insert(room, index, block);
}
