/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: ranks do not wait for each other's file locks for ever: the rank whose wait closes the circle gets
 * EDEADLK and releases its lock, and the others get theirs. Ranks outside the circle keep waiting.
 */
#include "image_test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fd, together;

static int set(int cmd, short type, off_t start, off_t len)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

    return fcntl(fd, cmd, &range);
}

/* getpid is the rank's own number. */
static int process(void)
{
    return (int)syscall(SYS_getpid);
}

/* All ranks are here. */
static void meet(int ranks)
{
    static int n_meetings;

    n_meetings++;
    CHECK(write(together, "x", 1) == 1);
    while (lseek(together, 0, SEEK_END) < (off_t)n_meetings * ranks)
        let_others_run();
}

/* Each rank writes a letter into the file of results; how many are there when all have done so. */
static int count(const char *results, char letter, char wanted, int ranks)
{
    int file = open(results, O_RDWR | O_CREAT | O_APPEND, 0600), n = 0;
    char text[64] = "";

    CHECK(file >= 0 && write(file, &letter, 1) == 1);
    meet(ranks);
    CHECK(pread(file, text, sizeof text, 0) == ranks);
    for (int i = 0; i < ranks; i++)
        n += text[i] == wanted;
    close(file);
    meet(ranks);
    unlink(results);
    meet(ranks);
    return n;
}

/* The caller's wait ends with its lock, or because it cannot have it. */
static char wait_for(short type, off_t start, off_t len)
{
    int result = set(F_SETLKW, type, start, len);

    CHECK(result == 0 || errno == EDEADLK);
    CHECK(set(F_SETLK, F_UNLCK, 0, 0) == 0);
    return result == 0 ? 'l' : 'd';
}

int main(int argc, char **argv)
{
    char path[200], results[220];
    int ranks = atoi(argv[2]), me;
    char letter;

    (void)argc;
    snprintf(path, sizeof path, "%s.%d.together", argv[1], process());
    together = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
    snprintf(path, sizeof path, "%s.%d", argv[1], process());
    snprintf(results, sizeof results, "%s.%d.results", argv[1], process());
    fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(together >= 0 && fd >= 0);
    for (me = 0; me < ranks && set(F_SETLK, F_WRLCK, me, 1) != 0; me++) /* the first byte that is free */
        ;
    CHECK(me < ranks);
    meet(ranks);

    /* A circle of all ranks; a lock of many bytes meets the same ones. */
    letter = wait_for(F_WRLCK, (me + 1) % ranks, 1);
    CHECK(count(results, letter, 'd', ranks) == 1);
    CHECK(set(F_SETLKW, F_RDLCK, 100, 10) == 0);
    meet(ranks);
    letter = wait_for(F_WRLCK, 90, 0); /* all want what all share: it goes to the one that asked first */
    CHECK(count(results, letter, 'l', ranks) == 1);

    /* A chain: the first has its lock and ends. */
    CHECK(set(F_SETLK, F_WRLCK, 200 + me, 1) == 0);
    meet(ranks);
    letter = me == 0 ? 'l' : wait_for(F_WRLCK, 200 + me - 1, 1);
    CHECK(set(F_SETLK, F_UNLCK, 0, 0) == 0);
    CHECK(count(results, letter, 'l', ranks) == ranks);

    /* Others' locks of the same rank, and what the holder no longer has, are no circle. */
    CHECK(set(F_SETLK, F_WRLCK, 300 + me, 1) == 0 && set(F_SETLKW, F_UNLCK, 300 + me, 1) == 0);
    meet(ranks);
    for (int i = 0; i < 10; i++)
        CHECK(wait_for(F_WRLCK, 300, 50) == 'l');
    meet(ranks);

    close(fd);
    close(together);
    if (me == 0) {
        unlink(path);
        snprintf(path, sizeof path, "%s.%d.together", argv[1], process());
        unlink(path);
    }
    puts("ok");
    return 0;
}
