/* SPDX-License-Identifier: BSD-3-Clause
 *
 * asan.h: AddressSanitizer, if the program brings it: it is told of ULTs' stacks and of switches between
 * them; for the files of src/ult alone.
 *
 * Its functions are looked up when the job begins, so an ordinary build of this library serves programs that
 * were compiled with -fsanitize=address. Without it a switch costs nothing more: the look is in the branch
 * that thread_local variables take (tls.h).
 */
#ifndef ULT_ASAN_H
#define ULT_ASAN_H

#include "ult/ult.h"

/* Finds out whether AddressSanitizer is there. When the job begins, before all others. */
void ult_asan_init(void);

/* A ULT was made: nothing on its stack is poisoned, whoever ran there before. */
void ult_asan_create(struct ult *u);

/* The calling thread, as it is, became this ULT: its stack_lo and stack_hi are set. */
void ult_asan_adopt(struct ult *u);

/* Right before a switch. Nothing that was compiled with AddressSanitizer may run before the switch is
 * done. */
void ult_asan_switch(struct ult *from, const struct ult *to);

#endif
