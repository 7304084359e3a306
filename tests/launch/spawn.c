/* SPDX-License-Identifier: BSD-3-Clause */
/* Parent and child of spawn_test.sh: "spawn PROGRAM RANKS FOLDER ENDS" spawns, "spawn" and "end N" for children of which
 * rank 0 ends in the way that the argument says. The parents tolerate failures of children, unless it is "fatal" or "freed". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* All ranks of both sides: every side adds its ranks. */
static int talk(MPI_Comm inter, int is_child)
{
    MPI_Comm all;
    int sum, n;

    MPI_Intercomm_merge(inter, is_child, &all);
    MPI_Comm_size(all, &n);
    MPI_Comm_rank(all, &sum);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_free(&all);
    return sum == n * (n - 1) / 2 ? n : -1;
}

/* Calls a function that the file does not refer to: otherwise mpirun would put the job into a universe. */
static int use_name(const char *function, char *port)
{
    int (*call)(const char *, MPI_Info, char *);

    *(void **)&call = dlsym(RTLD_DEFAULT, function);
    return call ? call("late", MPI_INFO_NULL, port) : -1;
}

static void open_port(char *port)
{
    int (*call)(MPI_Info, char *);

    *(void **)&call = dlsym(RTLD_DEFAULT, "MPI_Open_port");
    call(MPI_INFO_NULL, port);
}

/* Connects to a port whose process has ended. */
static int connect_to(const char *port)
{
    int (*call)(const char *, MPI_Info, int, MPI_Comm, MPI_Comm *);
    MPI_Comm inter;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    *(void **)&call = dlsym(RTLD_DEFAULT, "MPI_Comm_connect");
    return call(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
}

/* Rank 0 of the parents is in MPI_Finalize, where it still answers, after it has been stopped for 3 s. */
static int ask_late(MPI_Comm parent)
{
    static char bytes[1 << 23], port[MPI_MAX_PORT_NAME] = "port", found[MPI_MAX_PORT_NAME];
    char command[64];
    int pid, is_cancelled, error;
    MPI_Request request;
    MPI_Status status;

    MPI_Recv(&pid, 1, MPI_INT, 0, 6, parent, MPI_STATUS_IGNORE);
    usleep(500000);
    snprintf(command, sizeof command, "kill -STOP %d; (sleep 3; kill -CONT %d) &", pid, pid);
    error = system(command);
    MPI_Isend(bytes, sizeof bytes, MPI_BYTE, 0, 9, parent, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &is_cancelled);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    error = error || use_name("MPI_Publish_name", port) || use_name("MPI_Lookup_name", found) ||
            use_name("MPI_Unpublish_name", port) || strcmp(found, port) != 0;
    printf("late: %s, %s\n", is_cancelled ? "cancelled" : "not cancelled", error ? "no name" : "a name");
    MPI_Finalize();
    return 0;
}

static int be_child(MPI_Comm parent, char **argv)
{
    char folder[PATH_MAX], port[MPI_MAX_PORT_NAME], *end = argv[1];
    int *number, has_number, n;

    if (rank == 0 && strcmp(end, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (rank == 0 && strcmp(end, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 9);
    if (strcmp(end, "late") == 0)
        return ask_late(parent);
    if (strcmp(end, "wait") == 0 || strcmp(end, "left") == 0)
        MPI_Recv(NULL, 0, MPI_INT, 0, 7, parent, MPI_STATUS_IGNORE);
    n = getpid();
    if (strcmp(end, "gone") == 0 || strcmp(end, "freed") == 0)
        MPI_Send(&n, 1, MPI_INT, 0, 6, parent);
    if (strcmp(end, "gone") == 0 && rank == 0) {
        open_port(port);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 6, parent);
    }
    n = talk(parent, 1);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &has_number);
    if (rank == 0)
        printf("child: %d ranks, %d in all, program %d, %s, %s in %s\n", size, n, *number, argv[1], argv[2],
               getcwd(folder, sizeof folder));
    fflush(stdout);
    if (strcmp(end, "freed") == 0)
        MPI_Comm_free(&parent);
    else
        MPI_Comm_disconnect(&parent);
    if (strcmp(end, "later") == 0)
        usleep(2500000); /* meanwhile the parents are found to be blocked */
    MPI_Finalize();
    return strcmp(end, "exit") == 0 ? 5 : 0;
}

/* Rank 0 of the parents, when the children have disconnected, or freed the communicator: their processes end while this one
 * goes on. It looks for messages, and so notices that their connections are closed. */
static void await_ends(int n_children, const int *pids)
{
    int is_there;

    for (int i = 0; i < n_children; i++)
        while (kill(pids[i], 0) == 0)
            usleep(1000);
    for (int i = 0; i < 10000; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
    printf("gone\n");
}

static void report(const char *what, int error)
{
    char text[MPI_MAX_ERROR_STRING];
    int n, class;

    MPI_Error_class(error, &class);
    MPI_Error_string(error, text, &n);
    if (rank == 0)
        printf("%s: %s %s\n", what,
               class == MPI_ERR_SPAWN          ? "MPI_ERR_SPAWN"
               : class == MPI_ERR_PROC_ABORTED ? "MPI_ERR_PROC_ABORTED"
                                               : "another class",
               text);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
    char port[MPI_MAX_PORT_NAME];
    int n, error, max[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return be_child(parent, argv);
    n = atoi(argv[2]);
    int is_freed = argc > 4 && strcmp(argv[4], "freed") == 0;
    if (argc < 5 || (strcmp(argv[4], "fatal") != 0 && !is_freed))
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD); /* all tolerate failures */
    char *args[] = {argc > 4 ? argv[4] : "well", "two words", NULL}, **argvs[] = {args, args};
    if (argc > 3 && argv[3][0]) {
        MPI_Info_create(&infos[0]);
        MPI_Info_set(infos[0], "wdir", argv[3]);
    }
    max[0] = n, max[1] = argc > 5 ? 1 : 0;
    char *commands[] = {argv[1], argc > 5 ? argv[5] : argv[1]};
    error = MPI_Comm_spawn_multiple(argc > 5 ? 2 : 1, commands, argvs, max, infos, size - 1, MPI_COMM_WORLD,
                                    &children, MPI_ERRCODES_IGNORE);
    if (error) {
        report("spawn", error);
    } else {
        if (!is_freed)
            MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
        if (argc > 4 && strcmp(argv[4], "wait") == 0)
            MPI_Recv(NULL, 0, MPI_INT, 0, 8, children, MPI_STATUS_IGNORE);
        if (argc > 4 && strcmp(argv[4], "kill") == 0) {
            error = MPI_Recv(NULL, 0, MPI_INT, 0, 8, children, MPI_STATUS_IGNORE);
            report("receive", error);
            MPI_Comm_free(&children);
        } else if (argc > 4 && strcmp(argv[4], "late") == 0) {
            int pid = getpid();
            if (rank == 0)
                MPI_Send(&pid, 1, MPI_INT, 0, 6, children);
        } else if (argc <= 4 || strcmp(argv[4], "left") != 0) {
            int is_gone = rank == 0 && argc > 4 && (is_freed || strcmp(argv[4], "gone") == 0), pids[8];
            for (int i = 0; is_gone && i < max[0]; i++)
                MPI_Recv(&pids[i], 1, MPI_INT, i, 6, children, MPI_STATUS_IGNORE);
            if (is_gone && !is_freed)
                MPI_Recv(port, sizeof port, MPI_CHAR, 0, 6, children, MPI_STATUS_IGNORE);
            n = talk(children, 0);
            if (rank == 0)
                printf("parent: %d in all\n", n);
            fflush(stdout);
            if (!is_freed)
                MPI_Comm_disconnect(&children);
            if (is_gone)
                await_ends(max[0], pids);
            if (is_gone && !is_freed)
                report("connect", connect_to(port));
            if (is_freed)
                MPI_Comm_free(&children);
            if (argc > 4 && strcmp(argv[4], "later") == 0)
                MPI_Recv(NULL, 0, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    MPI_Finalize();
    return 0;
}
