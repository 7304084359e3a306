/* SPDX-License-Identifier: BSD-3-Clause
 *
 * universe.c: see universe.h.
 */
#include "base/universe.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TABLE_BYTES = sizeof(struct base_launched_table) + 2 * BASE_LAUNCHED_UNIVERSE_MAX };

const char *base_universe_folder(void)
{
    static char path[96];
    const char *name = secure_getenv("HEDDLE_UNIVERSE");

    if (path[0]) /* the program may change its environment */
        return path;
    if (name && (name[0] == '\0' || strlen(name) > 32 || strchr(name, '/')))
        return NULL;
    snprintf(path, sizeof path, "/dev/shm/heddle-universe-%u%s%s", (unsigned)getuid(), name ? "-" : "",
             name ? name : "");
    return path;
}

static void write_path(const char *name, char *path_out, size_t size)
{
    snprintf(path_out, size, "%s%s", base_universe_folder(), name);
}

/* Locks the folder, and creates it if that is wanted. Returns a descriptor, or -1 with errno. EPERM: it is accessible to
 * others. Then they could keep it locked, so that is found first. */
static int lock_folder(bool is_created)
{
    const char *path = base_universe_folder();

    for (;;) {
        struct stat locked, there;
        int fd, error;
        if (!path)
            return errno = EINVAL, -1;
        if (is_created && mkdir(path, 0700) != 0 && errno != EEXIST)
            return -1;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT && is_created)
            continue;
        if (fd < 0)
            return -1;
        error = fstat(fd, &locked) != 0                               ? errno
                : locked.st_uid != getuid() || (locked.st_mode & 077) ? EPERM
                : flock(fd, LOCK_EX) != 0                             ? errno
                                                                      : 0;
        /* The last job may have removed it meanwhile. */
        if (error == 0 && stat(path, &there) == 0 && there.st_ino == locked.st_ino)
            return fd;
        close(fd);
        errno = error;
        if (error != 0)
            return -1;
        if (!is_created)
            return errno = ENOENT, -1;
    }
}

/* ---- Locks of numbers: shared ones, because several processes of a job may hold one ---- */

static int set_lock(int fd, short type, int start, int n)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = n};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

/* True if a living process owns one of the numbers from start on (n = 0: all). *first_out and *end_out: numbers that it owns.
 * The own lock is no obstacle to itself, so it does not count. */
static bool find_owned(int fd, int start, int n, int *first_out, int *end_out)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = n};

    if (fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return false;
    *first_out = (int)lock.l_start;
    *end_out = (int)(lock.l_start + lock.l_len);
    return true;
}

/* ---- The last job's end ---- */

static int remove_below(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    if (where->level > 0)
        remove(path);
    return 0;
}

/* Removes the contents if no job is alive, and the folder. */
static void remove_if_dead(bool is_folder_removed)
{
    char path[128];
    int first, end, fd;
    bool is_dead;

    write_path(BASE_LAUNCHED_TABLE, path, sizeof path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    is_dead = fd < 0 ? errno == ENOENT : !find_owned(fd, 0, 0, &first, &end);
    if (fd >= 0)
        close(fd);
    if (!is_dead)
        return;
    nftw(base_universe_folder(), remove_below, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    if (is_folder_removed)
        rmdir(base_universe_folder());
}

/* Later jobs get the last numbers if no process has had them, and no living job owns them. */
static void give_back_numbers(const struct base_universe *universe)
{
    struct base_launched_table *table = universe->table;
    int first, end;

    for (uint32_t i = table->n_given - 1; i > 0 && atomic_load(&table->states[i]) == BASE_LAUNCHED_ABSENT &&
                                          !find_owned(universe->table_fd, (int)i, 0, &first, &end);
         i--)
        table->n_given = i;
}

void base_universe_tidy(const struct base_universe *universe)
{
    int fd = lock_folder(false);

    if (fd < 0)
        return;
    if (universe && universe->table)
        give_back_numbers(universe);
    remove_if_dead(true);
    close(fd);
}

void base_universe_leave(const struct base_universe *universe, int first, int n)
{
    struct base_launched_table *table = universe->table;
    static const char *const files[] = {BASE_LAUNCHED_ADDRESS, BASE_LAUNCHED_LINKS};
    char name[32], path[128];

    for (int i = first; i < first + n; i++) {
        uint8_t state = atomic_load(&table->states[i]);
        if (state == BASE_LAUNCHED_ABSENT)
            continue;
        if (state < BASE_LAUNCHED_ENDED)
            atomic_store(&table->states[i],
                         state == BASE_LAUNCHED_PARTED ? BASE_LAUNCHED_ENDED : BASE_LAUNCHED_FAILED);
        for (size_t k = 0; k < sizeof files / sizeof files[0]; k++) {
            snprintf(name, sizeof name, "%s%d", files[k], i);
            write_path(name, path, sizeof path);
            unlink(path);
        }
    }
    set_lock(universe->table_fd, F_UNLCK, 0, 0); /* the mapping keeps the file open */
    base_universe_tidy(universe);
}

/* ---- Entering ---- */

static int map_table(struct base_universe *universe_out, int flags)
{
    char path[128];
    void *memory;
    int error;

    write_path(BASE_LAUNCHED_TABLE, path, sizeof path);
    universe_out->table_fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    if (universe_out->table_fd < 0)
        return errno;
    error = flags & O_CREAT ? posix_fallocate(universe_out->table_fd, 0, TABLE_BYTES) : 0;
    if (error)
        return error;
    memory = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, universe_out->table_fd, 0);
    if (memory == MAP_FAILED)
        return errno;
    universe_out->table = memory;
    return 0;
}

/* Opens the table, or creates it. */
static int create_table(struct base_universe *universe_out)
{
    char path[128];
    int error = map_table(universe_out, O_CREAT);
    struct base_launched_table *table = universe_out->table;

    if (error)
        return error;
    if (table->max == 0) {
        table->max = BASE_LAUNCHED_UNIVERSE_MAX;
        table->n_given = 1;
    }
    write_path(BASE_LAUNCHED_NAMES, path, sizeof path);
    return table->max != BASE_LAUNCHED_UNIVERSE_MAX    ? EPROTO
           : mkdir(path, 0700) != 0 && errno != EEXIST ? errno
                                                       : 0;
}

/* With the folder's lock. */
static int take_numbers(struct base_universe *universe)
{
    struct base_launched_table *table = universe->table;
    int error;

    if (table->n_given + (uint32_t)universe->n > table->max)
        return ENOSPC;
    universe->first = (int)table->n_given;
    error = set_lock(universe->table_fd, F_RDLCK, universe->first, universe->n);
    if (!error)
        table->n_given += (uint32_t)universe->n;
    return error;
}

int base_universe_enter(struct base_universe *universe_out, int n)
{
    int fd = lock_folder(true), error = fd < 0 ? errno : 0;

    *universe_out = (struct base_universe){.table_fd = -1, .n = n};
    if (!error) {
        remove_if_dead(false);
        error = create_table(universe_out);
    }
    if (!error)
        error = take_numbers(universe_out);
    if (fd >= 0)
        close(fd);
    if (error)
        universe_out->table = NULL;
    return error;
}

int base_universe_join(struct base_universe *universe_out, int first, int n, int number)
{
    int error;

    *universe_out = (struct base_universe){.table_fd = -1, .first = first, .n = n};
    if (!base_universe_folder())
        return EINVAL;
    error = map_table(universe_out, 0);
    if (!error)
        error = set_lock(universe_out->table_fd, F_RDLCK, number, 1);
    if (error)
        universe_out->table = NULL;
    return error;
}

void base_universe_keep(const struct base_universe *universe, int number)
{
    if (number > universe->first)
        set_lock(universe->table_fd, F_UNLCK, universe->first, number - universe->first);
    if (number + 1 < universe->first + universe->n)
        set_lock(universe->table_fd, F_UNLCK, number + 1, universe->first + universe->n - number - 1);
}

/* ---- Other jobs ---- */

bool base_universe_is_own(const struct base_universe *universe, int number)
{
    return number >= universe->first && number < universe->first + universe->n;
}

void base_universe_find_dead(const struct base_universe *universe)
{
    struct base_launched_table *table = universe->table;
    int first = 0, end = 0;

    for (int i = 0; i < (int)table->n_given; i++) {
        uint8_t state = atomic_load(&table->states[i]);
        if (state == BASE_LAUNCHED_ABSENT || state >= BASE_LAUNCHED_ENDED ||
            base_universe_is_own(universe, i) || (i >= first && i < end))
            continue;
        if (!find_owned(universe->table_fd, i, 1, &first, &end)) {
            first = end = 0;
            atomic_compare_exchange_strong(&table->states[i], &state, BASE_LAUNCHED_FAILED);
        }
    }
}

bool base_universe_has_lost(const struct base_universe *universe, int number)
{
    struct base_launched_table *table = universe->table;

    return !base_universe_is_own(universe, number) &&
           atomic_load(&table->states[number]) == BASE_LAUNCHED_FAILED &&
           atomic_load(&table->states[table->max + (uint32_t)number]);
}
