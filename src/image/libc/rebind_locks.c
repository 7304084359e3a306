/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_locks.c: POSIX file locks (fcntl with F_SETLK etc., lockf) per rank.
 *
 * The kernel keeps such locks per process, so they would not exclude ranks of one process. Locks of open
 * file descriptions do, and they also exclude other processes' POSIX locks. So each rank has its own open
 * file description of each file that it locks, opened here a second time, and takes all its locks on it.
 * Like a process's locks, a rank's locks belong to the file, not to a descriptor: a rank's descriptors
 * share them, and they end when the rank closes any of these descriptors, or ends itself. A forked child
 * has none.
 *
 * A rank that waits for a lock lets other ranks run. Before it waits, it checks whether the holders of the
 * lock wait, directly or indirectly, for one of its own locks: that is EDEADLK (lock_waits.h).
 *
 * A table of the ranks' locks with one lock per process in the kernel was rejected: it would implement
 * ranges, splits and upgrades once more, and the process's lock would end whenever any rank closes the
 * file. If the file cannot be opened again, the locks belong to the program's descriptor. A descriptor that
 * a shared library closes (libstdc++'s fstream) does not end them. F_GETLK reports this process if a rank
 * holds the lock, because the kernel has no owner for such locks.
 */
#include "image/libc/lock_waits.h"
#include "image/libc/rebind.h"

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
    int fd;        /* the description that holds the locks; -1: the program's own descriptors hold them */
    bool may_hold; /* a lock was taken since it was last seen without locks */
};

/* A rank that waits for a lock. */
struct waiter {
    struct waiter *next;
    struct image_lock_wait wait;
};

static struct image_lock *all_locks;
static struct waiter *all_waiters;
pthread_mutex_t image_files_lock = PTHREAD_MUTEX_INITIALIZER; /* guards both */

/* ---- The table ---- */

/* The link to the entry of the file. With the lock held. */
static struct image_lock **find_link(const struct image_libc *libc, const struct stat *file)
{
    struct image_lock **link = &all_locks;

    while (*link &&
           ((*link)->owner != libc || (*link)->inode != file->st_ino || (*link)->device != file->st_dev))
        link = &(*link)->next;
    return link;
}

/* Opens the file of a descriptor once more, with all access that its owner has. -1: failed. */
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

/* The descriptor on which to lock the file of `fd`; is_new: creates an entry if there is none. -1: none. */
static int lock_fd(struct image_libc *libc, int fd, bool is_new)
{
    struct stat file;
    struct image_lock *entry;
    int result = -1;

    if (fstat(fd, &file) != 0)
        return -1;
    pthread_mutex_lock(&image_files_lock);
    entry = *find_link(libc, &file);
    if (!entry && is_new && (entry = malloc(sizeof *entry))) {
        *entry = (struct image_lock){all_locks, libc, file.st_dev, file.st_ino, open_again(fd), false};
        all_locks = entry;
        atomic_store(&libc->has_file_locks, true);
    }
    if (entry)
        result = entry->fd >= 0 ? entry->fd : fd;
    pthread_mutex_unlock(&image_files_lock);
    return result;
}

/* Releases an entry's locks. Closing the descriptor is not enough: a child forked at this moment still has
 * it. */
static void unlock(struct image_lock *entry)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

    if (entry->fd < 0)
        return;
    fcntl(entry->fd, F_OFD_SETLK, &all);
    close(entry->fd);
}

/* Called when the rank has closed a descriptor of this file. */
static void release(struct image_libc *libc, const struct stat *file)
{
    struct image_lock **link, *entry;

    pthread_mutex_lock(&image_files_lock);
    link = find_link(libc, file);
    entry = *link;
    if (entry) {
        *link = entry->next;
        unlock(entry);
    }
    pthread_mutex_unlock(&image_files_lock);
    free(entry);
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

/* ---- Deadlocks ---- */

/* Appends the waits of this process's ranks and the descriptions on which those ranks may hold locks. False: memory is
 * exhausted. With the lock held, as the next functions. */
static bool list_waits(struct image_lock_waits *waits)
{
    for (struct waiter *waiter = all_waiters; waiter; waiter = waiter->next)
        if (!image_lock_waits_add(waits, &waiter->wait))
            return false;
    for (struct image_lock *entry = all_locks; entry; entry = entry->next) {
        struct image_lock_held held = {getpid(),  (uintptr_t)entry->owner, entry->device, entry->inode,
                                       entry->fd, &entry->may_hold};
        bool is_waiting = false;

        for (size_t i = 0; i < waits->n_waits && !is_waiting; i++)
            is_waiting = waits->waits[i].rank == held.rank;
        if (is_waiting && entry->may_hold && entry->fd >= 0 && !image_lock_waits_add_held(waits, &held))
            return false;
    }
    return true;
}

/* Tells the other processes which ranks of this one wait. */
static void publish(void)
{
    struct image_lock_waits waits = {0};
    int lock = image_lock_folder_enter();

    if (lock < 0)
        return;
    if (list_waits(&waits))
        image_lock_folder_write(&waits);
    image_lock_folder_leave(lock);
    image_lock_waits_free(&waits);
}

/* Adds a waiter; false: it would wait for ever, and is not added. */
static bool enter(struct waiter *waiter)
{
    struct image_lock_waits waits = {0};
    int lock = image_lock_folder_enter();
    bool is_deadlock = false;

    waiter->next = all_waiters;
    all_waiters = waiter;
    if (list_waits(&waits)) {
        struct image_lock_waits own = waits;

        if (lock >= 0)
            image_lock_folder_read(&waits);
        is_deadlock = waits.n_waits > 1 && image_lock_waits_are_circular(&waits);
        own.waits = waits.waits; /* reading appends, and may move both */
        own.held = waits.held;
        if (!is_deadlock && lock >= 0)
            image_lock_folder_write(&own);
    }
    if (is_deadlock)
        all_waiters = waiter->next;
    image_lock_folder_leave(lock);
    image_lock_waits_free(&waits);
    return !is_deadlock;
}

/* The byte range of a lock; length 0: to the end, negative: bytes before the start. */
static void find_bytes(const struct flock *range, const struct stat *file, struct image_lock_wait *wait)
{
    off_t start = range->l_start + (range->l_whence == SEEK_END ? file->st_size : 0);

    wait->first = range->l_len < 0 ? start + range->l_len : start;
    wait->last = range->l_len == 0 ? INT64_MAX : range->l_len < 0 ? start - 1 : start + range->l_len - 1;
}

/* Called before the caller waits; false if it would wait forever. The last rank that begins to wait closes
 * the circle, so no rank needs to check again. *waiter_out NULL: not visible to others. */
static bool begin_wait(struct image_libc *libc, int fd, const struct flock *range, struct waiter **waiter_out)
{
    struct waiter *waiter = calloc(1, sizeof *waiter);
    struct stat file;
    bool is_added;

    *waiter_out = NULL;
    if (!waiter || fstat(fd, &file) != 0) {
        free(waiter);
        return true;
    }
    waiter->wait = (struct image_lock_wait){.pid = getpid(),
                                            .rank = (uintptr_t)libc,
                                            .device = file.st_dev,
                                            .inode = file.st_ino,
                                            .is_exclusive = range->l_type == F_WRLCK};
    find_bytes(range, &file, &waiter->wait);
    pthread_mutex_lock(&image_files_lock);
    is_added = enter(waiter);
    pthread_mutex_unlock(&image_files_lock);
    if (is_added)
        *waiter_out = waiter;
    else
        free(waiter);
    return is_added;
}

static void end_wait(struct waiter *waiter)
{
    struct waiter **link = &all_waiters;

    if (!waiter)
        return;
    pthread_mutex_lock(&image_files_lock);
    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    publish();
    pthread_mutex_unlock(&image_files_lock);
    free(waiter);
}

/* The rank ends, perhaps while it waits. With the lock held. */
static void remove_waiters(const struct image_libc *libc)
{
    bool is_any = false;

    for (struct waiter **link = &all_waiters; *link;) {
        struct waiter *waiter = *link;

        if (waiter->wait.rank != (uintptr_t)libc) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        free(waiter);
        is_any = true;
    }
    if (is_any)
        publish();
}

void image_locks_release(struct image_libc *libc)
{
    struct image_lock **link = &all_locks;

    if (!atomic_load(&libc->has_file_locks))
        return;
    pthread_mutex_lock(&image_files_lock);
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
    remove_waiters(libc);
    pthread_mutex_unlock(&image_files_lock);
}

/* ---- fcntl ---- */

/* Makes the range relative to the start of the file: offsets refer to the program's descriptor. */
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

/* True if the descriptor allows such a lock. POSIX requires read access for a shared lock and write access
 * for an exclusive one. */
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

/* Records that the rank may hold a lock. */
static void note_held(const struct image_libc *libc, int fd)
{
    struct stat file;
    struct image_lock *entry;

    if (fstat(fd, &file) != 0)
        return;
    pthread_mutex_lock(&image_files_lock);
    entry = *find_link(libc, &file);
    if (entry)
        entry->may_hold = true;
    pthread_mutex_unlock(&image_files_lock);
}

/* Sets or releases a lock. */
static int set_lock(struct image_libc *libc, int fd, int cmd, const struct flock *asked, struct flock *range)
{
    int by = lock_fd(libc, fd, range->l_type != F_UNLCK), result;

    if (by < 0 && range->l_type == F_UNLCK)
        return fcntl(fd, cmd, (struct flock *)asked); /* the rank has no locks: libc validates the
                                                       * arguments */
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
    if (range->l_type != F_UNLCK && asked->l_pid == -1) /* held by a rank, assumed to be of this process */
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

static int image_libc_fcntl(int fd, int cmd, ...)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();
    va_list args;
    void *arg;

    va_start(args, cmd);
    arg = va_arg(args, void *);
    va_end(args);
    if (libc && arg && (cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK))
        return lock_range(libc, fd, cmd, arg);
    if (libc && cmd == F_SETOWN)
        return image_pid_set_owner(fd, (pid_t)(intptr_t)arg);
    return fcntl(fd, cmd, arg);
}
IMAGE_REBINDS(image_libc_fcntl, "fcntl", "__fcntl", "fcntl64");

static int image_libc_lockf(int fd, int cmd, off_t len)
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
IMAGE_REBINDS(image_libc_lockf, "lockf", "lockf64");

/* flock already works per open file description. */
static int image_libc_flock(int fd, int operation)
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
IMAGE_REBINDS(image_libc_flock, "flock");

/* ---- Closing a file releases the rank's locks on it ---- */

/* The file whose locks end with this descriptor; false: the caller has none. A child of vfork has none,
 * although it sees its parent's. */
static bool has_locks(int fd, struct stat *file_out, struct image_libc **libc_out)
{
    *libc_out = image_libc_current();
    return *libc_out && atomic_load_explicit(&(*libc_out)->has_file_locks, memory_order_relaxed) &&
           !image_is_forked_child() && fstat(fd, file_out) == 0;
}

static int image_libc_close(int fd)
{
    struct image_libc *libc;
    struct stat file;
    bool is_locked = has_locks(fd, &file, &libc);
    int result = close(fd);

    if (is_locked)
        release(libc, &file);
    return result;
}
IMAGE_REBINDS(image_libc_close, "close", "__close");

static int image_libc_fclose(FILE *stream)
{
    struct image_libc *libc;
    struct stat file;
    bool is_locked = has_locks(fileno(stream), &file, &libc);
    int result = fclose(stream);

    if (is_locked)
        release(libc, &file);
    return result;
}
IMAGE_REBINDS(image_libc_fclose, "fclose", "_IO_fclose");

static int image_libc_dup3(int fd, int new_fd, int flags)
{
    struct image_libc *libc;
    struct stat file;
    bool is_locked = fd != new_fd && has_locks(new_fd, &file, &libc);
    struct stat new_file;
    int result;

    if (new_fd <= STDERR_FILENO && fd != new_fd && fstat(fd, &new_file) == 0)
        image_libc_check_redirection(new_fd, &new_file);
    result = dup3(fd, new_fd, flags);
    if (is_locked && result >= 0)
        release(libc, &file);
    return result;
}
IMAGE_REBINDS(image_libc_dup3, "dup3");

static int image_libc_dup2(int fd, int new_fd)
{
    return fd == new_fd ? dup2(fd, new_fd) : image_libc_dup3(fd, new_fd, 0);
}
IMAGE_REBINDS(image_libc_dup2, "dup2", "__dup2"); /* releases the rank's locks of the file that it closes */
