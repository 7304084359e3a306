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

static pthread_mutex_t listing_lock =
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

/* ---- Users and groups ---- */

struct passwd *image_libc_getpwnam(const char *name)
{
    struct record *record = record_of(PWNAM);
    struct passwd *found = NULL;

    if (!record)
        return getpwnam(name);
    while (getpwnam_r(name, &record->value.passwd, record->bytes, record->n_bytes, &found) == ERANGE &&
           grow(record))
        ;
    return found;
}

struct passwd *image_libc_getpwuid(uid_t uid)
{
    struct record *record = record_of(PWUID);
    struct passwd *found = NULL;

    if (!record)
        return getpwuid(uid);
    while (getpwuid_r(uid, &record->value.passwd, record->bytes, record->n_bytes, &found) == ERANGE &&
           grow(record))
        ;
    return found;
}

struct group *image_libc_getgrnam(const char *name)
{
    struct record *record = record_of(GRNAM);
    struct group *found = NULL;

    if (!record)
        return getgrnam(name);
    while (getgrnam_r(name, &record->value.group, record->bytes, record->n_bytes, &found) == ERANGE &&
           grow(record))
        ;
    return found;
}

struct group *image_libc_getgrgid(gid_t gid)
{
    struct record *record = record_of(GRGID);
    struct group *found = NULL;

    if (!record)
        return getgrgid(gid);
    while (getgrgid_r(gid, &record->value.group, record->bytes, record->n_bytes, &found) == ERANGE &&
           grow(record))
        ;
    return found;
}

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

/* With listing_lock held, at the start of the database. */
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

/* The next entry of the list; NULL: the end. */
static struct record *next_of(struct listing *listing)
{
    return listing->next < listing->count ? &listing->records[listing->next++] : NULL;
}

struct passwd *image_libc_getpwent(void)
{
    struct image_databases *databases = current();
    struct record *record;

    if (!databases)
        return getpwent();
    if (!databases->users.is_read) {
        pthread_mutex_lock(&listing_lock);
        setpwent();
        read_all(&databases->users, read_user);
        endpwent();
        pthread_mutex_unlock(&listing_lock);
        databases->users.is_read = true;
    }
    record = next_of(&databases->users);
    return record ? &record->value.passwd : NULL;
}

void image_libc_setpwent(void)
{
    struct image_databases *databases = current();

    if (databases)
        clear(&databases->users);
    else
        setpwent();
}

void image_libc_endpwent(void)
{
    struct image_databases *databases = current();

    if (databases)
        clear(&databases->users);
    else
        endpwent();
}

struct group *image_libc_getgrent(void)
{
    struct image_databases *databases = current();
    struct record *record;

    if (!databases)
        return getgrent();
    if (!databases->groups.is_read) {
        pthread_mutex_lock(&listing_lock);
        setgrent();
        read_all(&databases->groups, read_group);
        endgrent();
        pthread_mutex_unlock(&listing_lock);
        databases->groups.is_read = true;
    }
    record = next_of(&databases->groups);
    return record ? &record->value.group : NULL;
}

void image_libc_setgrent(void)
{
    struct image_databases *databases = current();

    if (databases)
        clear(&databases->groups);
    else
        setgrent();
}

void image_libc_endgrent(void)
{
    struct image_databases *databases = current();

    if (databases)
        clear(&databases->groups);
    else
        endgrent();
}

/* ---- Hosts, services, protocols ---- */

struct hostent *image_libc_gethostbyname(const char *name)
{
    struct record *record = record_of(HOSTNAME);
    struct hostent *found = NULL;

    if (!record)
        return gethostbyname(name);
    while (gethostbyname_r(name, &record->value.host, record->bytes, record->n_bytes, &found, &h_errno) ==
               ERANGE &&
           grow(record))
        ;
    return found;
}

struct hostent *image_libc_gethostbyname2(const char *name, int family)
{
    struct record *record = record_of(HOSTNAME2);
    struct hostent *found = NULL;

    if (!record)
        return gethostbyname2(name, family);
    while (gethostbyname2_r(name, family, &record->value.host, record->bytes, record->n_bytes, &found,
                            &h_errno) == ERANGE &&
           grow(record))
        ;
    return found;
}

struct hostent *image_libc_gethostbyaddr(const void *addr, socklen_t addr_bytes, int family)
{
    struct record *record = record_of(HOSTADDR);
    struct hostent *found = NULL;

    if (!record)
        return gethostbyaddr(addr, addr_bytes, family);
    while (gethostbyaddr_r(addr, addr_bytes, family, &record->value.host, record->bytes, record->n_bytes,
                           &found, &h_errno) == ERANGE &&
           grow(record))
        ;
    return found;
}

struct servent *image_libc_getservbyname(const char *name, const char *protocol)
{
    struct record *record = record_of(SERVNAME);
    struct servent *found = NULL;

    if (!record)
        return getservbyname(name, protocol);
    while (getservbyname_r(name, protocol, &record->value.service, record->bytes, record->n_bytes, &found) ==
               ERANGE &&
           grow(record))
        ;
    return found;
}

struct servent *image_libc_getservbyport(int port, const char *protocol)
{
    struct record *record = record_of(SERVPORT);
    struct servent *found = NULL;

    if (!record)
        return getservbyport(port, protocol);
    while (getservbyport_r(port, protocol, &record->value.service, record->bytes, record->n_bytes, &found) ==
               ERANGE &&
           grow(record))
        ;
    return found;
}

struct protoent *image_libc_getprotobyname(const char *name)
{
    struct record *record = record_of(PROTONAME);
    struct protoent *found = NULL;

    if (!record)
        return getprotobyname(name);
    while (getprotobyname_r(name, &record->value.protocol, record->bytes, record->n_bytes, &found) ==
               ERANGE &&
           grow(record))
        ;
    return found;
}

struct protoent *image_libc_getprotobynumber(int number)
{
    struct record *record = record_of(PROTONUMBER);
    struct protoent *found = NULL;

    if (!record)
        return getprotobynumber(number);
    while (getprotobynumber_r(number, &record->value.protocol, record->bytes, record->n_bytes, &found) ==
               ERANGE &&
           grow(record))
        ;
    return found;
}

/* ---- Mounts ---- */

/* getmntent_r cuts a longer line, as getmntent does. */
#define MOUNT_BYTES 4096

struct mntent *image_libc_getmntent(FILE *stream)
{
    struct record *record = record_of(MOUNT);

    while (record && record->n_bytes < MOUNT_BYTES)
        if (!grow(record))
            return NULL;
    return record ? getmntent_r(stream, &record->value.mount, record->bytes, MOUNT_BYTES) : getmntent(stream);
}
