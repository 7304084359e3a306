/* SPDX-License-Identifier: BSD-3-Clause
 *
 * loader_lock.h: held while this library, or a rank, loads or unloads a library, and while a rank forks.
 *
 * A process forked while another thread is in dlopen or dlclose keeps ld.so in the middle of its work: glibc
 * renews the lock of dlopen in the child, but neither the lock of ld.so's list nor the state of the list. So
 * fork waits until no library is being loaded. dlopen with RTLD_NOLOAD, and dlclose after it, change neither,
 * and need no lock.
 *
 * It is the outermost lock: constructors of shared libraries run while it is held. It is recursive per OS
 * thread, because constructors may open libraries or fork. A ULT never yields while it holds it.
 */
#ifndef BASE_LOADER_LOCK_H
#define BASE_LOADER_LOCK_H

#include <stdbool.h>

#include "base/base.h"

void base_loader_lock(void);
void base_loader_unlock(void);

/* For a caller with other locks, which a constructor may wait for: false if the lock has not become free for ten seconds. */
bool base_loader_try_lock(void);

/* In a child of fork: the lock is free, whoever held it in the parent. */
void base_loader_renew(void);

#endif
