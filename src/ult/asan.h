/* SPDX-License-Identifier: BSD-3-Clause
 *
 * asan.h: informs AddressSanitizer, if the program contains it, of ULTs' stacks and of switches between
 * them; for the files of src/ult alone.
 *
 * Its functions are looked up when the job begins, so an ordinary build of this library supports programs
 * that were compiled with -fsanitize=address. Without it a switch has no extra cost: the check is in the
 * branch that thread_local variables take (tls.h).
 */
#ifndef ULT_ASAN_H
#define ULT_ASAN_H

#include "ult/ult.h"

/* Detects AddressSanitizer. Called when the job begins, before the other functions. */
void ult_asan_init(void);

/* A ULT was created: unpoisons its stack, whatever ran there before. */
void ult_asan_create(struct ult *u);

/* The calling thread became this ULT: its stack_lo and stack_hi are set. */
void ult_asan_adopt(struct ult *u);

/* Called right before a switch. No code compiled with AddressSanitizer may run before the switch is done. */
void ult_asan_switch(struct ult *from, const struct ult *to);

#endif
