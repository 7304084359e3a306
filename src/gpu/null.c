/* SPDX-License-Identifier: BSD-3-Clause
 *
 * null.c: replaces src/gpu in a library that was built without CUDA's headers. There are no devices, and no
 * address is a device's (gpu_is_active stays false), so only these functions are ever called.
 */
#include <stdio.h>

#include "gpu/copy/gpu_pack.h"
#include "gpu/copy/pool.h"
#include "gpu/driver/driver_monitor.h"
#include "gpu/driver/driver_symbols.h"
#include "gpu/driver/query.h"
#include "gpu/copy/call_watch.h"
#include "gpu/gpu.h"
#include "gpu/nccl/nccl.h"
#include "gpu/rank/guard.h"
#include "gpu/streams/scheduler.h"
#include "gpu/work/stay.h"
#include "gpu/work/worker.h"

/* Of functions for addresses of devices. */
static int unreachable(void)
{
    BASE_ASSERT(!"device buffers without CUDA's headers");
    return -1;
}

void *gpu_symbol_found(const char *name, void *function)
{
    return function;
}

bool gpu_monitor_is_sound(void)
{
    return true;
}

enum gpu_owner gpu_monitor_owner(uintptr_t addr)
{
    return GPU_OWNER_HOST;
}

void gpu_query(uintptr_t addr, struct gpu_range *range_out)
{
    *range_out = (struct gpu_range){addr, addr + 1, 0, GPU_MEMORY_HOST, -1};
}

void gpu_print_devices(int n_pes, int n_ranks)
{
    printf("No GPUs: this library was built without CUDA's headers\n");
}

const char *gpu_error_text(int error)
{
    static __thread char text[64];

    snprintf(text, sizeof text, "CUDA error %d", error);
    return text;
}

gpu_copy_host_fn gpu_copy_host;
gpu_block_at_fn gpu_block_at;
long gpu_resident_us;

void gpu_resident_set(long us)
{
    (void)us;
}

const struct gpu_guarded *gpu_guarded_at(size_t i)
{
    return NULL;
}

struct ult *(*gpu_rank_of_thread)(void);
bool (*gpu_is_code_of_rank)(const void *address);
const char *(*gpu_variable_of_rank)(const struct ult *rank, const char *name);
void (*gpu_expect_thread)(void);
_Atomic int gpu_n_callbacks;
bool (*gpu_has_no_messages)(void);
bool gpu_needs_progress;

bool gpu_thread_begins(void)
{
    return false;
}

void (*gpu_move_watcher)(const struct gpu_move *move, bool is_done, int error);
void (*gpu_launch_watcher)(const void *function);
void (*gpu_call_watcher)(const char *name);
size_t gpu_hop_min_bytes = SIZE_MAX;

void *gpu_guard(const char *name, void *function)
{
    return function;
}

void *gpu_pinned_get(size_t n_bytes, size_t *size_out, int *error_out)
{
    *error_out = unreachable();
    return NULL;
}

void *gpu_staging_get(size_t n_bytes)
{
    return NULL;
}

void *gpu_scratch_get(int device, size_t n_bytes, int *error_out)
{
    *error_out = unreachable();
    return NULL;
}

const char *gpu_nccl_library;

const size_t gpu_slot_bytes = 0;

struct gpu_slot *gpu_slot_take(struct gpu_sync *sync, const void *data, size_t n_bytes)
{
    return NULL;
}

void *gpu_slot_data(const struct gpu_slot *slot)
{
    return NULL;
}

struct gpu_nccl *gpu_nccl_create(int device, bool makes_id)
{
    unreachable();
    return NULL;
}

const char *gpu_nccl_compare(const struct gpu_nccl_card *cards, int n)
{
    unreachable();
    return "this library was built without CUDA's headers";
}

void gpu_nccl_describe(char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "none");
}

struct gpu_queue *gpu_nccl_queue(const struct gpu_nccl *nccl, int *error_out)
{
    *error_out = unreachable();
    return NULL;
}

/* clang-format off */
#define NONE(type, name, parameters) type name parameters { return 0; }
#define NOTHING(name, parameters) void name parameters {}
#define REFUSED(name, parameters) int name parameters { return unreachable(); }
#define REFUSED_BOOL(name, parameters) bool name parameters { unreachable(); return false; }
#define VAIN(name, parameters) void name parameters { unreachable(); }
NONE(bool, gpu_monitor_watch, (void))
NONE(bool, gpu_guard_notices_frees, (void))
NONE(bool, gpu_driver_open, (const char *path))
NONE(uint64_t, gpu_query_buffer, (uintptr_t addr))
NONE(int, gpu_relax_begin, (void))
NONE(bool, gpu_is_built, (void))
NONE(bool, gpu_is_possible, (void))
NONE(int, gpu_device_count, (void))
NONE(bool, gpu_resident_is_there, (int device))
NONE(uint64_t, gpu_resident_times_sent_away, (void))
NONE(size_t, gpu_guarded_count, (void))
NONE(bool, gpu_can_hop, (const void *to, const void *from, size_t n_bytes))
NONE(bool, gpu_can_combine, (int op, int type))
NONE(bool, gpu_copies_can, (int device, const struct gpu_copy *copy, const struct gpu_facts *dst_facts, const struct gpu_facts *src_facts, struct gpu_known *known))
NONE(bool, gpu_swap_can, (const struct gpu_swap *swap))
NONE(bool, gpu_nccl_is_possible, (void))
NONE(bool, gpu_sync_is_full, (const struct gpu_sync *sync))
NONE(bool, gpu_inbox_take, (struct gpu_sync *sync, struct gpu_inbox *inbox, void *to, size_t n_bytes))
NONE(bool, gpu_inbox_can, (const struct gpu_inbox *inbox, const struct gpu_slot *slot))
NONE(uint64_t, gpu_slot_count, (void))
NONE(bool, gpu_watch_can_use, (int device, const void *addr, size_t n_bytes))
NONE(bool, gpu_nccl_can, (int op, int type))
NONE(bool, gpu_nccl_can_use, (int device, const void *address))
NONE(bool, gpu_nccl_may_be_loss, (int error))
NOTHING(gpu_monitor_begin, (void))
NOTHING(gpu_streams_choose, (bool are_private, bool is_suspending, bool are_graphs))
NOTHING(gpu_streams_begin, (int n_ranks))
NOTHING(gpu_layout_forget, (struct base_layout *layout))
NOTHING(gpu_pinned_put, (void *block))
NOTHING(gpu_staging_put, (void *block, size_t n_bytes))
NOTHING(gpu_scratch_put, (int device, void *block, size_t n_bytes))
NOTHING(gpu_sync_destroy, (struct gpu_sync *sync))
NOTHING(gpu_sync_release, (struct gpu_sync *sync, struct gpu_hold *hold))
NOTHING(gpu_sync_catch_up, (void))
NOTHING(gpu_sync_make_room, (struct gpu_sync *sync))
NOTHING(gpu_slot_put, (struct gpu_slot *slot))
NOTHING(gpu_inbox_put, (struct gpu_inbox *inbox))
NOTHING(gpu_inbox_tell, (struct gpu_inbox *inbox, const struct gpu_slot *slot, size_t n_bytes))
NOTHING(gpu_inbox_release, (struct gpu_inbox *inbox))
NOTHING(gpu_point_rest, (struct gpu_point *point))
NOTHING(gpu_point_expect, (struct gpu_point *point))
NOTHING(gpu_sync_watch, (const struct gpu_sync *sync, struct gpu_watch *watch))
NOTHING(gpu_slot_count_one, (void))
NOTHING(gpu_graph_release, (struct gpu_graph_end *end))
NOTHING(gpu_graph_forget, (struct gpu_graph_end *end))
NOTHING(gpu_watch_destroy, (struct gpu_watch *watch))
NOTHING(gpu_watch_begin, (struct gpu_watch *watch))
NOTHING(gpu_relax_end, (int mode))
NOTHING(gpu_scheduler_destroy, (struct gpu_scheduler *scheduler))
NOTHING(gpu_scheduler_stop, (struct gpu_scheduler *scheduler))
NOTHING(gpu_nccl_get_card, (const struct gpu_nccl *nccl, struct gpu_nccl_card *card_out))
NOTHING(gpu_nccl_connect, (struct gpu_nccl *nccl, const char *id, int n, int own))
NOTHING(gpu_nccl_cancel, (struct gpu_nccl *nccl))
NOTHING(gpu_nccl_abort, (struct gpu_nccl *nccl))
NOTHING(gpu_nccl_destroy, (struct gpu_nccl *nccl))
NOTHING(gpu_nccl_settle, (double limit_s))
NOTHING(gpu_guard_rank_ends, (void))
NOTHING(gpu_nccl_leave, (int exit_code, double limit_s))
REFUSED(gpu_memory_alloc, (enum gpu_memory kind, size_t n_bytes, void **memory_out))
REFUSED(gpu_memory_free, (enum gpu_memory kind, void *memory))
REFUSED(gpu_work_of_stream, (struct gpu_work *work, void *stream))
REFUSED(gpu_work_of_event, (struct gpu_work *work, void *event))
REFUSED(gpu_move_wait, (const struct gpu_data *dst, const struct gpu_data *src, size_t n_bytes))
REFUSED(gpu_move_now, (const struct gpu_data *dst, const struct gpu_data *src, size_t n_bytes))
REFUSED(gpu_copies_start, (struct gpu_copies *copies))
REFUSED(gpu_copies_now, (int device, const struct gpu_copy *copies, int n))
REFUSED(gpu_combine_start, (struct gpu_combine *combine))
REFUSED(gpu_combine_now, (const struct gpu_combine *combine))
REFUSED(gpu_swap_now, (const struct gpu_swap *swap))
REFUSED(gpu_sync_create, (void *stream, struct gpu_sync **sync_out))
REFUSED(gpu_sync_add, (struct gpu_sync *sync, struct gpu_point *point, struct gpu_hold *hold))
REFUSED_BOOL(gpu_sync_is_captured, (struct gpu_sync *sync, uint64_t *id_out))
REFUSED(gpu_slot_fill, (struct gpu_slot *slot, const void *data, struct gpu_point *point))
REFUSED(gpu_inbox_empty, (struct gpu_sync *sync, struct gpu_inbox *const *inboxes, int n, struct gpu_point *arrived, struct gpu_point *done))
REFUSED(gpu_graph_prepare, (struct gpu_sync *sync, struct gpu_graph_end *end, void *data, size_t n_bytes))
REFUSED_BOOL(gpu_graph_agree, (struct gpu_graph_end *send, struct gpu_graph_end *recv, struct gpu_graph_end *second, size_t n_bytes))
REFUSED(gpu_graph_add, (struct gpu_sync *sync, struct gpu_graph_end *const *starts, int n_starts, struct gpu_graph_end *const *waits, int n_waits))
REFUSED(gpu_watch_create, (struct gpu_watch *watch))
REFUSED(gpu_scheduler_blocks, (int *n_multiprocessors_out, int *device_out))
REFUSED(gpu_scheduler_create, (struct gpu_scheduler *scheduler, size_t memory_bytes))
REFUSED(gpu_scheduler_start, (struct gpu_scheduler *scheduler))
REFUSED(gpu_scheduler_post, (struct gpu_scheduler *scheduler, struct HEDDLE_Handlers_post *post))
REFUSED(gpu_scheduler_drain, (struct gpu_scheduler *scheduler))
REFUSED(gpu_scheduler_rest, (struct gpu_scheduler *scheduler))
REFUSED(gpu_nccl_state, (struct gpu_nccl *nccl))
REFUSED(gpu_nccl_start, (struct gpu_nccl *nccl, struct gpu_queue *queue, const struct gpu_nccl_call *call))
REFUSED(gpu_nccl_ask, (struct gpu_nccl *nccl))
VAIN(gpu_move_start, (struct gpu_move *move))
VAIN(gpu_queue_then, (struct gpu_queue *queue, struct gpu_ticket *ticket))
NOTHING(gpu_worker_load, (struct gpu_worker *worker, void *kernel))
NOTHING(gpu_worker_leave, (struct gpu_worker *worker))
NOTHING(gpu_worker_trim, (struct gpu_worker *worker))
NOTHING(gpu_worker_give, (struct gpu_worker *worker, uint64_t address, size_t n_bytes))
NONE(void *, gpu_worker_stage, (struct gpu_worker *worker, size_t n_bytes))
NONE(unsigned, gpu_worker_threads, (const struct gpu_worker *worker))
NONE(size_t, gpu_worker_capacity, (const struct gpu_worker *worker))
NONE(uint64_t, gpu_worker_next, (const struct gpu_worker *worker, int stream))
NONE(unsigned, gpu_worker_load_of, (const struct gpu_worker *worker, int stream))
REFUSED(gpu_worker_device, (void))
REFUSED(gpu_worker_create, (int device, size_t budget_bytes, struct gpu_worker **worker_out))
REFUSED(gpu_worker_begin, (struct gpu_worker *worker))
REFUSED(gpu_worker_wait, (struct gpu_worker *worker, int stream, const struct gpu_worker_steps *after))
REFUSED(gpu_worker_copy,
        (struct gpu_worker *worker, int stream, uint64_t to, uint64_t from, size_t n_bytes))
REFUSED(gpu_worker_copy_pageable, (struct gpu_worker *worker, uint64_t to, const void *from, size_t n_bytes))
REFUSED(gpu_worker_launch, (struct gpu_worker *worker, int stream, void *kernel, unsigned n_threads, const struct HEDDLE_Work_launch *launch))
REFUSED(gpu_worker_end, (struct gpu_worker *worker, int stream, uint64_t *step_out))
REFUSED(gpu_worker_poll, (struct gpu_worker *worker))
REFUSED(gpu_stay_create, (int device, uint64_t last_ns, struct gpu_stay **stay_out))
REFUSED(gpu_stay_launch, (struct gpu_stay *stay, void *kernel, unsigned n_threads))
REFUSED(gpu_stay_ask, (const struct gpu_stay *stay))
NOTHING(gpu_stay_order, (struct gpu_stay *stay, int place, unsigned block, unsigned n_blocks, const void *args, size_t args_bytes, const uint64_t *addresses, int n_addresses))
REFUSED_BOOL(gpu_stay_is_launched, (struct gpu_stay *stay))
REFUSED_BOOL(gpu_stay_is_held, (const struct gpu_stay *stay))
REFUSED_BOOL(gpu_stay_is_here, (const struct gpu_stay *stay, int place))
REFUSED_BOOL(gpu_stay_is_done, (const struct gpu_stay *stay, int place))
REFUSED_BOOL(gpu_stay_has_missed, (const struct gpu_stay *stay, int place))
REFUSED_BOOL(gpu_worker_take, (struct gpu_worker *worker, size_t n_bytes, uint64_t *address_out))
REFUSED_BOOL(gpu_worker_has_room, (const struct gpu_worker *worker, int stream))
REFUSED_BOOL(gpu_worker_is_done, (const struct gpu_worker *worker, int stream, uint64_t step))
REFUSED_BOOL(gpu_worker_is_idle, (const struct gpu_worker *worker, int stream))
REFUSED_BOOL(gpu_worker_are_done, (const struct gpu_worker *worker, const struct gpu_worker_steps *steps))
