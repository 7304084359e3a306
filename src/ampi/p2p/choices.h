/* SPDX-License-Identifier: BSD-3-Clause
 *
 * choices.h: one order of matches out of all, for mpirun --explore all (+schedule choices:...).
 */
#ifndef AMPI_P2P_CHOICES_H
#define AMPI_P2P_CHOICES_H

#include "ampi/p2p/schedule.h"

/* Begins a run that takes these alternatives, such as 2.0.1, and then the first of each choice. */
void ampi_choices_begin(const char *list);

/* The sends of short messages wait for their receives. */
bool ampi_choices_sends_wait(void);

/* All ranks are blocked. True: a rank is ready now. */
bool ampi_choices_decide(void);

/* The functions of schedule.h. */
bool ampi_choices_defers(const struct ampi_comm *comm, int source, int tag);
void ampi_choices_arrived(const struct ampi_comm *comm, int source, int tag);
enum ampi_poll ampi_choices_poll(void);
void ampi_choices_polled(bool has_found);
bool ampi_choices_polls_again(void);
int ampi_choices_first(struct ampi_request *const *requests, int n_requests);

#endif
