/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_dynamic.c: memory of dynamic windows (MPI 5.0, section 12.2.4). Regions are sorted and do not
 * overlap, except that empty ones may be anywhere; origins on other PEs read them while holding `combining`.
 */
#include "ampi/rma/win.h"

#include "base/log.h"

/* The number of regions that begin at or before the address. */
static int find(const struct ampi_win *win, uintptr_t address)
{
    int low = 0, high = win->n_regions;

    while (low < high) {
        int middle = (low + high) / 2;
        if (win->regions[middle].from <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_empty(const struct ampi_win_region *region)
{
    return region->from == region->to;
}

/* The last region before this index, and the first from it on, that are not empty; NULL: none. */
static const struct ampi_win_region *before(const struct ampi_win *win, int at)
{
    while (at > 0 && is_empty(&win->regions[at - 1]))
        at--;
    return at > 0 ? &win->regions[at - 1] : NULL;
}

static const struct ampi_win_region *from_on(const struct ampi_win *win, int at)
{
    while (at < win->n_regions && is_empty(&win->regions[at]))
        at++;
    return at < win->n_regions ? &win->regions[at] : NULL;
}

/* True if regions cover the range; they may be adjacent. */
static bool covers(const struct ampi_win *target, uintptr_t from, uintptr_t to)
{
    const struct ampi_win_region *region = before(target, find(target, from));

    while (region && region->from <= from) {
        if (region->to >= to)
            return true;
        from = region->to;
        region = from_on(target, (int)(region - target->regions) + 1);
    }
    return false;
}

bool ampi_win_is_attached(struct ampi_win *target, uintptr_t from, uintptr_t to)
{
    bool is_attached;

    ampi_win_combine_begin(target);
    is_attached = covers(target, from, to);
    ampi_win_combine_end(target);
    return is_attached;
}

static int check(MPI_Win handle, struct ampi_win **win_out)
{
    *win_out = ampi_win_of(handle);
    if (!*win_out)
        return ampi_win_raise_invalid(handle);
    if ((*win_out)->shared->flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return ampi_win_raise(*win_out, MPI_ERR_RMA_FLAVOR, "the window is not dynamic");
    return MPI_SUCCESS;
}

/* Adds the region; false: it overlaps another one. */
static bool attach(struct ampi_win *win, struct ampi_win_region region, struct ampi_win_region *room)
{
    int at = find(win, region.from);
    const struct ampi_win_region *old = win->regions, *lower = before(win, at), *upper = from_on(win, at);

    if (!is_empty(&region) && ((lower && lower->to > region.from) || (upper && upper->from < region.to)))
        return false;
    for (int i = 0; i < win->n_regions; i++)
        room[i < at ? i : i + 1] = old[i];
    room[at] = region;
    win->regions = room;
    win->n_regions++;
    return true;
}

AMPI_EXPORT(Win_attach);
int PMPI_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
    struct ampi_win *object;
    struct ampi_win_region region = {(uintptr_t)base, (uintptr_t)base + (uintptr_t)size};
    struct ampi_win_region *room, *unused;
    bool is_attached;
    int error;

    ampi_enter("MPI_Win_attach");
    if ((error = check(win, &object)))
        return error;
    if (size < 0)
        return ampi_win_raise(object, MPI_ERR_SIZE, "the size %lld is negative", (long long)size);
    if (!base && size > 0)
        return ampi_win_raise(object, MPI_ERR_RMA_ATTACH, "base is NULL, but the size is %lld",
                              (long long)size);
    room = base_malloc(((size_t)object->n_regions + 1) * sizeof *room, "memory attached to a window");
    ampi_win_combine_begin(object);
    unused = object->regions;
    is_attached = attach(object, region, room);
    ampi_win_combine_end(object);
    free(is_attached ? unused : room);
    if (!is_attached)
        return ampi_win_raise(object, MPI_ERR_RMA_ATTACH,
                              "the memory overlaps a region that is already attached");
    return MPI_SUCCESS;
}

AMPI_EXPORT(Win_detach);
int PMPI_Win_detach(MPI_Win win, const void *base)
{
    struct ampi_win *object;
    int error, at;

    ampi_enter("MPI_Win_detach");
    if ((error = check(win, &object)))
        return error;
    at = find(object, (uintptr_t)base) - 1;
    if (at < 0 || object->regions[at].from != (uintptr_t)base)
        return ampi_win_raise(object, MPI_ERR_RMA_ATTACH, "no memory was attached at %p", base);
    ampi_win_combine_begin(object);
    for (int i = at; i < object->n_regions - 1; i++)
        object->regions[i] = object->regions[i + 1];
    object->n_regions--;
    ampi_win_combine_end(object);
    return MPI_SUCCESS;
}
