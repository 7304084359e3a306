/* SPDX-License-Identifier: BSD-3-Clause
 *
 * annotate.h: informs ThreadSanitizer and valgrind of stacks and of switches between them; called by pe.c
 * alone.
 *
 * In a build without them everything here is empty: no fields, no code. With -DHEDDLE_SANITIZE=thread the
 * compiler defines the macro that is tested here; -DHEDDLE_VALGRIND=ON defines ULT_VALGRIND.
 * AddressSanitizer is detected at run time instead (asan.h): users' programs contain it although this
 * library was not built for it.
 */
#ifndef ULT_ANNOTATE_H
#define ULT_ANNOTATE_H

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ULT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ULT_TSAN 1
#endif

#if defined(ULT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(ULT_VALGRIND)
#include <valgrind/valgrind.h>
#endif

/* Data of a ULT. */
struct ult_annotation {
#if defined(ULT_TSAN)
    void *fiber;
#endif
#if !defined(ULT_TSAN)
    char none[0]; /* an empty struct is an extension, and differs in C++ */
#endif
};

/* Called when a ULT was created, to run on this stack. */
static inline void ult_annotate_create(struct ult_annotation *annotation, char *stack_lo, char *stack_hi)
{
    (void)annotation;
    (void)stack_lo;
    (void)stack_hi;
#if defined(ULT_TSAN)
    annotation->fiber = __tsan_create_fiber(0);
#endif
#if defined(ULT_VALGRIND)
    (void)VALGRIND_STACK_REGISTER(stack_lo,
                                  stack_hi); /* for ever: stacks are not used for other purposes later */
#endif
}

/* Called when the calling thread became a ULT. */
static inline void ult_annotate_adopt(struct ult_annotation *annotation)
{
    (void)annotation;
#if defined(ULT_TSAN)
    annotation->fiber = __tsan_get_current_fiber();
#endif
}

#if defined(ULT_TSAN)
/* ThreadSanitizer's fiber of the last ULT that ran on this thread, if that ULT has ended. */
static __thread void *ult_annotate_ended_fiber;
#endif

/* Called right before a switch: the running ULT leaves, for ever if it has ended. */
static inline void ult_annotate_leave(struct ult_annotation *from, struct ult_annotation *to, int has_ended)
{
    (void)from;
    (void)to;
    (void)has_ended;
#if defined(ULT_TSAN)
    ult_annotate_ended_fiber = has_ended ? from->fiber : NULL;
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
}

/* Called right after a switch, and first in a new ULT: it runs now. */
static inline void ult_annotate_enter(struct ult_annotation *self)
{
    (void)self;
#if defined(ULT_TSAN)
    if (ult_annotate_ended_fiber)
        __tsan_destroy_fiber(ult_annotate_ended_fiber); /* TSan has room only for some thousands */
    ult_annotate_ended_fiber = NULL;
#endif
}

#endif
