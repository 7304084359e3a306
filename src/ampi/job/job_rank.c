/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job_rank.c: creates ranks that run on copies of the program: those of the start, each on its PE's thread, and spawned
 * ones (dynamic/spawn.h), of which the spawning rank prepares stack and copy; then their PEs queue them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ampi/comm/comm.h"
#include "ampi/dynamic/spawn.h"
#include "ampi/job/job.h"
#include "ampi/job/leaks.h"
#include "ampi/object/sanitizer.h"
#include "ampi/tool/trace.h"
#include "base/log.h"
#include "gpu_detect.h"
#include "image/image.h"
#include "ult/tls.h"

/* The arguments of every rank's main; copied for each rank, because programs modify their arguments. */
static struct {
    int argc;
    char **argv;
} program_args;

void ampi_rank_set_arguments(int argc, char **argv)
{
    program_args.argc = argc;
    program_args.argv = argv;
}

static char **copy_arguments(void)
{
    size_t n_pointers = (size_t)program_args.argc + 1, n_bytes = n_pointers * sizeof(char *);
    char **argv, *text;

    for (int i = 0; i < program_args.argc; i++)
        n_bytes += strlen(program_args.argv[i]) + 1;
    argv = base_malloc(n_bytes, "a rank's arguments");
    text = (char *)(argv + n_pointers);
    for (int i = 0; i < program_args.argc; i++) {
        size_t size_bytes = strlen(program_args.argv[i]) + 1;
        argv[i] = memcpy(text, program_args.argv[i], size_bytes);
        text += size_bytes;
    }
    argv[program_args.argc] = NULL;
    return argv;
}

/* First function of a rank: its copy's constructors and main, then its end. */
static void run_rank(void *arg)
{
    struct ampi_rank *rank = arg;
    struct image_arguments room; /* in a page of the stack that the rank uses anyway */
    int argc = 0, code;

    if (!rank->argv)
        rank->argv = copy_arguments();
    ampi_sanitizer_add_roots(&room, sizeof room);
    while (rank->argv[argc])
        argc++;
    ampi_rank_env_init(rank);
    ult_leave(&rank->ult);
    code = image_run(rank->image, argc, rank->argv, &room);
    image_finish(rank->image);
    if (image_is_forked_child())
        exit(code);
    ampi_rank_end(rank, code);
}

/* Creates the stack and the copy of the program of a rank. False, with errno: not possible. */
static bool prepare(struct ampi_rank *rank, char **stack_lo_out, char **stack_hi_out)
{
    int region = ampi_job_index_of(rank->world_rank);

    if (!ampi_memory_map_stack(region, stack_lo_out, stack_hi_out))
        return false;
    rank->image =
        image_create(ampi_memory_image_base(region), rank->program ? rank->program : &image_program);
    if (!rank->image)
        return false;
    rank->ult.thread_state = image_main_thread(rank->image);
    ampi_sanitizer_add_roots(ampi_memory_image_base(region), image_span_bytes());
    if (ult_tls_total_bytes() > 0) {
        rank->ult.tls_save = base_malloc(ult_tls_total_bytes(), "a rank's thread_local variables");
        image_tls_init(rank->image, rank->ult.tls_save);
    }
    return true;
}

void ampi_rank_create(struct ult_pe *pe, struct ampi_rank *rank)
{
    char *stack_lo, *stack_hi;

    if (!prepare(rank, &stack_lo, &stack_hi))
        base_fatal(1,
                   "cannot create a stack of %zu KiB and a copy of the program for rank %d of %d: %s; use "
                   "fewer ranks "
                   "(+vp) or smaller stacks (+stacksize), or raise vm.max_map_count or `ulimit -v`",
                   ampi_memory_stack_bytes() >> 10, rank->world_rank, ampi_job.n_ranks, strerror(errno));
    ult_create(&rank->ult, pe, stack_lo, stack_hi, run_rank, rank);
}

/* ---- Spawned ranks ---- */

static bool prepare_spawned(struct ampi_rank *rank)
{
    int argc = 1;

    while (rank->argv[argc])
        argc++;
    rank->arguments = ampi_info_env_join(argc, rank->argv);
    return prepare(rank, &rank->ult.stack_lo, &rank->ult.stack_hi);
}

static void start_spawned(struct ampi_rank *rank)
{
    ult_create(&rank->ult, ult_pe_get(rank->pe_id), rank->ult.stack_lo, rank->ult.stack_hi, run_rank, rank);
    if (image_program_starts_threads(rank->program ? rank->program : &image_program))
        ult_own_tls(&rank->ult);
}

static void release_spawned(struct ampi_rank *rank)
{
    if (rank->image)
        image_unmap(rank->image);
    if (rank->ult.stack_lo)
        ampi_memory_unmap_stack(ampi_job_index_of(rank->world_rank));
    free(rank->ult.tls_save);
    for (char **arg = rank->argv; arg && *arg; arg++)
        free(*arg);
    free(rank->argv);
    free(rank->arguments);
    free(rank->gpu_error);
}

/* False if something refers for ever to the memory of a rank that has ended. GPUs may refer to its code, and the timeline
 * to its calls. */
static bool may_release(const struct ampi_rank *rank)
{
    return rank->argv && !rank->bsend && (!rank->main_thread || rank->main_thread == &rank->ult) &&
           !rank->threads && !rank->events && ampi_leaks_can_leave(rank) && !ult_is_bound(&rank->ult) &&
           !gpu_is_used() && !ampi_trace.rings && image_can_be_unmapped(rank->image);
}

/* A rank is in use until it has completed its requests, and all members of its communicators have freed them; windows and
 * files have communicators. */
static enum ampi_spawn_release try_release_spawned(struct ampi_rank *rank)
{
    if (!may_release(rank))
        return AMPI_SPAWN_NEVER;
    if (rank->n_requests > 0 || ampi_comm_any_has(rank->world_rank))
        return AMPI_SPAWN_LATER;
    if (!ampi_misuse_can_leave(rank))
        return AMPI_SPAWN_NEVER;
    ampi_leaks_leave_rank(rank);
    ampi_misuse_leave_rank(rank);
    ult_tls_end_own(&rank->ult); /* first: destructors of its thread may be in the copy */
    release_spawned(rank);
    return AMPI_SPAWN_RELEASED;
}

const struct ampi_spawn_job ampi_rank_spawn_job = {.prepare = prepare_spawned,
                                                   .start = start_spawned,
                                                   .release = release_spawned,
                                                   .try_release = try_release_spawned};

void ampi_rank_leave(struct ampi_rank *rank)
{
    if (!ampi_job_is_spawned(rank->world_rank) || rank->spawned == ampi_job.spawned)
        return;
    if (rank->self)
        ampi_comm_release(rank->self);
    ampi_comm_release(rank->world);
    ampi_spawn_leave(rank);
}
