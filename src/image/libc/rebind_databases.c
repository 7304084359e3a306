/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_databases.c: users, groups, hosts, services, protocols and mounts, whose functions return pointers into static
 * storage of libc. Here each rank has its own storage, one record for each function, as in libc.
 *
 * getpwent and getgrent have a position, too. The C library has one per process, so a rank reads the whole database under a
 * lock at its first call, and continues in its own list.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <grp.h>
#include <mntent.h>
#include <netdb.h>
#include <pwd.h>

#define FIRST_BYTES 1024
#define ENTRY_BYTES 256 /* first size for an entry of a list */

/* A result, with the texts that it refers to. */
struct record {
    union {
        struct passwd passwd;
        struct group group;
        struct hostent host;
        struct servent service;
        struct protoent protocol;
        struct mntent mount;
    } value;
    char *bytes; /* malloc'ed; NULL: unused so far */
    size_t n_bytes;
};

enum {
    PWNAM,
    PWUID,
    GRNAM,
    GRGID,
    HOSTNAME,
    HOSTNAME2,
    HOSTADDR,
    SERVNAME,
    SERVPORT,
    PROTONAME,
    PROTONUMBER,
    MOUNT,
    RECORDS
};

/* The entries of a database in its order. */
struct listing {
    struct record *records; /* malloc'ed */
    size_t count;
    size_t next; /* of the next call */
    bool is_read;
};

struct image_databases {
    struct record records[RECORDS]; /* of the functions */
    struct listing users;           /* of getpwent */
    struct listing groups;          /* of getgrent */
};

pthread_mutex_t image_listing_lock =
    PTHREAD_MUTEX_INITIALIZER; /* libc's position is a rank's while it reads */

static void clear(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->records[i].bytes);
    free(listing->records);
    *listing = (struct listing){0};
}

void image_databases_destroy(struct image_databases *databases)
{
    if (!databases)
        return;
    for (int i = 0; i < RECORDS; i++)
        free(databases->records[i].bytes);
    clear(&databases->users);
    clear(&databases->groups);
    free(databases);
}

/* NULL on a thread of no rank. */
static struct image_databases *current(void)
{
    struct image_libc *libc = image_libc_current();
    struct image_databases *made, *none = NULL;

    if (!libc || libc->databases)
        return libc ? libc->databases : NULL;
    made = base_calloc(1, sizeof *made, "a rank's records of users and hosts");
    if (atomic_compare_exchange_strong(&libc->databases, &none, made))
        return made;
    free(made); /* another thread of the rank was faster */
    return none;
}

/* Doubles the room for texts. False: memory is exhausted. */
static bool grow(struct record *record)
{
    size_t n_bytes = record->n_bytes ? 2 * record->n_bytes : FIRST_BYTES;
    char *bytes = realloc(record->bytes, n_bytes);

    if (!bytes)
        return false;
    record->bytes = bytes;
    record->n_bytes = n_bytes;
    return true;
}

/* The rank's record of a function; NULL: the caller belongs to no rank, or memory is exhausted. */
static struct record *record_of(int function)
{
    struct image_databases *databases = current();
    struct record *record = databases ? &databases->records[function] : NULL;

    return record && (record->bytes || grow(record)) ? record : NULL;
}

/* Defines the replacement of a function that returns such a record, by means of its form with the suffix _r. `parameters` and
 * `arguments` are in parentheses; behind `arguments` is what that form takes last. */
#define ALL_OF(...) __VA_ARGS__
#define FINDS(function, record_type, member, number, parameters, arguments, ...)                             \
    static struct record_type *image_libc_##function parameters                                              \
    {                                                                                                        \
        struct record *record = record_of(number);                                                           \
        struct record_type *found = NULL;                                                                    \
                                                                                                             \
        if (!record)                                                                                         \
            return function arguments;                                                                       \
        while (function##_r(ALL_OF arguments, &record->value.member, record->bytes, record->n_bytes, &found, \
                            ##__VA_ARGS__) == ERANGE &&                                                      \
               grow(record))                                                                                 \
            ;                                                                                                \
        return found;                                                                                        \
    }                                                                                                        \
    IMAGE_REBINDS(image_libc_##function, #function)

FINDS(getpwnam, passwd, passwd, PWNAM, (const char *name), (name));
FINDS(getpwuid, passwd, passwd, PWUID, (uid_t uid), (uid));
FINDS(getgrnam, group, group, GRNAM, (const char *name), (name));
FINDS(getgrgid, group, group, GRGID, (gid_t gid), (gid));
FINDS(gethostbyname, hostent, host, HOSTNAME, (const char *name), (name), &h_errno);
FINDS(gethostbyname2, hostent, host, HOSTNAME2, (const char *name, int family), (name, family), &h_errno);
FINDS(gethostbyaddr, hostent, host, HOSTADDR, (const void *addr, socklen_t addr_bytes, int family),
      (addr, addr_bytes, family), &h_errno);
FINDS(getservbyname, servent, service, SERVNAME, (const char *name, const char *protocol), (name, protocol));
FINDS(getservbyport, servent, service, SERVPORT, (int port, const char *protocol), (port, protocol));
FINDS(getprotobyname, protoent, protocol, PROTONAME, (const char *name), (name));
FINDS(getprotobynumber, protoent, protocol, PROTONUMBER, (int number), (number));

/* ---- All users and groups ---- */

/* Reads the next entry, as getpwent_r; 0: the record has it. */
typedef int (*read_fn)(struct record *record);

static int read_user(struct record *record)
{
    struct passwd *found;

    return getpwent_r(&record->value.passwd, record->bytes, record->n_bytes, &found);
}

static int read_group(struct record *record)
{
    struct group *found;

    return getgrent_r(&record->value.group, record->bytes, record->n_bytes, &found);
}

/* With image_listing_lock held, at the start of the database. */
static void read_all(struct listing *listing, read_fn read_next)
{
    int error = 0;

    while (!error) {
        struct record record = {.n_bytes = ENTRY_BYTES / 2};

        while (grow(&record) && (error = read_next(&record)) == ERANGE)
            ;
        if (error || !record.bytes) {
            free(record.bytes);
            return;
        }
        image_array_push(&listing->records, &listing->count, sizeof record, &record);
    }
}

/* The next entry of the list, which is read first if necessary; NULL: the end. */
static void *next_of(struct listing *listing, void (*begin)(void), read_fn read_next, void (*end)(void))
{
    if (!listing->is_read) {
        pthread_mutex_lock(&image_listing_lock);
        begin();
        read_all(listing, read_next);
        end();
        pthread_mutex_unlock(&image_listing_lock);
        listing->is_read = true;
    }
    return listing->next < listing->count ? &listing->records[listing->next++].value : NULL;
}

static struct passwd *image_libc_getpwent(void)
{
    struct image_databases *databases = current();

    return databases ? next_of(&databases->users, setpwent, read_user, endpwent) : getpwent();
}
IMAGE_REBINDS(image_libc_getpwent, "getpwent");

static struct group *image_libc_getgrent(void)
{
    struct image_databases *databases = current();

    return databases ? next_of(&databases->groups, setgrent, read_group, endgrent) : getgrent();
}
IMAGE_REBINDS(image_libc_getgrent, "getgrent");

#define RESTARTS(function, listing)                    \
    static void image_libc_##function(void)            \
    {                                                  \
        struct image_databases *databases = current(); \
                                                       \
        if (databases)                                 \
            clear(&databases->listing);                \
        else                                           \
            function();                                \
    }                                                  \
    IMAGE_REBINDS(image_libc_##function, #function)

RESTARTS(setpwent, users);
RESTARTS(endpwent, users);
RESTARTS(setgrent, groups);
RESTARTS(endgrent, groups);

/* ---- Mounts ---- */

/* getmntent_r cuts a longer line, as getmntent does. */
#define MOUNT_BYTES 4096

static struct mntent *image_libc_getmntent(FILE *stream)
{
    struct record *record = record_of(MOUNT);

    while (record && record->n_bytes < MOUNT_BYTES)
        if (!grow(record))
            return NULL;
    return record ? getmntent_r(stream, &record->value.mount, record->bytes, MOUNT_BYTES) : getmntent(stream);
}
IMAGE_REBINDS(image_libc_getmntent, "getmntent");
