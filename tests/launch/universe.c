/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of universe_test.sh and universe_random.py. All ranks run the words of the command line one after the other; rank 0
 * prints results. Connections are on a stack; I is a place in it, from the top (0).
 *      open NAME, close NAME       a port of rank 0, which is published
 *      race N                      all ranks publish a name that an ended process has left, N times; prints whether one rank could
 *      hurry NAME                  like publish, but waits at most 0.2 s for others
 *      publish NAME, lookup NAME   the name of a port that does not exist; prints the port
 *      accept NAME, connect NAME   pushes a connection; connect waits until the name is published, at most 20 s
 *      serve N, visit NAME N       accepts, or connects, so often, and disconnects each time
 *      again                       connects to the port of the last connect; prints the error
 *      try NAME                    connects or accepts once, for 0.2 s at most; prints the error
 *      talk I RANKS                messages and collectives with so many ranks of the other side
 *      lost I                      receives, and prints the error
 *      join SOCKET                 rank 0 connects to that of another job by a Unix socket; prints whether it can
 *      leave I                     disconnects; "drop I" frees, "barrier I" enters a barrier
 *      merge HIGH                  makes the last connection an intracommunicator
 *      window, lock                creates a window with its members; locks that of rank 0
 *      group I, regroup            frees a connection; creates a communicator from the group of both sides
 *      spawn N                     pushes a connection to N spawned ranks, which talk and leave
 *      await FILE, create FILE     waits until there is a file
 *      pause MS                    computes so long
 *      block                       all ranks wait for a message that does not come
 *      kill, abort                 ends the process
 *      say TEXT, number            prints; each rank prints its number
 *      sets                        creates communicators from the process set of all ranks
 *      env, dup                    requires the numbers that launchers' variables have; duplicates MPI_COMM_WORLD
 */
#define _GNU_SOURCE
#include <mpi.h>

#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BIG 300000

static int rank, size, is_child;
static MPI_Win locked;
static MPI_Comm stack[64];
static int n_stack;
static MPI_Group both;
static char port[MPI_MAX_PORT_NAME];
static char last[MPI_MAX_PORT_NAME]; /* of the last connect */

static const char *name_of(int error)
{
    static char other[32];
    int class;

    MPI_Error_class(error, &class);
    snprintf(other, sizeof other, "class %d", class);
    return error == MPI_SUCCESS            ? "success"
           : class == MPI_ERR_PORT         ? "MPI_ERR_PORT"
           : class == MPI_ERR_NAME         ? "MPI_ERR_NAME"
           : class == MPI_ERR_SERVICE      ? "MPI_ERR_SERVICE"
           : class == MPI_ERR_PROC_ABORTED ? "MPI_ERR_PROC_ABORTED"
                                           : other;
}

static void print(const char *what, const char *text)
{
    if (rank == 0 && !is_child)
        printf("%s: %s\n", what, text);
    fflush(stdout);
}

static void require(int is_right, const char *what)
{
    if (is_right)
        return;
    printf("rank %d: wrong: %s\n", rank, what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void push(MPI_Comm comm)
{
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    stack[n_stack++] = comm;
}

static MPI_Comm take(const char *place, int is_removed)
{
    int at = n_stack - 1 - atoi(place);
    MPI_Comm comm;

    require(at >= 0, "there is no such connection");
    comm = stack[at];
    if (is_removed) {
        memmove(&stack[at], &stack[at + 1], (size_t)(n_stack - at - 1) * sizeof stack[0]);
        n_stack--;
    }
    return comm;
}

/* Every rank sends to one of the other side, and both sides are merged. */
static void talk(MPI_Comm inter, int n_others)
{
    static char out[BIG], in[BIG];
    MPI_Comm all;
    MPI_Win win;
    int n, me, sum, most = size > n_others ? size : n_others;

    MPI_Comm_remote_size(inter, &n);
    require(n == n_others, "size of the other side");
    for (int i = 0; i < most; i++)
        if (i % size == rank) {
            memset(out, rank, BIG);
            require(!MPI_Sendrecv(out, i % 2 ? 8 : BIG, MPI_CHAR, i % n, 1, in, BIG, MPI_CHAR, i % n, 1,
                                  inter, MPI_STATUS_IGNORE),
                    "message");
            require(in[0] == (char)(i % n), "contents");
        }
    sum = rank + 1;
    require(!MPI_Allreduce(&sum, &me, 1, MPI_INT, MPI_SUM, inter), "allreduce");
    require(me == n * (n + 1) / 2, "sum of the other side");
    require(!MPI_Intercomm_merge(inter, 0, &all), "merge");
    MPI_Comm_rank(all, &me);
    require(!MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, all), "allreduce of all");
    require(sum == (n + size) * (n + size - 1) / 2, "sum of all");
    sum = -1;
    MPI_Win_create(&sum, sizeof sum, sizeof sum, MPI_INFO_NULL, all, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&me, 1, MPI_INT, (me + 1) % (n + size), 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    require(sum == (me + n + size - 1) % (n + size), "put");
    MPI_Win_free(&win);
    MPI_Comm_free(&all);
}

/* Frees a connection, but keeps the group of both sides. */
static void keep_group(MPI_Comm inter)
{
    MPI_Comm all;

    require(!MPI_Intercomm_merge(inter, 0, &all), "merge");
    MPI_Comm_group(all, &both);
    MPI_Comm_free(&all);
    MPI_Comm_free(&inter);
}

static void meet_group(void)
{
    MPI_Comm all;

    require(!MPI_Comm_create_from_group(both, "both", MPI_INFO_NULL, MPI_ERRORS_RETURN, &all), "from group");
    require(!MPI_Barrier(all), "barrier");
    MPI_Comm_free(&all);
    MPI_Group_free(&both);
}

static int connect_to(const char *name, char *other, MPI_Comm *inter)
{
    for (int i = 0; rank == 0 && i < 2000 && MPI_Lookup_name(name, MPI_INFO_NULL, other); i++)
        usleep(10000);
    return MPI_Comm_connect(other, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter);
}

static MPI_Info short_time(void)
{
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "timeout", "0.2");
    return info;
}

static int try_port(const char *name, MPI_Comm *inter)
{
    char other[MPI_MAX_PORT_NAME] = "";
    MPI_Info info = short_time();
    int error;

    if (rank == 0 && strchr(name, ':'))
        snprintf(other, sizeof other, "%s", name);
    else if (rank == 0 && strcmp(name, "own") != 0)
        MPI_Lookup_name(name, MPI_INFO_NULL, other);
    error = strcmp(name, "own") == 0 ? MPI_Comm_accept(port, info, 0, MPI_COMM_WORLD, inter)
                                     : MPI_Comm_connect(other, info, 0, MPI_COMM_WORLD, inter);
    MPI_Info_free(&info);
    return error;
}

/* One of two jobs binds the socket, the other one connects to it. */
static void join(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct sockaddr *at = (const struct sockaddr *)&address;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), value = 5, other = 0;
    MPI_Comm inter;

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (bind(fd, at, sizeof address) == 0) {
        listen(fd, 1);
        fd = accept(fd, NULL, NULL);
    } else {
        while (connect(fd, at, sizeof address) != 0)
            usleep(5000);
    }
    require(!MPI_Comm_join(fd, &inter), "join");
    if (inter == MPI_COMM_NULL) {
        print("join", "MPI_COMM_NULL");
        return;
    }
    MPI_Sendrecv(&value, 1, MPI_INT, 0, 0, &other, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
    print("join", other == value ? "well" : "wrong");
    MPI_Comm_disconnect(&inter);
}

/* mpi://WORLD has the ranks of MPI_COMM_WORLD, for MPI_Comm_create_from_group and MPI_Comm_split_type. */
static void use_sets(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Info info;
    int result;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    require(!MPI_Comm_create_from_group(group, "sets", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
            "from group");
    MPI_Comm_compare(comm, MPI_COMM_WORLD, &result);
    require(result == MPI_CONGRUENT, "the ranks of the set");
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_pset_name", "mpi://WORLD");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm);
    MPI_Info_free(&info);
    MPI_Comm_compare(comm, MPI_COMM_WORLD, &result);
    require(result == MPI_CONGRUENT, "a split by the set");
    MPI_Comm_free(&comm);
}

/* All ranks publish a name that an ended process has left: one of them may. */
static void race(int n_times)
{
    int is_mine, n, n_right = 0;
    char name[32];

    for (int i = 0; i < n_times; i++) {
        snprintf(name, sizeof name, "race %d", i);
        if (rank == 0)
            require(!MPI_Publish_name(name, MPI_INFO_NULL, "heddle-universe:4000:0:0"),
                    "a name that is left");
        MPI_Barrier(MPI_COMM_WORLD);
        is_mine = !MPI_Publish_name(name, MPI_INFO_NULL, "nowhere");
        MPI_Allreduce(&is_mine, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        n_right += n == 1;
    }
    print("race", n_right == n_times ? "well" : "several ranks have published one name");
}

static int run(char **word, char *program)
{
    const char *op = word[0], *arg = word[1];
    MPI_Comm inter;
    int number;

    if (strcmp(op, "open") == 0 && rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        require(!MPI_Publish_name(arg, MPI_INFO_NULL, port), "publish");
    } else if (strcmp(op, "close") == 0 && rank == 0) {
        require(!MPI_Unpublish_name(arg, MPI_INFO_NULL, port), "unpublish");
        require(!MPI_Close_port(port), "close");
    } else if (strcmp(op, "publish") == 0) {
        print("publish", rank == 0 ? name_of(MPI_Publish_name(arg, MPI_INFO_NULL, "nowhere")) : "");
    } else if (strcmp(op, "hurry") == 0) {
        MPI_Info info = short_time();
        print("hurry", rank == 0 ? name_of(MPI_Publish_name(arg, info, "nowhere")) : "");
        MPI_Info_free(&info);
    } else if (strcmp(op, "race") == 0) {
        race(atoi(arg));
    } else if (strcmp(op, "lookup") == 0) {
        char other[MPI_MAX_PORT_NAME] = "";
        number = rank == 0 ? MPI_Lookup_name(arg, MPI_INFO_NULL, other) : 0;
        print("lookup", number ? name_of(number) : other);
    } else if (strcmp(op, "accept") == 0) {
        require(!MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), "accept");
        push(inter);
    } else if (strcmp(op, "connect") == 0) {
        require(!connect_to(arg, last, &inter), "connect");
        push(inter);
    } else if (strcmp(op, "serve") == 0) {
        for (int i = 0; i < atoi(arg); i++)
            require(!MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter) &&
                        !MPI_Comm_disconnect(&inter),
                    "serve");
    } else if (strcmp(op, "visit") == 0) {
        for (int i = 0; i < atoi(word[2]); i++)
            require(!connect_to(arg, last, &inter) && !MPI_Comm_disconnect(&inter), "visit");
        return 3;
    } else if (strcmp(op, "again") == 0) {
        print("again", name_of(MPI_Comm_connect(last, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter)));
        return 1;
    } else if (strcmp(op, "try") == 0) {
        print("try", name_of(try_port(arg, &inter)));
    } else if (strcmp(op, "talk") == 0) {
        talk(take(arg, 0), atoi(word[2]));
        print("talked to", word[2]);
        return 3;
    } else if (strcmp(op, "lost") == 0) {
        print("lost", name_of(MPI_Recv(&number, 1, MPI_INT, 0, 2, take(arg, 0), MPI_STATUS_IGNORE)));
    } else if (strcmp(op, "leave") == 0) {
        inter = take(arg, 1);
        require(!MPI_Comm_disconnect(&inter), "disconnect");
    } else if (strcmp(op, "barrier") == 0) {
        MPI_Barrier(take(arg, 0));
    } else if (strcmp(op, "merge") == 0) {
        require(!MPI_Intercomm_merge(take("0", 0), atoi(arg), &inter), "merge");
        push(inter);
    } else if (strcmp(op, "window") == 0) {
        require(!MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, take("0", 0), &locked), "window");
        return 1;
    } else if (strcmp(op, "lock") == 0) {
        MPI_Win_set_errhandler(locked, MPI_ERRORS_RETURN);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, locked);
        return 1;
    } else if (strcmp(op, "drop") == 0) {
        inter = take(arg, 1);
        MPI_Comm_free(&inter);
    } else if (strcmp(op, "group") == 0) {
        keep_group(take(arg, 1));
    } else if (strcmp(op, "regroup") == 0) {
        meet_group();
        return 1;
    } else if (strcmp(op, "spawn") == 0) {
        require(!MPI_Comm_spawn(program, MPI_ARGV_NULL, atoi(arg), MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                                MPI_ERRCODES_IGNORE),
                "spawn");
        push(inter);
    } else if (strcmp(op, "join") == 0 && rank == 0) {
        join(arg);
    } else if (strcmp(op, "await") == 0) {
        while (access(arg, F_OK) != 0)
            usleep(5000);
    } else if (strcmp(op, "create") == 0 && rank == 0) {
        fclose(fopen(arg, "w"));
    } else if (strcmp(op, "pause") == 0) {
        for (double end = MPI_Wtime() + 1e-3 * atoi(arg); MPI_Wtime() < end;)
            usleep(1000);
    } else if (strcmp(op, "say") == 0) {
        print("say", arg);
    } else if (strcmp(op, "number") == 0) {
        printf("rank %d\n", rank);
        return 1;
    } else if (strcmp(op, "env") == 0) {
        require(atoi(getenv("OMPI_COMM_WORLD_RANK")) == rank && AMPI_World_rank() == rank,
                "numbers of ranks");
        require(atoi(getenv("OMPI_COMM_WORLD_SIZE")) == size, "OMPI_COMM_WORLD_SIZE");
        require(atoi(getenv("OMPI_COMM_WORLD_LOCAL_RANK")) == rank, "OMPI_COMM_WORLD_LOCAL_RANK");
        require(atoi(getenv("OMPI_COMM_WORLD_LOCAL_SIZE")) == size, "OMPI_COMM_WORLD_LOCAL_SIZE");
        return 1;
    } else if (strcmp(op, "sets") == 0) {
        use_sets();
        return 1;
    } else if (strcmp(op, "dup") == 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, &inter);
        return 1;
    } else if (strcmp(op, "block") == 0) {
        MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(op, "kill") == 0) {
        MPI_Barrier(MPI_COMM_WORLD); /* all have printed */
        kill(getpid(), SIGKILL);
    } else if (strcmp(op, "abort") == 0) {
        MPI_Abort(MPI_COMM_WORLD, 9);
    } else {
        require(rank != 0, op);
    }
    return strcmp(op, "kill") == 0 || strcmp(op, "abort") == 0 || strcmp(op, "block") == 0 ? 1 : 2;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        int n;
        is_child = 1;
        MPI_Comm_remote_size(parent, &n);
        talk(parent, n);
        MPI_Comm_disconnect(&parent);
    }
    for (int i = 1; i < argc;)
        i += run(&argv[i], argv[0]);
    print("end", "well");
    MPI_Finalize();
    return 0;
}
