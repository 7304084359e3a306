/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: POSIX file locks exclude ranks from each other and from other processes, by ranges; all descriptors
 * of a rank share them, and closing one of these ends them; a rank that waits for a lock, for flock or for a
 * pipe lets the other rank run.
 */
#include "image_test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[200];

static int set(int fd, int cmd, short type, off_t start, off_t len)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

    return fcntl(fd, cmd, &range);
}

/* The answer to another process that requests the range. */
static int is_locked(short type, off_t start, off_t len)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        int fd = open(path, O_RDWR);

        _exit(set(fd, F_SETLK, type, start, len) == 0 ? 0 : errno == EAGAIN || errno == EACCES ? 1 : 2);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status);
}

/* A counter in a file that all ranks share, which is wrong if two of them are in between. */
static void check_exclusion(const char *shared)
{
    int fd = open(shared, O_RDWR | O_CREAT, 0600);

    CHECK(fd >= 0);
    for (int i = 0; i < 20; i++) {
        int count = 0;

        if (i % 3 == 2)
            CHECK(lockf(fd, F_LOCK, 0) == 0);
        else
            CHECK(set(fd, F_SETLKW, F_WRLCK, 0, 0) == 0);
        CHECK(pread(fd, &count, sizeof count, 0) >= 0);
        count++;
        let_others_run();
        CHECK(pwrite(fd, &count, sizeof count, 0) == sizeof count);
        if (i % 2)
            CHECK(set(fd, F_SETLK, F_UNLCK, 0, 0) == 0);
        else
            CHECK(lockf(fd, F_ULOCK, 0) == 0);
    }
    CHECK(close(fd) == 0);
}

static void check_ranges(void)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), other, reader;
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    FILE *file;
    pid_t pid;

    other = open(path, O_RDWR);
    reader = open(path, O_RDONLY);
    CHECK(fd >= 0 && other >= 0 && reader >= 0);
    CHECK(set(fd, F_SETLK, F_WRLCK, 0, 10) == 0 && set(fd, F_SETLK, F_RDLCK, 20, 10) == 0);
    CHECK(set(other, F_SETLK, F_WRLCK, 5, 5) == 0); /* the same rank's */
    CHECK(fcntl(other, F_GETLK, &range) == 0 && range.l_type == F_UNLCK);
    CHECK(set(reader, F_SETLK, F_WRLCK, 50, 1) == -1 && errno == EBADF);
    CHECK(is_locked(F_RDLCK, 0, 1) && is_locked(F_WRLCK, 25, 1) && !is_locked(F_RDLCK, 25, 1));
    CHECK(!is_locked(F_WRLCK, 10, 10));
    CHECK(set(other, F_SETLK, F_UNLCK, 3, 2) == 0 && !is_locked(F_WRLCK, 3, 2) && is_locked(F_WRLCK, 5, 1));

    CHECK(lseek(fd, 100, SEEK_SET) == 100 && lockf(fd, F_TLOCK, 10) == 0);
    CHECK(is_locked(F_WRLCK, 109, 1) && !is_locked(F_WRLCK, 110, 1) && lockf(fd, F_TEST, 10) == 0);
    pid = vfork();
    if (pid == 0) { /* it shares the rank's memory, but not its descriptors */
        close(reader);
        _exit(0);
    }
    CHECK(waitpid(pid, NULL, 0) == pid && is_locked(F_WRLCK, 109, 1));
    CHECK(close(reader) == 0); /* any descriptor of the file */
    CHECK(!is_locked(F_WRLCK, 0, 0));

    CHECK(set(fd, F_SETLK, F_WRLCK, 0, 0) == 0 && is_locked(F_RDLCK, 1000, 1));
    file = fopen(path, "r");
    CHECK(file && fclose(file) == 0 && !is_locked(F_RDLCK, 1000, 1));
    CHECK(set(fd, F_SETLK, F_WRLCK, 0, 0) == 0 && dup2(0, other) == other && !is_locked(F_RDLCK, 0, 0));
    CHECK(set(fd, F_SETLK, F_WRLCK, 0, 0) == 0); /* ends with the rank */
    close(other);
}

static void check_flock(const char *shared)
{
    int fd = open(shared, O_RDWR | O_CREAT, 0600);

    for (int i = 0; i < 5; i++) {
        CHECK(flock(fd, LOCK_EX) == 0);
        let_others_run();
        CHECK(flock(fd, LOCK_UN) == 0);
    }
    close(fd);
}

int main(int argc, char **argv)
{
    char shared[200], counter[200];
    int ranks = atoi(argv[2]), count = 0, fd;

    snprintf(path, sizeof path, "%s.%d.%x", argv[1], (int)getpid(), test_id());
    snprintf(shared, sizeof shared, "%s.%d.shared", argv[1], (int)getpid());
    snprintf(counter, sizeof counter, "%s.%d.done", argv[1], (int)getpid());
    check_exclusion(shared);
    check_ranges();
    check_flock(shared);
    unlink(path);

    fd = open(counter, O_RDWR | O_CREAT | O_APPEND, 0600);
    CHECK(fd >= 0 && write(fd, "1", 1) == 1);
    if (lseek(fd, 0, SEEK_END) == ranks) { /* the last one */
        close(fd);
        fd = open(shared, O_RDWR);
        CHECK(pread(fd, &count, sizeof count, 0) == sizeof count && count == 20 * ranks);
        unlink(shared);
        unlink(counter);
    }
    close(fd);
    puts("ok");
    return 0;
}
