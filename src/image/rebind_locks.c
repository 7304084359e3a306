/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_locks.c: POSIX's locks of files (fcntl with F_SETLK and its kin, lockf) per rank.
 *
 * The kernel knows such locks per process: they would not keep ranks of one process apart. Locks of an open
 * file description do, and they exclude other processes' POSIX locks, too. So each rank has a description
 * of its own for each file that it locks, opened here a second time, and all its locks are made there. As a
 * process has them, a rank's locks go by file, not by descriptor: several descriptors of a rank share them,
 * and they end when the rank closes any of these, or ends itself. A forked child has none.
 *
 * A rank that waits for a lock lets other ranks run. There is no EDEADLK.
 */
#include "image/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that a rank has locked. */
struct image_lock {
    struct image_lock *next;
    struct image_libc *owner;
    dev_t device;
    ino_t inode;
    int fd; /* the description that holds the locks; -1: the program's own descriptors do */
};

static struct image_lock *all_locks;
static pthread_mutex_t locks_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- The table ---- */

/* Where the entry of the file is linked. With the lock held. */
static struct image_lock **find_link(const struct image_libc *libc, const struct stat *file)
{
    struct image_lock **link = &all_locks;

    while (*link &&
           ((*link)->owner != libc || (*link)->inode != file->st_ino || (*link)->device != file->st_dev))
        link = &(*link)->next;
    return link;
}

/* Opens the file of a descriptor once more, for all that its owner may do with it. -1: that cannot be. */
static int open_again(int fd)
{
    int mode = fcntl(fd, F_GETFL);
    char path[32];
    int again;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (again < 0 && mode >= 0 && (mode & O_ACCMODE) != O_RDWR)
        again = open(path, (mode & O_ACCMODE) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return again;
}

/* The descriptor to lock the file of `fd` by; is_new: makes an entry if there is none. -1: none. */
static int lock_fd(struct image_libc *libc, int fd, bool is_new)
{
    struct stat file;
    struct image_lock *entry;
    int result = -1;

    if (fstat(fd, &file) != 0)
        return -1;
    pthread_mutex_lock(&locks_lock);
    entry = *find_link(libc, &file);
    if (!entry && is_new && (entry = malloc(sizeof *entry))) {
        *entry = (struct image_lock){all_locks, libc, file.st_dev, file.st_ino, open_again(fd)};
        all_locks = entry;
        atomic_store(&libc->has_file_locks, true);
    }
    if (entry)
        result = entry->fd >= 0 ? entry->fd : fd;
    pthread_mutex_unlock(&locks_lock);
    return result;
}

/* Ends an entry's locks. To close the descriptor is not enough: a child that was forked this moment has it
 * still. */
static void unlock(struct image_lock *entry)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

    if (entry->fd < 0)
        return;
    fcntl(entry->fd, F_OFD_SETLK, &all);
    close(entry->fd);
}

/* The rank has closed a descriptor of this file. */
static void release(struct image_libc *libc, const struct stat *file)
{
    struct image_lock **link, *entry;

    pthread_mutex_lock(&locks_lock);
    link = find_link(libc, file);
    entry = *link;
    if (entry) {
        *link = entry->next;
        unlock(entry);
    }
    pthread_mutex_unlock(&locks_lock);
    free(entry);
}

void image_locks_release(struct image_libc *libc)
{
    struct image_lock **link = &all_locks;

    if (!atomic_load(&libc->has_file_locks))
        return;
    pthread_mutex_lock(&locks_lock);
    while (*link) {
        struct image_lock *entry = *link;

        if (entry->owner != libc) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        unlock(entry);
        free(entry);
    }
    pthread_mutex_unlock(&locks_lock);
}

void image_locks_hold(void)
{
    pthread_mutex_lock(&locks_lock);
}

void image_locks_let_go(void)
{
    pthread_mutex_unlock(&locks_lock);
}

void image_locks_forget(void)
{
    while (all_locks) {
        struct image_lock *entry = all_locks;

        all_locks = entry->next;
        if (entry->fd >= 0)
            close(entry->fd);
        free(entry);
    }
}

/* ---- fcntl ---- */

/* Counts the range from the start of the file: positions are those of the program's descriptor. */
static bool resolve(int fd, struct flock *range)
{
    off_t here;

    if (range->l_whence != SEEK_CUR)
        return true;
    here = lseek(fd, 0, SEEK_CUR);
    if (here < 0)
        return false;
    range->l_start += here;
    range->l_whence = SEEK_SET;
    return true;
}

/* May the descriptor be used for such a lock? As POSIX has it: reading for a shared one, writing for the
 * other. */
static bool is_allowed(int fd, short type)
{
    int mode = fcntl(fd, F_GETFL) & O_ACCMODE;

    return !(type == F_RDLCK && mode == O_WRONLY) && !(type == F_WRLCK && mode == O_RDONLY);
}

static int wait_for_lock(int fd, int by, struct flock *range)
{
    struct image_wait wait = {.call = "fcntl with F_SETLKW", .fd = fd};

    while (fcntl(by, F_OFD_SETLK, range) != 0) {
        if (errno != EAGAIN && errno != EACCES)
            return -1;
        if (!image_can_wait())
            return fcntl(by, F_OFD_SETLKW, range);
        image_cancel_point();
        image_wait_pause(&wait);
    }
    return 0;
}

static int lock_range(struct image_libc *libc, int fd, int cmd, struct flock *asked)
{
    struct flock range = *asked;
    int by, result;

    if (cmd != F_GETLK && !is_allowed(fd, range.l_type)) {
        errno = EBADF;
        return -1;
    }
    if (!resolve(fd, &range))
        return -1;
    range.l_pid = 0;
    by = lock_fd(libc, fd, cmd != F_GETLK && range.l_type != F_UNLCK);
    if (by < 0 && cmd != F_GETLK && range.l_type == F_UNLCK)
        return fcntl(fd, cmd, asked); /* it has no locks: libc's answer to the arguments */
    if (cmd == F_SETLKW)
        return wait_for_lock(fd, by < 0 ? fd : by, &range);
    result = fcntl(by < 0 ? fd : by, cmd == F_GETLK ? F_OFD_GETLK : F_OFD_SETLK, &range);
    if (result == 0 && cmd == F_GETLK) {
        if (range.l_type == F_UNLCK)
            asked->l_type = F_UNLCK;
        else
            *asked = range;
        if (range.l_type != F_UNLCK && asked->l_pid == -1) /* a rank's, of this process as far as is known */
            asked->l_pid = getpid();
    }
    return result;
}

int image_libc_fcntl(int fd, int cmd, ...)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();
    va_list args;
    void *arg;

    va_start(args, cmd);
    arg = va_arg(args, void *);
    va_end(args);
    if (libc && arg && (cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK))
        return lock_range(libc, fd, cmd, arg);
    return fcntl(fd, cmd, arg);
}

int image_libc_lockf(int fd, int cmd, off_t len)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = len};

    switch (cmd) {
    case F_LOCK:
        return image_libc_fcntl(fd, F_SETLKW, &range);
    case F_TLOCK:
        return image_libc_fcntl(fd, F_SETLK, &range);
    case F_ULOCK:
        range.l_type = F_UNLCK;
        return image_libc_fcntl(fd, F_SETLK, &range);
    case F_TEST:
        if (image_libc_fcntl(fd, F_GETLK, &range) != 0)
            return -1;
        if (range.l_type == F_UNLCK)
            return 0;
        errno = EACCES;
        return -1;
    default:
        errno = EINVAL;
        return -1;
    }
}

/* flock is per open file description already. */
int image_libc_flock(int fd, int operation)
{
    struct image_wait wait = {.call = "flock", .fd = fd};

    if ((operation & (LOCK_NB | LOCK_UN)) || !image_can_wait())
        return flock(fd, operation);
    while (flock(fd, operation | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return -1;
        image_wait_pause(&wait);
    }
    return 0;
}

/* ---- Closing: the rank's locks of the file end ---- */

/* The file whose locks end with this descriptor; false: the caller has none. A child of vfork has none,
 * though it sees those of its parent. */
static bool has_locks(int fd, struct stat *file_out, struct image_libc **libc_out)
{
    *libc_out = image_libc_current();
    return *libc_out && atomic_load_explicit(&(*libc_out)->has_file_locks, memory_order_relaxed) &&
           !image_is_forked_child() && fstat(fd, file_out) == 0;
}

int image_libc_close(int fd)
{
    struct image_libc *libc;
    struct stat file;
    bool is_locked = has_locks(fd, &file, &libc);
    int result = close(fd);

    if (is_locked)
        release(libc, &file);
    return result;
}

int image_libc_fclose(FILE *stream)
{
    struct image_libc *libc;
    struct stat file;
    bool is_locked = has_locks(fileno(stream), &file, &libc);
    int result = fclose(stream);

    if (is_locked)
        release(libc, &file);
    return result;
}

int image_libc_dup3(int fd, int new_fd, int flags)
{
    struct image_libc *libc;
    struct stat file;
    bool is_locked = fd != new_fd && has_locks(new_fd, &file, &libc);
    int result = dup3(fd, new_fd, flags);

    if (is_locked && result >= 0)
        release(libc, &file);
    return result;
}

int image_libc_dup2(int fd, int new_fd)
{
    return fd == new_fd ? dup2(fd, new_fd) : image_libc_dup3(fd, new_fd, 0);
}
