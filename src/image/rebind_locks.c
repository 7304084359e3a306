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
 * A rank that waits for a lock lets other ranks run. Before it waits, it looks whether the ranks that hold the
 * lock wait for one of its own, in the end: that is EDEADLK. What they hold the kernel tells (/proc/self/fdinfo).
 * Other processes are not looked at.
 */
#include "image/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that a rank has locked. */
struct image_lock {
    struct image_lock *next;
    struct image_libc *owner;
    dev_t device;
    ino_t inode;
    int fd;        /* the description that holds the locks; -1: the program's own descriptors do */
    bool may_hold; /* there was a lock since it was last seen to hold none */
};

/* A rank that waits for a lock. */
struct waiter {
    struct waiter *next;
    struct image_libc *owner;
    dev_t device;
    ino_t inode;
    bool is_exclusive;
    off_t first, last;
    bool is_found; /* by the search that runs */
    struct waiter *found_next;
};

static struct image_lock *all_locks;
static struct waiter *all_waiters;
static pthread_mutex_t locks_lock = PTHREAD_MUTEX_INITIALIZER; /* guards both */

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
        *entry = (struct image_lock){all_locks, libc, file.st_dev, file.st_ino, open_again(fd), false};
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

/* With the lock held. */
static void remove_waiters(const struct image_libc *libc)
{
    for (struct waiter **link = &all_waiters; *link;) {
        struct waiter *waiter = *link;

        if (waiter->owner != libc) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        free(waiter);
    }
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
    remove_waiters(libc); /* it was ended while it waited */
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
    while (all_waiters) {
        struct waiter *waiter = all_waiters;

        all_waiters = waiter->next;
        free(waiter);
    }
}

/* ---- Ranks that wait for each other ---- */

/* Do the locks of an entry forbid what the waiter wants? With the lock held. */
static bool keeps_waiting(struct image_lock *held, const struct waiter *waiter)
{
    char path[48], line[256], type[16], end[32];
    long long first;
    bool holds_any = false, is_found = false;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", held->fd);
    file = fopen(path, "re");
    while (file && !is_found && fgets(line, sizeof line, file)) {
        if (sscanf(line, "lock: %*d: %*s %*s %15s %*d %*s %lld %31s", type, &first, end) != 3)
            continue;
        holds_any = true;
        is_found = (waiter->is_exclusive || strcmp(type, "WRITE") == 0) && first <= waiter->last &&
                   (strcmp(end, "EOF") == 0 || atoll(end) >= waiter->first);
    }
    if (file) {
        held->may_hold = holds_any;
        fclose(file);
    }
    return is_found;
}

/* Adds the waiters of a rank that have not been found yet behind `last`; returns the last one. */
static struct waiter *find_waiters(const struct image_libc *owner, struct waiter *last)
{
    for (struct waiter *waiter = all_waiters; waiter; waiter = waiter->next)
        if (waiter->owner == owner && !waiter->is_found) {
            waiter->is_found = true;
            waiter->found_next = NULL;
            last = last->found_next = waiter;
        }
    return last;
}

/* Would the waiter, which is not in the list yet, wait for its own rank in the end? With the lock held. */
static bool closes_circle(struct waiter *waiter)
{
    struct waiter *last = waiter;

    for (struct waiter *other = all_waiters; other; other = other->next)
        other->is_found = false;
    waiter->found_next = NULL;
    for (const struct waiter *at = waiter; at; at = at->found_next)
        for (struct image_lock *held = all_locks; held; held = held->next) {
            if (held->owner == at->owner || !held->may_hold || held->fd < 0 || held->inode != at->inode ||
                held->device != at->device || !keeps_waiting(held, at))
                continue;
            if (held->owner == waiter->owner)
                return true;
            last = find_waiters(held->owner, last);
        }
    return false;
}

/* The bytes that a lock is for; their number 0: to the end, below 0: those before the start. */
static void find_bytes(const struct flock *range, const struct stat *file, struct waiter *waiter)
{
    off_t start = range->l_start + (range->l_whence == SEEK_END ? file->st_size : 0);

    waiter->first = range->l_len < 0 ? start + range->l_len : start;
    waiter->last = range->l_len == 0 ? INT64_MAX : range->l_len < 0 ? start - 1 : start + range->l_len - 1;
}

/* The caller is about to wait: false if that would be for ever. The last one that begins to wait closes the
 * circle: no one needs to look again. *waiter_out NULL: it is not seen by others. */
static bool begin_wait(struct image_libc *libc, int fd, const struct flock *range, struct waiter **waiter_out)
{
    struct waiter *waiter = malloc(sizeof *waiter);
    struct stat file;
    bool is_deadlock;

    *waiter_out = NULL;
    if (!waiter || fstat(fd, &file) != 0) {
        free(waiter);
        return true;
    }
    *waiter = (struct waiter){
        .owner = libc, .device = file.st_dev, .inode = file.st_ino, .is_exclusive = range->l_type == F_WRLCK};
    find_bytes(range, &file, waiter);
    pthread_mutex_lock(&locks_lock);
    is_deadlock = all_waiters && closes_circle(waiter);
    if (!is_deadlock) {
        waiter->next = all_waiters;
        *waiter_out = all_waiters = waiter;
    }
    pthread_mutex_unlock(&locks_lock);
    if (is_deadlock)
        free(waiter);
    return !is_deadlock;
}

static void end_wait(struct waiter *waiter)
{
    struct waiter **link = &all_waiters;

    if (!waiter)
        return;
    pthread_mutex_lock(&locks_lock);
    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    pthread_mutex_unlock(&locks_lock);
    free(waiter);
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

static int wait_for_lock(struct image_libc *libc, int fd, int by, struct flock *range)
{
    struct image_wait wait = {.call = "fcntl with F_SETLKW", .fd = fd};
    struct waiter *waiter = NULL;
    bool is_first = true;
    int result;

    while ((result = fcntl(by, F_OFD_SETLK, range)) != 0 && (errno == EAGAIN || errno == EACCES)) {
        if (!image_can_wait())
            return fcntl(by, F_OFD_SETLKW, range);
        if (is_first && !begin_wait(libc, fd, range, &waiter)) {
            errno = EDEADLK;
            return -1;
        }
        is_first = false;
        image_cancel_point();
        image_wait_pause(&wait);
    }
    end_wait(waiter);
    return result;
}

/* There is a lock now. */
static void note_held(const struct image_libc *libc, int fd)
{
    struct stat file;
    struct image_lock *entry;

    if (fstat(fd, &file) != 0)
        return;
    pthread_mutex_lock(&locks_lock);
    entry = *find_link(libc, &file);
    if (entry)
        entry->may_hold = true;
    pthread_mutex_unlock(&locks_lock);
}

/* Makes or ends a lock. */
static int set_lock(struct image_libc *libc, int fd, int cmd, const struct flock *asked, struct flock *range)
{
    int by = lock_fd(libc, fd, range->l_type != F_UNLCK), result;

    if (by < 0 && range->l_type == F_UNLCK)
        return fcntl(fd, cmd, (struct flock *)asked); /* it has no locks: libc's answer to the arguments */
    if (by < 0)
        by = fd;
    result = cmd == F_SETLKW ? wait_for_lock(libc, fd, by, range) : fcntl(by, F_OFD_SETLK, range);
    if (result == 0 && range->l_type != F_UNLCK)
        note_held(libc, fd);
    return result;
}

static int get_lock(struct image_libc *libc, int fd, struct flock *asked, struct flock *range)
{
    int by = lock_fd(libc, fd, false);

    if (fcntl(by < 0 ? fd : by, F_OFD_GETLK, range) != 0)
        return -1;
    if (range->l_type == F_UNLCK)
        asked->l_type = F_UNLCK;
    else
        *asked = *range;
    if (range->l_type != F_UNLCK && asked->l_pid == -1) /* a rank's, of this process as far as is known */
        asked->l_pid = getpid();
    return 0;
}

static int lock_range(struct image_libc *libc, int fd, int cmd, struct flock *asked)
{
    struct flock range = *asked;

    if (cmd != F_GETLK && !is_allowed(fd, range.l_type)) {
        errno = EBADF;
        return -1;
    }
    if (!resolve(fd, &range))
        return -1;
    range.l_pid = 0;
    return cmd == F_GETLK ? get_lock(libc, fd, asked, &range) : set_lock(libc, fd, cmd, asked, &range);
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
