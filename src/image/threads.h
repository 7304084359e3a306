/* SPDX-License-Identifier: BSD-3-Clause
 *
 * threads.h: OS threads that belong to a rank, and what the C library would keep for each. Private to
 * src/image.
 *
 * A rank runs on a ULT of its PE's thread. What its program starts beyond that are OS threads of their own:
 * each belongs to the rank that called pthread_create, even if a shared library made the call on the rank's
 * behalf (std::thread, OpenMP). Some threads belong to no rank and still run a rank's code: a callback on a
 * thread of the CUDA driver. These keep one struct image_thread for each rank that they have visited.
 */
#ifndef IMAGE_THREADS_H
#define IMAGE_THREADS_H

#include "image/rebind.h"

/* Called first on a new thread of a rank: the thread belongs to this image from now on, and its thread_local
 * variables are those of the image. Once per thread, before any code of the program. false: no memory. */
bool image_thread_begin(struct image *image) BASE_MUST_CHECK;

/* So many more threads of the image's rank are about to begin, or have not begun after all. */
void image_thread_count(struct image *image, int n);

/* In a process that was just forked: the calling thread goes on as a thread of the rank whose ULT it ran. */
void image_thread_stay(void);

/* The image that a thread made now, by a call from `caller`, belongs to; NULL: to none. */
struct image *image_thread_heir(const void *caller);

/* The state of the running rank or of the rank's thread that calls; NULL: the thread belongs to no rank. */
struct image_thread *image_thread_current(void);

/* The same; on a thread that belongs to no rank, its state as a visitor of the rank in whose copy the address
 * lies. NULL: in none. */
struct image_thread *image_thread_of(const void *code);

/* Frees what the thread's state holds. */
void image_thread_fini(struct image_thread *thread);

/* ---- Keys (rebind_keys.c) ---- */

/* One pass over the thread's values: calls the destructors of those that are not NULL. False: none was
 * left. */
bool image_keys_destroy_values(struct image_thread *thread);

void image_keys_free_values(struct image_thread *thread);
void image_keys_free(struct image_libc *libc);

#endif
