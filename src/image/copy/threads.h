/* SPDX-License-Identifier: BSD-3-Clause
 *
 * threads.h: OS threads that belong to a rank, and the per-rank replacement of the C library's per-thread
 * state. Private to src/image.
 *
 * A rank runs on a ULT of its PE's thread. Further threads of its program are OS threads: each belongs to
 * the rank that called pthread_create, even if a shared library made the call on the rank's behalf
 * (std::thread, OpenMP). Some threads belong to no rank and still run a rank's code: a callback on a thread
 * of the CUDA driver, for example. They have one struct image_thread for each rank that they have visited.
 */
#ifndef IMAGE_THREADS_H
#define IMAGE_THREADS_H

#include "image/copy/libc_state.h"
#include "ult/ult.h"

/* The state of an OS thread that belongs to a rank; NULL: it belongs to none, or runs ULTs, which have their
 * own (struct ult, thread_state). Also read by the code of TLS descriptors. */
extern __thread struct image_thread *image_thread_own __attribute__((tls_model("initial-exec")));

/* Called first on a new thread of a rank: assigns the thread to this image and sets its thread_local
 * variables to the image's. Once per thread, before any code of the program. Returns false if memory is
 * exhausted. */
bool image_thread_begin(struct image *image) BASE_MUST_CHECK;

/* Adds n to the number of the rank's threads: before they begin, or with n < 0 if they fail to begin. */
void image_thread_count(struct image *image, int n);

/* Called in a process that was just forked: the calling thread becomes a thread of the rank whose ULT it
 * ran. */
void image_thread_stay(void);

/* The image of a thread that is created by a call from `caller`; NULL: none. */
struct image *image_thread_heir(const void *caller);

/* True if such a thread serves all ranks. */
bool image_thread_serves_all(const void *caller);

/* The state of the running rank or of the calling thread, if it belongs to a rank; else NULL. */
static inline struct image_thread *image_thread_current(void)
{
    const struct ult *u = ult_self();

    return u && u->thread_state ? u->thread_state : image_thread_own;
}

/* The same; on a thread of no rank, its state as a visitor of the rank whose copy contains the address.
 * NULL: none. */
struct image_thread *image_thread_of(const void *code);

/* Frees memory held by the thread's state. */
void image_thread_fini(struct image_thread *thread);

/* Called when the C library may start threads that run the code of `caller` from now on, at any time (event: SIGEV_THREAD): the rank
 * gets one more thread, which never ends. */
void image_threads_expect(const struct sigevent *event, const void *caller);

#endif
