/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shuffle.h: random schedules, which find errors that few schedules show (+schedule random:SEED).
 *
 * Each PE has its own sequence of numbers. With one PE, and without threads of the program or the clock's influence,
 * the same seed gives the same run. When off, it costs nothing: ULTs that are not marked (ULT_SHUFFLED) take the
 * usual path.
 */
#ifndef ULT_SHUFFLE_H
#define ULT_SHUFFLE_H

#include "base/base.h"

struct ult_pe;

/* Schedules are at random. */
extern bool ult_shuffles;

/* Turns it on, before ult_job_init. list: the numbers of a PE that have an effect, such as 3+17-20, for a short
 * explanation of a failure; other numbers decide as usual. NULL: all have. */
void ult_shuffle(uint64_t seed, const char *list);
uint64_t ult_shuffle_seed(void);
const char *ult_shuffle_list(void);

/* True if the text can be such a list. */
bool ult_shuffle_is_list(const char *text);

/* A number in 0 .. n - 1; 0 on a thread that runs no ULT. n > 0. Never switches. */
uint32_t ult_random(uint32_t n);

/* True if the number that was drawn last has an effect. */
bool ult_random_counts(void);

/* A number in 0 .. n - 1 that the seed chooses for a purpose. */
uint32_t ult_random_trait(uint32_t purpose, uint32_t n);

/* Lets another ULT run now with a probability that the seed chooses. May switch. */
void ult_shuffle_preempt(void);

/* Moves the ULT that runs next to the front of the run queue. Waits until a ULT is ready. For pe.c. */
void ult_shuffle_queue(struct ult_pe *pe) BASE_COLD;

#endif
