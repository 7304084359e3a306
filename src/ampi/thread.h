/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread.h: threads that the program starts.
 */
#ifndef AMPI_THREAD_H
#define AMPI_THREAD_H

/* Has ranks' code pass on, in pthread_create, whose the new thread is. Before the first copy of the program.
 */
void ampi_thread_init(void);

#endif
