/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll.h: shared declarations of the collectives: a call's form, its arguments and their checks, and
 * reading members' buffers block by block.
 *
 * The life of a call, for example MPI_Igatherv:
 *      PMPI_Igatherv          puts the user's arguments into a struct ampi_coll_args and names the function
 *      gather (gather.c)      checks the arguments; the same for all forms
 *      ampi_coll_begin        starts the operation in the form of the call (forms.c, slot.c)
 *      gather_middle, ...     the plan's stages, once all members have arrived
 */
#ifndef AMPI_COLL_COLL_H
#define AMPI_COLL_COLL_H

#include "ampi/coll/engine/slot.h"
#include "ampi/datatype/work_hook.h"

/* n_blocks of a v or w form, until the arguments are checked. */
#define AMPI_COLL_ARRAYS (-1)

enum ampi_coll_form {
    AMPI_COLL_BLOCKING,
    AMPI_COLL_NONBLOCKING,
    AMPI_COLL_PERSISTENT,
    AMPI_COLL_LATER, /* nonblocking, and started later: enqueue_coll.c */
    AMPI_COLL_WRONG_INFO
};

/* The function that was called. */
struct ampi_coll_call {
    const char *name; /* "MPI_Igatherv" */
    enum ampi_coll_form form;
    MPI_Request *request; /* NULL for blocking calls */
};

/* The form of MPI_Xxx_init: AMPI_COLL_PERSISTENT, or AMPI_COLL_WRONG_INFO, which ampi_coll_enter raises. */
enum ampi_coll_form ampi_coll_init_form(MPI_Info info);

/* ---- Starting, with arguments that have been checked (forms.c) ---- */

/* MPI_Xxx: ampi_coll_run of slot.h, and raises the result. May switch. */
int ampi_coll_blocking(struct ampi_coll_args *args);

/* MPI_Ixxx: copies the arguments into a new request and starts it. */
int ampi_coll_nonblocking(const struct ampi_coll_args *args, MPI_Request *request);

/* MPI_Xxx_init: copies the arguments into a new INACTIVE request. */
int ampi_coll_persistent(const struct ampi_coll_args *args, MPI_Request *request);

/* MPIX_Xxx_enqueue: copies the arguments into a new ACTIVE request, which ampi_coll_start_later starts: on the
 * PE, from its progress or on any rank's stack. Never switches. */
int ampi_coll_later(const struct ampi_coll_args *args, MPI_Request *request);
void ampi_coll_start_later(struct ampi_request *request);

/* MPIX_Start_enqueue: creates a start of a persistent collective as an ACTIVE request of its own, which
 * ampi_coll_start_later starts; when it is complete, it may be started again. The starts of one collective
 * are ordered: each begins when the previous one is complete. comm: the communicator that counts the request
 * as pending, or NULL. */
struct ampi_request *ampi_coll_create_start(const struct ampi_request *persistent, struct ampi_comm *comm);

/* The forms with a request. */
static inline int ampi_coll_begin_request(const struct ampi_coll_call *call, struct ampi_coll_args *args)
{
    if (call->form == AMPI_COLL_NONBLOCKING)
        return ampi_coll_nonblocking(args, call->request);
    return call->form == AMPI_COLL_LATER ? ampi_coll_later(args, call->request)
                                         : ampi_coll_persistent(args, call->request);
}

/* Makes the buffers of the arguments current that work requests have used (datatype/work_hook.h). May switch. */
void ampi_coll_settle(const struct ampi_coll_args *args) BASE_COLD;

/* Starts the operation in the form of the call. Blocking calls may switch. Raises the operation's errors. */
static inline int ampi_coll_begin(const struct ampi_coll_call *call, struct ampi_coll_args *args)
{
    args->has_buffers = true;
    if (BASE_UNLIKELY(ampi_work_is_used))
        ampi_coll_settle(args);
    if (BASE_LIKELY(call->form == AMPI_COLL_BLOCKING))
        return ampi_coll_blocking(args);
    return ampi_coll_begin_request(call, args);
}

/* The communicator's barrier inside another function than MPI_Barrier. Each has a plan of its own: a rank that has missed a
 * call gets an error, instead of meeting the others in another function. May switch. */
enum ampi_coll_within {
    AMPI_COLL_WITHIN_DISCONNECT,
    AMPI_COLL_WITHIN_FENCE,
    AMPI_COLL_WITHIN_FILE_OPEN,
    AMPI_COLL_WITHIN_FINALIZE, /* before ampi_coll_finalize */
    AMPI_COLL_WITHIN_WIN_CREATE,
    AMPI_COLL_WITHIN_WIN_FREE
};
int ampi_coll_barrier(struct ampi_comm *comm, enum ampi_coll_within function);

/* The same for MPI_Finalize, with the members whose process has not failed. May switch. */
void ampi_coll_finalize(struct ampi_comm *world);

/* ---- Arguments as passed by the user ---- */

/* Initialises all fields but the buffers, which the caller sets: a struct of this size is slow to clear as
 * a whole. */
static inline void ampi_coll_args_init(struct ampi_coll_args *args, const struct ampi_coll_plan *plan)
{
    args->plan = plan;
    args->must_agree = (uintptr_t)plan;
    args->pack_bytes = 0;
    args->has_buffers = false;
    args->is_remote = false;
    args->is_short = false;
    args->is_moved = false;
    args->is_paired = false;
    args->error = MPI_SUCCESS;
    args->op = NULL;
}

/* Fills a buffer in place: a struct of this size is slow to copy right after its fields were written. */
static inline void ampi_coll_set_one(struct ampi_coll_buf *side, const void *buf, MPI_Count count,
                                     MPI_Datatype type)
{
    side->buf = (void *)(uintptr_t)buf;
    side->count = count;
    side->handle = type;
    side->type = NULL;
    side->counts = side->displs = NULL;
    side->types = NULL;
    side->memory = NULL;
    side->n_blocks = 0;
    side->is_w = side->has_large_counts = side->has_large_displs = false;
}

/* Marks a buffer that the operation does not have. */
static inline void ampi_coll_set_none(struct ampi_coll_buf *side)
{
    ampi_coll_set_one(side, NULL, 0, MPI_DATATYPE_NULL);
}

static inline void ampi_coll_set_v(struct ampi_coll_buf *side, const void *buf, const int *counts,
                                   const int *displs, MPI_Datatype type)
{
    ampi_coll_set_one(side, buf, 0, type);
    side->counts = counts;
    side->displs = displs;
    side->n_blocks = AMPI_COLL_ARRAYS;
}

static inline void ampi_coll_set_v_c(struct ampi_coll_buf *side, const void *buf, const MPI_Count *counts,
                                     const MPI_Aint *displs, MPI_Datatype type)
{
    ampi_coll_set_one(side, buf, 0, type);
    side->counts = counts;
    side->displs = displs;
    side->n_blocks = AMPI_COLL_ARRAYS;
    side->has_large_counts = side->has_large_displs = true;
}

/* The w forms; displs are int or, if has_large_displs, MPI_Aint. */
static inline void ampi_coll_set_w(struct ampi_coll_buf *side, const void *buf, const void *counts,
                                   bool has_large_counts, const void *displs, bool has_large_displs,
                                   const MPI_Datatype *types)
{
    ampi_coll_set_one(side, buf, 0, MPI_DATATYPE_NULL);
    side->counts = counts;
    side->displs = displs;
    side->types = types;
    side->n_blocks = AMPI_COLL_ARRAYS;
    side->is_w = true;
    side->has_large_counts = has_large_counts;
    side->has_large_displs = has_large_displs;
}

/* ---- The memory of persistent collectives' buffers (known.c) ---- */

/* Updates the facts about the buffers' memory if it may have changed since the last start. Called before a start, on
 * the member's PE. Never switches. */
void ampi_coll_memory_update(struct ampi_coll_args *args);

void ampi_coll_memory_free(struct ampi_coll_args *args);

/* ---- Checks (coll_check.c): raise the right class, or return MPI_SUCCESS ---- */

/* Enters the call and finds the communicator. */
int ampi_coll_enter(const struct ampi_coll_call *call, MPI_Comm comm,
                    struct ampi_coll_args *args) BASE_MUST_CHECK;

/* Checks a buffer that is significant at this member; what: "send" or "receive". n_blocks: the number of
 * blocks in the v and w forms. Sets its type. MPI_IN_PLACE must have been handled. */
int ampi_coll_check_any_buf(const struct ampi_coll_args *args, struct ampi_coll_buf *buf, const char *what,
                            int n_blocks) BASE_MUST_CHECK;

/* True if the data of n_blocks blocks exceeds 64 bits. */
static inline bool ampi_coll_is_too_much(const struct ampi_type *type, MPI_Count count, int n_blocks)
{
    MPI_Count n_bytes;

    return __builtin_mul_overflow(count, type->size_bytes, &n_bytes) ||
           __builtin_mul_overflow(n_bytes, n_blocks, &n_bytes);
}

/* The same; the usual buffer, one block with an address, is checked inline. */
static inline BASE_MUST_CHECK int ampi_coll_check_buf(const struct ampi_coll_args *args,
                                                      struct ampi_coll_buf *buf, const char *what,
                                                      int n_blocks)
{
    if (BASE_LIKELY(buf->n_blocks == 0 && buf->count >= 0 && (uintptr_t)buf->buf > (uintptr_t)MPI_IN_PLACE)) {
        buf->type = ampi_type_of(buf->handle);
        if (BASE_LIKELY(buf->type && buf->type->is_committed &&
                        !ampi_coll_is_too_much(buf->type, buf->count, n_blocks)))
            return MPI_SUCCESS;
    }
    return ampi_coll_check_any_buf(args, buf, what, n_blocks);
}

/* True if the buffer is MPI_IN_PLACE. The caller decides whether that is allowed. */
static inline bool ampi_coll_is_in_place(const struct ampi_coll_buf *buf)
{
    return buf->buf == MPI_IN_PLACE;
}

/* Checks the root of a rooted operation, including the values for intercommunicators. Sets args->root. */
int ampi_coll_check_root(struct ampi_coll_args *args, int root) BASE_MUST_CHECK;

/* Checks the operation, once the type of a reduction is known. Sets args->op. */
int ampi_coll_check_op(struct ampi_coll_args *args, MPI_Op op, const struct ampi_type *type) BASE_MUST_CHECK;

/* Raises an error of a call that then does not take part in the collective. If other ranks' calls take part, the
 * ranks' operations no longer match; that report mentions this error. */
int ampi_coll_raise(struct ampi_comm *comm, int error_class, const char *fmt, ...)
    BASE_PRINTF(3, 4) BASE_COLD;

/* Ends the job because members' operations do not match, which has been reported. */
void ampi_coll_end_job(const struct ampi_coll_state *state) BASE_NORETURN BASE_COLD;

/* Reports members with different operations. There is no recovery: each would wait for ever for the other's.
 * other_args: of a member with the other one, which is in its call; NULL: unknown. */
void ampi_coll_report_mismatch(const struct ampi_coll_args *args, const struct ampi_coll_plan *other,
                               const struct ampi_coll_args *other_args) BASE_NORETURN BASE_COLD;

/* Raises the error for MPI_IN_PLACE on an intercommunicator, or for a send block that is the receive
 * block. */
int ampi_coll_raise_in_place(const struct ampi_coll_args *args) BASE_COLD;
int ampi_coll_raise_same(const struct ampi_coll_args *args) BASE_COLD;

/* ---- Members ---- */

/* A member's position in the slot, and that of the first member of its own side and of the side it
 * exchanges data with. */
static inline int ampi_coll_side_first(const struct ampi_comm *comm, const struct ampi_comm_side *side)
{
    return side == &comm->shared->side[1] ? comm->shared->side[0].n_ranks : 0;
}

static inline int ampi_coll_member(const struct ampi_comm *comm)
{
    return comm->rank + ampi_coll_side_first(comm, comm->local);
}

static inline int ampi_coll_peer_first(const struct ampi_comm *comm)
{
    return ampi_coll_side_first(comm, comm->peer);
}

/* The handle of a member. */
static inline struct ampi_comm *ampi_coll_handle(const struct ampi_comm_shared *shared, int member)
{
    int n_first = shared->side[0].n_ranks;

    return member < n_first ? &shared->side[0].handles[member] : &shared->side[1].handles[member - n_first];
}

/* True if this member is the root. On intercommunicators that is the one with MPI_ROOT. */
static inline bool ampi_coll_is_root(const struct ampi_coll_args *args)
{
    return args->comm->shared->is_inter ? args->root == MPI_ROOT : args->root == args->comm->rank;
}

/* True if this member exchanges data with the root: on intercommunicators members of the other group, else
 * all members. */
static inline bool ampi_coll_has_root(const struct ampi_coll_args *args)
{
    return args->root >= 0;
}

/* The arguments of the root of the operation in a slot; NULL: no member is the root. */
struct ampi_coll_args *ampi_coll_root_args(const struct ampi_coll_slot *slot);

/* ---- Blocks of members' buffers ---- */

static inline MPI_Count ampi_coll_count(const struct ampi_coll_buf *buf, int i)
{
    if (!buf->counts)
        return buf->count;
    return buf->has_large_counts ? ((const MPI_Count *)buf->counts)[i] : ((const int *)buf->counts)[i];
}

static inline MPI_Aint ampi_coll_displ(const struct ampi_coll_buf *buf, int i)
{
    return buf->has_large_displs ? ((const MPI_Aint *)buf->displs)[i] : ((const int *)buf->displs)[i];
}

/* A buffer that consists of one block. */
static inline struct ampi_coll_block ampi_coll_whole(const struct ampi_coll_buf *buf)
{
    return (struct ampi_coll_block){buf->buf, buf->count, buf->type, buf->memory ? buf->memory->known : NULL};
}

/* Block i of a buffer with one block per peer. */
static inline struct ampi_coll_block ampi_coll_block(const struct ampi_coll_buf *buf, int i)
{
    struct ampi_coll_block block = {.count = ampi_coll_count(buf, i), .type = buf->type};
    MPI_Count disp_bytes;

    if (buf->is_w) {
        block.type = block.count ? ampi_type_of(buf->types[i]) : NULL;
        disp_bytes = ampi_coll_displ(buf, i);
    } else if (buf->displs) {
        disp_bytes = ampi_coll_displ(buf, i) * buf->type->extent_bytes;
    } else {
        disp_bytes = i * buf->count * buf->type->extent_bytes;
    }
    block.buf = ampi_type_address(buf->buf, disp_bytes);
    if (BASE_UNLIKELY(buf->memory != NULL))
        block.known = &buf->memory->known[buf->n_blocks ? i : 1];
    return block;
}

/* The number of blocks of a v or w form, from block s on, that have as many elements of the same type as s, and whose
 * displacements are those of one array; at least 1. n: the number of all blocks. (coll_move.c) */
int ampi_coll_find_run(const struct ampi_coll_buf *buf, int s, int n);

/* A member's contribution to MPI_Allgather. */
static inline struct ampi_coll_block ampi_coll_contribution(const struct ampi_coll_args *args)
{
    if (ampi_coll_is_in_place(&args->send))
        return ampi_coll_block(&args->recv, args->comm->rank);
    return ampi_coll_whole(&args->send);
}

static inline size_t ampi_coll_block_bytes(const struct ampi_coll_block *block)
{
    return block->count ? (size_t)(block->count * block->type->size_bytes) : 0;
}

/* True if these two are the same data of a basic type. Then MPI_IN_PLACE should have been used. */
static inline bool ampi_coll_is_same(struct ampi_coll_block a, struct ampi_coll_block b)
{
    return a.buf && a.buf == b.buf && a.count > 0 && b.count > 0 && a.type->is_predefined &&
           b.type->is_predefined;
}

/* Checks that the receive buffer has room for the block that a member has for itself. This is an error of
 * this member only, which takes part like the others. */
static inline void ampi_coll_check_own(struct ampi_coll_args *args, struct ampi_coll_block send,
                                       struct ampi_coll_block recv)
{
    if (BASE_UNLIKELY(ampi_coll_block_bytes(&send) > ampi_coll_block_bytes(&recv))) {
        args->is_short = true;
        args->error = MPI_ERR_TRUNCATE;
    }
}

/* Bytes of data in all n blocks of a buffer. */
size_t ampi_coll_total_bytes(const struct ampi_coll_buf *buf, int n_blocks);

/* The members of a part; for (int i = from; i < to; i++) slot->state->part_members[i]. */
static inline int ampi_coll_part_from(const struct ampi_coll_slot *slot, int part)
{
    return slot->state->part_first[part];
}

static inline int ampi_coll_part_to(const struct ampi_coll_slot *slot, int part)
{
    return slot->state->part_first[part + 1];
}

/* The number of members in this process. */
static inline int ampi_coll_n_local(const struct ampi_coll_state *state)
{
    return state->part_first[state->n_parts];
}

/* The arguments of the member at index i of the parts' table. */
static inline struct ampi_coll_args *ampi_coll_part_args(const struct ampi_coll_slot *slot, int i)
{
    return slot->args[slot->state->part_members[i]];
}

/* ---- Small contributions, which are copied into the slot at arrival ---- */

/* Marks a contribution for packing if it is small enough for this kind of operation, and one block of
 * memory without padding at its end: then each one stays aligned when they are adjacent. */
static inline void ampi_coll_pack(struct ampi_coll_args *args, enum ampi_coll_kind kind, const void *buf,
                                  MPI_Count count, const struct ampi_type *type)
{
    if ((size_t)count > AMPI_COLL_PACK_BYTES || !type->is_dense || type->extent_bytes != type->size_bytes ||
        (size_t)(count * type->size_bytes) >
            base_min_u64(ampi_coll_selections[kind].pack_to, AMPI_COLL_PACK_BYTES))
        return;
    if (ampi_coll_device_has_data(buf, count, type) || ampi_coll_device_has(args))
        return;
    args->pack_bytes = (uint32_t)(count * type->size_bytes);
    args->pack_from = ampi_type_address(buf, type->true_lb_bytes);
}

/* Middle stage: true if all members' contributions are packed in the slot, all of the size of slot->last's;
 * sets slot->result.n_bytes to that size. If it is false, the stage reads the members' buffers. */
static inline bool ampi_coll_all_packed(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_state *state = slot->state;
    uint32_t pack_bytes = slot->last->pack_bytes;
    int n_packed = 0;

    for (int part = 0; part < state->n_parts; part++) {
        if (slot->parts[part].pack_bytes != pack_bytes)
            return false;
        n_packed += slot->parts[part].n_packed;
    }
    slot->result.n_bytes = pack_bytes;
    return pack_bytes > 0 && n_packed == state->n_members;
}

/* The packed contribution of a member. */
static inline unsigned char *ampi_coll_packed(const struct ampi_coll_slot *slot, int member)
{
    return slot->packed + (size_t)member * slot->result.n_bytes;
}

/* Bytes in the slot, as a block. */
static inline struct ampi_coll_block ampi_coll_bytes(const void *bytes, size_t n_bytes)
{
    return (struct ampi_coll_block){(void *)(uintptr_t)bytes, (MPI_Count)n_bytes,
                                    ampi_type_predefined[(uintptr_t)MPI_BYTE - AMPI_TYPE_FIRST], NULL};
}

/* Copies a few bytes; usually 8. */
static inline void ampi_coll_copy_small(void *to, const void *from, size_t n_bytes)
{
    if (n_bytes == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, n_bytes);
}

/* Middle stage: only the root gets the result. */
static inline void ampi_coll_set_root(struct ampi_coll_slot *slot, const struct ampi_coll_args *root)
{
    slot->result.root = ampi_coll_member(root->comm);
    slot->result_part = slot->state->part_of_pe[root->comm->owner->pe_id];
}

/* Deliver: the result that this part delivers to its members. */
static inline const struct ampi_coll_result *ampi_coll_result(const struct ampi_coll_slot *slot, int part)
{
    return &slot->parts[part].result;
}

/* Runs the share stage. All PEs take part if the table demands it for this many bytes, or if they start work on GPUs,
 * which takes longer than notifying a PE. Otherwise this PE does the work of all before it returns. */
static inline void ampi_coll_share_or_do(struct ampi_coll_slot *slot, enum ampi_coll_kind kind,
                                         size_t total_bytes)
{
    if (slot->state->n_parts > 1 && (ampi_coll_is_shared(kind, total_bytes) || ampi_coll_device_any(slot))) {
        slot->needs_share = true;
        return;
    }
    for (int part = 0; part < slot->state->n_parts; part++)
        slot->plan->share(slot, part);
}

/* True if a block's data is at its destination already: both have the same address. */
static inline bool ampi_coll_is_there(struct ampi_coll_block dst, struct ampi_coll_block src)
{
    return dst.type == src.type ||
           (ampi_type_is_block(dst.type, dst.count) && ampi_type_is_block(src.type, src.count) &&
            dst.type->true_lb_bytes == src.type->true_lb_bytes);
}

/* A member receives a block that is longer (is_longer) or shorter than its arguments say: an error of the member. The
 * v and w forms accept shorter blocks, as other MPI libraries do. */
void ampi_coll_refuse_length(struct ampi_coll_args *to, bool is_longer) BASE_COLD;

/* Copies a block to another; sizes that differ are an error of the member `to`. A block is never copied onto
 * itself. */
static inline void ampi_coll_move(struct ampi_coll_args *to, struct ampi_coll_block dst,
                                  struct ampi_coll_block src)
{
    size_t src_bytes = ampi_coll_block_bytes(&src);
    size_t dst_bytes = ampi_coll_block_bytes(&dst);

    if (BASE_UNLIKELY(src_bytes != dst_bytes))
        ampi_coll_refuse_length(to, src_bytes > dst_bytes);
    if (src_bytes == 0 || dst_bytes == 0 || (dst.buf == src.buf && ampi_coll_is_there(dst, src)))
        return;
    if (ampi_coll_device_move(to, dst, src))
        return;
    ampi_type_copy(dst.buf, dst.count, dst.type, src.buf, src.count, src.type);
}

/* The address of a block's data if that is consecutive host memory; NULL: it is not, or there is no data. */
static inline char *ampi_coll_flat(const struct ampi_coll_block *block)
{
    if (block->count == 0 || !ampi_type_is_block(block->type, block->count) ||
        ampi_coll_device_has_block(block))
        return NULL;
    return ampi_type_address(block->buf, block->type->true_lb_bytes);
}

/* The block of a member that receives a source's block; its type is NULL if there is none. */
typedef struct ampi_coll_block (*ampi_coll_target_fn)(const struct ampi_coll_args *args, int source);

/* Copies one block to all members of a part; large blocks are copied in pieces, each to all members while
 * it is in the cache. is_stream: past the caches (see ampi_coll_is_stream). */
void ampi_coll_broadcast_block(const struct ampi_coll_slot *slot, int part, struct ampi_coll_block src,
                               int source, ampi_coll_target_fn target, bool is_stream);

/* Copies a block; past the caches if is_stream. */
void ampi_coll_copy_block(struct ampi_coll_args *to, struct ampi_coll_block dst, struct ampi_coll_block src,
                          bool is_stream);

/* Exchanges the data of two blocks, in pieces; the smaller one determines the size. */
void ampi_coll_swap(struct ampi_coll_args *a, struct ampi_coll_block block_a, struct ampi_coll_args *b,
                    struct ampi_coll_block block_b);

#endif
