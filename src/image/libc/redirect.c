/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redirect.c: ranks that send standard output elsewhere.
 *
 * Programs give each rank a file for its output: they replace descriptors 1 and 2, which the ranks of a process share, so all
 * output goes to the file of the last rank. That is reported. Called by dup2, dup3 (rebind_locks.c) and freopen
 * (rebind_open.c).
 */
#include "image/libc/rebind.h"

#include <pthread.h>
#include <stdio.h>

/* Where a rank has sent one of the standard descriptors. */
struct redirection {
    const struct image_libc *owner; /* the rank, or NULL */
    dev_t device;                   /* of the file */
    ino_t inode;                    /* of the file */
};

/* Once per process. */
static void report(int fd)
{
    static atomic_flag has_said = ATOMIC_FLAG_INIT;
    char text[200];

    if (atomic_flag_test_and_set(&has_said) || !image_rebind_client.report)
        return;
    snprintf(
        text, sizeof text,
        "redirects descriptor %d, which another rank of this process has redirected to another file: the "
        "output of both goes to the last one; give each rank a process (--procs)",
        fd);
    image_rebind_client.report(text);
}

void image_libc_check_redirection(int fd, const struct stat *file)
{
    const struct image_libc *owner = image_libc_current();
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct redirection redirections[3];
    struct redirection *last;
    bool is_others;

    if (fd < 1 || fd > 2 || !owner || image_is_forked_child())
        return;
    if (pthread_mutex_trylock(&lock) != 0) /* a handler of a signal, or another PE */
        return;
    last = &redirections[fd];
    is_others =
        last->owner && last->owner != owner && (last->device != file->st_dev || last->inode != file->st_ino);
    if (last->owner == owner) /* it restores the descriptor, as a rule */
        last->owner = NULL;
    else
        *last = (struct redirection){owner, file->st_dev, file->st_ino};
    pthread_mutex_unlock(&lock);
    if (is_others)
        report(fd);
}
