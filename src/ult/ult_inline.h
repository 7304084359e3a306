/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ult_inline.h: the parts of ult.h that are worth inlining. Included by ult.h only.
 */
#ifndef ULT_ULT_INLINE_H
#define ULT_ULT_INLINE_H

/* The ULT that this OS thread runs. ULTs stay on their PE, so an address of it taken before a switch stays
 * valid after it. */
extern __thread struct ult *ult_current __attribute__((tls_model("initial-exec")));

static inline struct ult *ult_self(void)
{
    return ult_current;
}

#endif
