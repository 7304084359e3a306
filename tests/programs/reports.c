/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For reports_test.sh. With "leak" some ranks never free one handle of each kind, and receive only some messages; with "clean"
 * all are freed, some after MPI_Finalize; with "session" a session stays open. With "polls" rank 0 tests and probes until a file
 * exists, and the others wait for it, or poll, too ("polls all"); with "lasts" rank 0 tests for a message of the last rank, which first probes, and computes for some seconds; with "computes" it does so without calls of MPI; with "opens" it waits for a writer of a pipe; with "runs" for a
 * program that it runs; with "sleeps" it raises SIGQUIT when rank 1's sleep is over, but its PE has not seen that; with "handles" it has a handler of SIGQUIT,
 * too; with "twice" it raises it before and after rank 2 enters a barrier. Other words are names of deadlocks. The test knows the lines of the calls by the words in comments behind them.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int rank, size, data[40000];
static MPI_Comm copy;

static void combine(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)n, (void)type;
}

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
}

/* Even ranks keep all of them, odd ones only communicators and the window. */
static void make_objects(int is_clean)
{
    MPI_Comm later;
    MPI_Group group;
    MPI_Datatype type, contents[1];
    MPI_Op op;
    MPI_Win win;
    MPI_File file;
    MPI_Request request, persistent, two[2];
    MPI_Errhandler handler, same;
    int keyval, ints[3], flag;
    MPI_Aint addresses[1];

    MPI_Comm_idup(copy, &later, &request); /* idup */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_group(copy, &group);
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    MPI_Type_get_contents(type, 3, 1, 1, ints, addresses, contents);
    MPI_Op_create(combine, 1, &op);
    MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, copy, &win);
    MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(copy, handler);
    MPI_Comm_get_errhandler(copy, &same);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Recv_init(data, 1, MPI_INT, MPI_PROC_NULL, 0, copy, &persistent);
    MPI_Irecv(data, 1, MPI_INT, rank, 5, copy, &two[0]);
    MPI_Isend(data + 1, 1, MPI_INT, rank, 5, copy, &two[1]);
    MPI_Testall(2, two, &flag, MPI_STATUSES_IGNORE);
    MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
    if (!is_clean && rank % 2 == 0)
        return;
    MPI_Request_free(&persistent);
    MPI_Comm_free_keyval(&keyval);
    MPI_Errhandler_free(&same);
    MPI_Errhandler_free(&handler);
    MPI_File_close(&file);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Group_free(&group);
    if (!is_clean)
        return;
    MPI_Win_free(&win);
    MPI_Comm_free(&later);
    MPI_Comm_free(&copy);
}

static void leave_messages(void)
{
    MPI_Request request;
    MPI_Message message;

    for (int i = 0; i < 3; i++)
        MPI_Isend(data, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, &request); /* isend */
    MPI_Mprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Irecv(data + 1, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
}

/* Returns in some ranks only. */
static void block_in_window(const char *how)
{
    int other = 1 - rank, zero = 0;
    MPI_Group world, first;
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &zero, &first);
    if (strcmp(how, "locks") == 0 && rank < 2) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
        MPI_Sendrecv(&zero, 1, MPI_INT, other, 0, data, 1, MPI_INT, other, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win); /* lock */
        MPI_Win_unlock(other, win);
        MPI_Win_unlock(rank, win);
    } else if (strcmp(how, "post") == 0 && rank == 1) {
        MPI_Win_post(first, 0, win);
        MPI_Win_wait(win); /* wait */
    }
    MPI_Win_free(&win);
}

/* Returns in some ranks only. */
static void block_elsewhere(const char *how)
{
    int value = 0, two[] = {0, 1};
    MPI_Group world, both;
    MPI_Comm half;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, two, &both);
    if (strcmp(how, "subset") == 0)
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, rank ? MPI_COMM_WORLD : half); /* subset */
    if (strcmp(how, "group") == 0 && rank == 0)
        MPI_Comm_create_group(MPI_COMM_WORLD, both, 5, &half); /* group */
    if (strcmp(how, "source") == 0 && rank == 0)
        MPI_Recv(&value, 1, MPI_INT, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* source */
    if (strcmp(how, "source") == 0 && rank == 1)
        MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
}

/* Returns in rank 1 only. */
static void block_between_groups(void)
{
    MPI_Comm half, inter;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &inter);
    if (rank != 1)
        MPI_Barrier(inter); /* groups */
}

/* The same. */
static void block_in_access(void)
{
    MPI_File file;
    MPI_Request request;

    MPI_File_open(MPI_COMM_WORLD, "written", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (rank == 0)
        MPI_File_write_at_all(file, rank, data, 1, MPI_BYTE, MPI_STATUS_IGNORE); /* access */
    if (rank > 1)
        MPI_File_iwrite_at_all(file, rank, data, 1, MPI_BYTE, &request);
    if (rank > 1)
        MPI_Wait(&request, MPI_STATUS_IGNORE); /* await */
}

/* Blocks all ranks. Rank 1 does not enter what the others wait for: the second start of a persistent collective, a collective of a
 * communicator that it has freed, an access of a file before that is closed, or a second collective while another one is pending. */
static void block_beside(const char *how)
{
    int value = 0, sum;
    MPI_Request request, other;
    MPI_File file;

    MPI_Barrier_init(copy, MPI_INFO_NULL, &other);
    MPI_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, copy, MPI_INFO_NULL, &request);
    for (int i = 0; i < 2 && strcmp(how, "persistent") == 0; i++) {
        MPI_Start(i == 1 && rank == 1 ? &other : &request);
        MPI_Wait(i == 1 && rank == 1 ? &other : &request, MPI_STATUS_IGNORE); /* persistent */
    }
    if (strcmp(how, "freed") == 0 && rank == 1)
        MPI_Comm_free(&copy);
    else if (strcmp(how, "freed") == 0)
        MPI_Bcast(&value, 1, MPI_INT, 1, copy); /* freed */
    if (strcmp(how, "close") == 0) {
        MPI_File_open(MPI_COMM_WORLD, "closed", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        if (rank != 1)
            MPI_File_iwrite_at_all(file, rank, data, 1, MPI_BYTE, &request);
        MPI_File_close(&file); /* close */
    }
    if (strcmp(how, "pending") == 0) {
        if (rank != 1)
            MPI_Ibarrier(MPI_COMM_WORLD, &request);
        if (rank != 2)
            MPI_Barrier(copy); /* pending */
    }
}

/* Rank 0 of both worlds; with "spawned group" that of the spawned one. */
static void block_in_spawned(char **argv)
{
    int value, is_group = argv[2] && strcmp(argv[2], "group") == 0;
    MPI_Comm other, made;
    MPI_Group world;

    MPI_Comm_get_parent(&other);
    if (other == MPI_COMM_NULL)
        MPI_Comm_spawn(argv[0], argv + 1, 1 + is_group, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                       MPI_ERRCODES_IGNORE);
    else if (is_group && rank == 0 && MPI_Comm_group(MPI_COMM_WORLD, &world) == 0)
        MPI_Comm_create_group(MPI_COMM_WORLD, world, 5, &made);
    if (rank == 0 && !is_group)
        MPI_Recv(&value, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
    MPI_Barrier(other);
}

/* A ring in which a partition of each send never gets ready. */
static void block_in_partitions(void)
{
    static int out[8], in[8];
    MPI_Request requests[2];

    MPI_Psend_init(out, 4, 2, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 4, 2, MPI_INT, (rank + size - 1) % size, 5, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[1]);
    MPI_Startall(2, requests);
    MPI_Pready_range(0, 2, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); /* partitions */
}

/* Returns in some ranks only. */
static void block(const char *how)
{
    int value = 0, left = (rank + size - 1) % size;
    MPI_Comm half;

    if (strcmp(how, "partitions") == 0)
        block_in_partitions();
    if (strcmp(how, "groups") == 0)
        block_between_groups();
    if (strcmp(how, "access") == 0)
        block_in_access();
    if (strcmp(how, "persistent") == 0 || strcmp(how, "freed") == 0 || strcmp(how, "close") == 0 ||
        strcmp(how, "pending") == 0)
        block_beside(how);
    if (strcmp(how, "probes") == 0)
        MPI_Probe((rank + 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(how, "locks") == 0 || strcmp(how, "post") == 0)
        block_in_window(how);
    if (strcmp(how, "subset") == 0 || strcmp(how, "group") == 0 || strcmp(how, "source") == 0)
        block_elsewhere(how);
    if (strcmp(how, "ring") == 0)
        MPI_Recv(&value, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* ring */
    if (strcmp(how, "collective") == 0 && rank == 2)
        MPI_Probe(0, 3, copy, MPI_STATUS_IGNORE);
    else if (strcmp(how, "collective") == 0)
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, copy); /* allreduce */
    if (strcmp(how, "tag") == 0 && rank > 0)
        MPI_Send(&value, 1, MPI_INT, 0, rank + 1, MPI_COMM_WORLD);
    else if (strcmp(how, "tag") == 0)
        MPI_Recv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(how, "comm") == 0 && rank > 0)
        MPI_Send(data, 40000, MPI_INT, 0, 1, copy);
    else if (strcmp(how, "comm") == 0)
        MPI_Recv(data, 40000, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(how, "half") == 0) {
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
        MPI_Comm_set_name(half, "half");
        MPI_Recv(&value, 1, MPI_INT, (rank / 2 + 1) % (size / 2), rank / 2, half, MPI_STATUS_IGNORE);
    }
}

static void handle_quit(int number)
{
    (void)number;
    write(1, "handled\n", 8);
}

/* Not with MPI_Recv. */
static void poll_for_message(int from)
{
    int flag = 0;

    while (!flag)
        MPI_Iprobe(from, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE); /* iprobe */
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The probes last longer than the time between two looks for a livelock, and less than its limit. */
static void last(void)
{
    double start = seconds();
    int flag;

    while (rank == size - 1 && seconds() < start + 4)
        if (seconds() < start + 0.7)
            MPI_Iprobe(0, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    if (rank == size - 1)
        MPI_Send(data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    if (rank == 0) {
        poll_for_message(size - 1);
        MPI_Recv(data, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Rank 0 goes on when the file exists, and the others then. */
static void poll_for_file(const char *how, const char *others)
{
    MPI_Request request;
    int flag;

    if (rank > 0 && others)
        poll_for_message(0);
    if (rank > 0)
        MPI_Recv(data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* receive */
    if (rank > 0)
        return;
    if (strcmp(how, "handles") == 0)
        signal(SIGQUIT, handle_quit);
    write(1, "started\n", 8);
    MPI_Irecv(data, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &request);
    while (access("go", F_OK) != 0)
        if (strcmp(how, "computes") != 0) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE); /* test */
            MPI_Iprobe(0, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
    MPI_Send(data, 1, MPI_INT, rank, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 1; i < size; i++)
        MPI_Send(data, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
}

/* The system call returns when the test opens the pipe, too; the function open would let other ranks run. */
static void open_pipe(void)
{
    if (rank > 0)
        return;
    mkfifo("go", 0600);
    write(1, "started\n", 8);
    close((int)syscall(SYS_openat, AT_FDCWD, "go", O_RDONLY));
}

/* The program ends well when the file exists. */
static void run_program(void)
{
    if (rank == 0 && system("echo started; until [ -e go ]; do sleep 0.1; done") != 0)
        puts("the program has not ended well");
    MPI_Bcast(data, 1, MPI_INT, 0, MPI_COMM_WORLD); /* bcast */
}

static void outlast_sleep(void)
{
    double begin;

    if (rank == 1) {
        MPI_Send(data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        usleep(1000);
    }
    if (rank == 0) {
        MPI_Recv(data, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        begin = MPI_Wtime();
        while (MPI_Wtime() < begin + 0.02)
            ;
        raise(SIGQUIT);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* With one PE: the ranks that have sent rank 0 a message are blocked when it runs again. */
static void quit_twice(void)
{
    int other = dup(2);

    if (rank == 2)
        MPI_Recv(data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank > 0)
        MPI_Send(data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    for (int i = 1; rank == 0 && i <= 2; i++) {
        MPI_Recv(data, 1, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        raise(SIGQUIT);
        usleep(1);
        if (i == 1)
            MPI_Send(data, 1, MPI_INT, 2, 1, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        close(2);
        errno = 0;
        if (raise(SIGQUIT) != 0 || errno != 0)
            puts("the handler changes errno");
        dup2(other, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Session session;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session); /* session */
    if (strcmp(how, "session") != 0)
        MPI_Session_finalize(&session);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy); /* dup */
    if (strcmp(how, "twice") == 0)
        quit_twice();
    if (strcmp(how, "clean") == 0 || strcmp(how, "leak") == 0)
        make_objects(strcmp(how, "clean") == 0);
    if (strcmp(how, "leak") == 0)
        leave_messages();
    if (strcmp(how, "polls") == 0 || strcmp(how, "computes") == 0 || strcmp(how, "handles") == 0)
        poll_for_file(how, argv[2]);
    else if (strcmp(how, "lasts") == 0)
        last();
    else if (strcmp(how, "opens") == 0)
        open_pipe();
    else if (strcmp(how, "runs") == 0)
        run_program();
    else if (strcmp(how, "sleeps") == 0)
        outlast_sleep();
    else if (strcmp(how, "spawned") == 0)
        block_in_spawned(argv);
    else
        block(how);
    MPI_Finalize();
    if (strcmp(how, "leak") != 0)
        MPI_Info_free(&info);
    return 0;
}
