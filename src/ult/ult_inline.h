/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ult_inline.h: the parts of ult.h that are worth inlining. Included by ult.h only.
 */
#ifndef ULT_ULT_INLINE_H
#define ULT_ULT_INLINE_H

/* The ULT that this OS thread runs. A ULT can continue on another OS thread of its PE after a switch
 * (sharing.h): the variable's address must not be kept across one. */
extern __thread struct ult *ult_current __attribute__((tls_model("initial-exec")));

/* The ULT that runs on this OS thread has been switched to since a function with ULT_JUMPS_BACK last returned. */
extern __thread bool ult_has_switched __attribute__((tls_model("initial-exec")));

static inline struct ult *ult_self(void)
{
    return ult_current;
}

/* How every struct ult_pe begins. */
struct ult_pe_slots {
    void *of[ULT_PE_SLOT_COUNT];
};

static inline void **ult_pe_slot(enum ult_pe_slot slot)
{
    return &((struct ult_pe_slots *)ult_current->pe)->of[slot];
}

static inline bool ult_is_blocked(const struct ult *u)
{
    return u->state == ULT_BLOCKED || u->state == ULT_PARKED;
}

static inline bool ult_is_bound(const struct ult *u)
{
    return u->detours & ULT_BOUND;
}

static inline void ult_enter(struct ult *u)
{
    if (u->depth++ == 0 && BASE_UNLIKELY(atomic_load_explicit(&ult_n_shared, memory_order_relaxed)))
        ult_enter_shared(u);
}

static inline bool ult_has_pe(const struct ult *u)
{
    return BASE_LIKELY(!atomic_load_explicit(&ult_n_shared, memory_order_relaxed)) || u->depth > 0 ||
           !ult_pe_is_shared(u->pe);
}

static inline void ult_leave(struct ult *u)
{
    if (--u->depth == 0 && BASE_UNLIKELY(atomic_load_explicit(&ult_n_shared, memory_order_relaxed)))
        ult_leave_shared(u);
}

#endif
