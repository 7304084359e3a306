/* SPDX-License-Identifier: BSD-3-Clause */
/* A manager that spawns and disconnects workers for a long time: the memory mappings of its process do not grow, whatever
 * most workers leave behind. What a worker leaves in use stays valid: its stream's buffer, its thread's code, its robust
 * mutex, messages that the parent receives after its end. Groups of ended workers stay different; a worker's own workers
 * outlive it. */
#define _GNU_SOURCE
#include "mtest.h"
#include "robust.h"

#include <pthread.h>
#include <unistd.h>

enum { FEW = 60, MANY = 260, SLACK = 12, N_LARGE = 100000 };

static char stream_buffer[BUFSIZ];
static int large[N_LARGE];

static int count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    int n = 0, c;

    while (file && (c = getc(file)) != EOF)
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

static void at_exit(void)
{
    large[0] = 1;
}

/* Ends when the process does. */
static void *run_thread(void *arg)
{
    for (;;) {
        large[1]++;
        usleep(1000);
    }
    return arg;
}

static void leave_message(MPI_Comm parent)
{
    MPI_Request request;

    large[N_LARGE - 1] = 7;
    MTEST_OK(MPI_Send(&large[N_LARGE - 1], 1, MPI_INT, 0, 1, parent));
    MTEST_OK(MPI_Isend(large, N_LARGE, MPI_INT, 0, 2, parent, &request));
    MTEST_OK(MPI_Request_free(&request));
}

static int be_child(MPI_Comm parent, const char *mode, const char *program)
{
    char *args[] = {(char *)"grandchild", NULL};
    pthread_t thread;
    MPI_Comm inter;

    atexit(at_exit);
    if (strcmp(mode, "buffer") == 0) {
        FILE *file = fdopen(dup(STDERR_FILENO), "w");
        setvbuf(file, stream_buffer, _IOFBF, sizeof stream_buffer);
        fputc(' ', file);
    }
    if (strcmp(mode, "thread") == 0 && pthread_create(&thread, NULL, run_thread, NULL) == 0)
        pthread_detach(thread);
    if (strcmp(mode, "robust") == 0)
        lock_robust();
    if (strcmp(mode, "message") == 0)
        leave_message(parent);
    if (strcmp(mode, "spawn") == 0)
        MTEST_OK(
            MPI_Comm_spawn(program, args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE));
    if (strcmp(mode, "spawn") == 0)
        MTEST_OK(MPI_Comm_disconnect(&inter));
    MTEST_OK(strcmp(mode, "message") == 0 ? MPI_Comm_free(&parent) : MPI_Comm_disconnect(&parent));
    MPI_Finalize();
    return 0;
}

static MPI_Comm spawn(const char *program, const char *mode)
{
    char *args[] = {(char *)mode, NULL};
    MPI_Comm inter = MPI_COMM_NULL;

    MTEST_OK(MPI_Comm_spawn(program, args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE));
    return inter;
}

static void spawn_more(const char *program, int n)
{
    static const char *const modes[] = {"plain", "plain", "plain", "spawn"};

    for (int i = 0; i < n; i++) {
        MPI_Comm inter = spawn(program, modes[i % 4]);
        MTEST_OK(MPI_Comm_disconnect(&inter));
    }
}

/* The messages of a worker that has ended, after others have been spawned. With "late" the first one has another type:
 * +check usage knows the call that sent it. */
static void receive_late(const char *program, MPI_Datatype type)
{
    MPI_Comm inter = spawn(program, "message");
    int value = 0;

    spawn_more(program, 8);
    MTEST_OK(MPI_Recv(&value, 1, type, 0, 1, inter, MPI_STATUS_IGNORE));
    MTEST_CHECK(value == 7, "small message: %d", value);
    MTEST_OK(MPI_Recv(large, N_LARGE, MPI_INT, 0, 2, inter, MPI_STATUS_IGNORE));
    MTEST_CHECK(large[N_LARGE - 1] == 7, "large message: %d", large[N_LARGE - 1]);
    MTEST_OK(MPI_Comm_free(&inter));
}

static void compare_groups(const char *program)
{
    MPI_Group groups[2];
    int result;

    for (int i = 0; i < 2; i++) {
        MPI_Comm inter = spawn(program, "plain");
        MTEST_OK(MPI_Comm_remote_group(inter, &groups[i]));
        MTEST_OK(MPI_Comm_disconnect(&inter));
    }
    MTEST_OK(MPI_Group_compare(groups[0], groups[1], &result));
    MTEST_CHECK(result == MPI_UNEQUAL, "groups of two ended workers: %d", result);
    MTEST_OK(MPI_Group_free(&groups[0]));
    MTEST_OK(MPI_Group_free(&groups[1]));
}

/* A report does not name the numbers of ended workers that no rank has any more. */
static void report(char *program)
{
    static const int counts[] = {40, 4, 1, 1};
    MPI_Comm inter;
    int in;

    for (int i = 0; i < 4; i++) {
        MTEST_OK(MPI_Comm_spawn(program, MPI_ARGV_NULL, counts[i], MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter,
                                MPI_ERRCODES_IGNORE));
        MTEST_OK(MPI_Comm_disconnect(&inter));
    }
    MPI_Recv(&in, 1, MPI_INT, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "plain";
    int n_few, n_many;
    MPI_Comm parent, inter;

    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        return be_child(parent, mode, argv[0]);
    if (strcmp(mode, "report") == 0)
        report(argv[0]);
    spawn_more(argv[0], FEW);
    inter = spawn(argv[0], "buffer");
    MTEST_OK(MPI_Comm_disconnect(&inter));
    inter = spawn(argv[0], "thread");
    MTEST_OK(MPI_Comm_disconnect(&inter));
    inter = spawn(argv[0], "robust");
    MTEST_OK(MPI_Comm_disconnect(&inter));
    receive_late(argv[0], strcmp(mode, "late") == 0 ? MPI_FLOAT : MPI_INT);
    lock_robust();
    n_few = count_mappings();
    spawn_more(argv[0], MANY - FEW);
    pthread_mutex_unlock(&robust);
    n_many = count_mappings();
    MTEST_CHECK(n_many <= n_few + SLACK, "%d mappings after %d workers, %d after %d", n_few, FEW, n_many,
                MANY);
    compare_groups(argv[0]);
    if (strcmp(mode, "deadlock") == 0)
        MPI_Recv(&n_few, 1, MPI_INT, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    return mtest_end();
}
