/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_T: performance variables count events: messages by route, unexpected messages, queue lengths,
 * collectives, switches; counters can be written and reset for one handle without effect on others. */
#include "mtest.h"

static MPI_T_pvar_session session;

static MPI_T_pvar_handle open_in(MPI_T_pvar_session where, const char *name, int var_class, MPI_Comm *comm)
{
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int index = -1, count = 0, code;

    code = MPI_T_pvar_get_index(name, var_class, &index);
    MTEST_CHECK(code == MPI_SUCCESS, "%s is not there: %d", name, code);
    code = MPI_T_pvar_handle_alloc(where, index, comm, &handle, &count);
    MTEST_CHECK(code == MPI_SUCCESS && count == 1, "handle of %s: %d, %d values", name, code, count);
    return handle;
}

static MPI_T_pvar_handle open_counter(const char *name, MPI_Comm *comm)
{
    return open_in(session, name, MPI_T_PVAR_CLASS_COUNTER, comm);
}

static MPI_T_pvar_handle open_level(const char *name, MPI_Comm *comm)
{
    return open_in(session, name, MPI_T_PVAR_CLASS_LEVEL, comm);
}

static unsigned long value(MPI_T_pvar_handle handle)
{
    unsigned long v = 12345;
    int code = MPI_T_pvar_read(session, handle, &v);

    MTEST_CHECK(code == MPI_SUCCESS, "read: %d", code);
    return v;
}

/* Messages to myself go by one route, those to the others by any of the three; none is forgotten. */
static void check_routes(MPI_Comm comm)
{
    enum { N = 7 };
    static const char *const names[] = {"heddle_sent_same_pe", "heddle_sent_other_pe",
                                        "heddle_sent_other_process"};
    static char large[100000], large_in[100000];
    MPI_T_pvar_handle routes[3];
    unsigned long before = 0, after = 0, mine;
    MPI_Request request;
    int byte;

    for (int i = 0; i < 3; i++)
        routes[i] = open_counter(names[i], NULL);
    mine = value(routes[0]);
    MPI_Irecv(&byte, 1, MPI_INT, mtest_rank, 0, comm, &request);
    MPI_Send(&mtest_rank, 1, MPI_INT, mtest_rank, 0, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MTEST_CHECK(value(routes[0]) == mine + 1, "a message to myself: %lu, then %lu", mine, value(routes[0]));
    for (int i = 0; i < 3; i++)
        before += value(routes[i]);
    if (mtest_size > 1) {
        int right = (mtest_rank + 1) % mtest_size, left = (mtest_rank + mtest_size - 1) % mtest_size;
        for (int i = 0; i < N; i++)
            MPI_Sendrecv(&mtest_rank, 1, MPI_INT, right, 0, &byte, 1, MPI_INT, left, 0, comm,
                         MPI_STATUS_IGNORE);
        MPI_Irecv(large_in, sizeof large_in, MPI_CHAR, left, 1, comm, &request);
        MPI_Ssend(large, sizeof large, MPI_CHAR, right, 1, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(&mtest_rank, 1, MPI_INT, MPI_PROC_NULL, 0, comm); /* no message */
        before += N + 1;
    }
    for (int i = 0; i < 3; i++)
        after += value(routes[i]);
    MTEST_CHECK(after == before, "%lu messages sent, %lu counted", before, after);
}

static void check_queues(MPI_Comm comm)
{
    MPI_T_pvar_handle posted = open_level("heddle_posted_receives", &comm);
    MPI_T_pvar_handle unexpected = open_level("heddle_unexpected_messages", &comm);
    MPI_T_pvar_handle total = open_counter("heddle_unexpected_total", &comm);
    MPI_T_pvar_handle pending = open_level("heddle_pending_requests", &comm);
    unsigned long total_before = value(total);
    MPI_Request requests[3];
    int in[3], out = 5;

    for (int i = 0; i < 3; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, mtest_rank, i, comm, &requests[i]);
    MTEST_CHECK(value(posted) == 3 && value(pending) == 3, "3 receives: %lu posted, %lu pending",
                value(posted), value(pending));
    for (int i = 0; i < 3; i++)
        MPI_Send(&out, 1, MPI_INT, mtest_rank, i, comm);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MTEST_CHECK(value(posted) == 0 && value(pending) == 0, "no receives: %lu posted, %lu pending",
                value(posted), value(pending));
    MTEST_CHECK(value(unexpected) == 0 && value(total) == total_before, "no unexpected messages: %lu, %lu",
                value(unexpected), value(total));
    for (int i = 0; i < 3; i++)
        MPI_Send(&out, 1, MPI_INT, mtest_rank, i, comm);
    MTEST_CHECK(value(unexpected) == 3, "3 messages without receives: %lu", value(unexpected));
    for (int i = 0; i < 3; i++)
        MPI_Recv(&in[i], 1, MPI_INT, mtest_rank, i, comm, MPI_STATUS_IGNORE);
    MTEST_CHECK(value(unexpected) == 0 && value(total) == total_before + 3, "received: %lu, %lu in all",
                value(unexpected), value(total) - total_before);
    MTEST_CHECK(MPI_T_pvar_handle_free(session, &pending) == MPI_SUCCESS && pending == MPI_T_PVAR_HANDLE_NULL,
                "handle not freed");
}

/* A counter's handle has a zero of its own. */
static void check_zero(MPI_Comm comm)
{
    MPI_T_pvar_session other;
    MPI_T_pvar_handle here = open_counter("heddle_collectives", &comm), there;
    unsigned long start = value(here), v;

    MTEST_CHECK(MPI_T_pvar_session_create(&other) == MPI_SUCCESS, "second session");
    there = open_in(other, "heddle_collectives", MPI_T_PVAR_CLASS_COUNTER, &comm);
    MPI_Barrier(comm);
    MPI_Barrier(comm);
    MTEST_CHECK(value(here) == start + 2, "2 collectives: %lu, then %lu", start, value(here));
    MTEST_CHECK(MPI_T_pvar_reset(session, here) == MPI_SUCCESS && value(here) == 0, "reset: %lu",
                value(here));
    MPI_Barrier(comm);
    MTEST_CHECK(value(here) == 1, "1 collective since the reset: %lu", value(here));
    MTEST_CHECK(MPI_T_pvar_read(other, there, &v) == MPI_SUCCESS && v == start + 3,
                "the other session's handle: %lu", v);
    v = 1000;
    MTEST_CHECK(MPI_T_pvar_write(session, here, &v) == MPI_SUCCESS, "write");
    MPI_Barrier(comm);
    MTEST_CHECK(MPI_T_pvar_readreset(session, here, &v) == MPI_SUCCESS && v == 1001, "written: %lu", v);
    MTEST_CHECK(value(here) == 0, "readreset leaves %lu", value(here));
    MPI_Barrier(comm);
    MTEST_CHECK(MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS && value(here) == 0,
                "reset of all: %lu", value(here));
    MTEST_CHECK(MPI_T_pvar_session_free(&other) == MPI_SUCCESS && other == MPI_T_PVAR_SESSION_NULL,
                "second session not freed");
}

/* The description of each variable fits what its handle can do; each belongs to one category. */
static void check_list(void)
{
    int n, n_categories, n_listed = 0;
    unsigned long v = 0;

    MPI_T_pvar_get_num(&n);
    for (int i = 0; i < n; i++) {
        int name_len = 0, desc_len = 0, verbosity, var_class, bind, readonly, continuous, atomic, count;
        MPI_Comm comm = MPI_COMM_SELF;
        MPI_T_pvar_handle handle;
        MPI_Datatype type;
        char name[100], again[5] = "xxxx";

        MPI_T_pvar_get_info(i, NULL, &name_len, NULL, NULL, NULL, NULL, NULL, &desc_len, NULL, NULL, NULL,
                            NULL);
        MTEST_CHECK(name_len > 1 && name_len < 100 && desc_len > 1, "lengths %d, %d", name_len, desc_len);
        MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &var_class, &type, NULL, NULL, NULL, &bind,
                            &readonly, &continuous, &atomic);
        MTEST_CHECK(strlen(name) + 1 == (size_t)name_len, "%s has length %d", name, name_len);
        name_len = 4;
        MPI_T_pvar_get_info(i, again, &name_len, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        MTEST_CHECK(memcmp(again, name, 3) == 0 && again[3] == 0 && name_len == (int)strlen(name) + 1,
                    "%s cut: %s, %d", name, again, name_len);
        MTEST_CHECK(type == MPI_UNSIGNED_LONG && continuous, "%s: type or continuous", name);
        MTEST_CHECK(MPI_T_pvar_handle_alloc(session, i, bind ? &comm : NULL, &handle, &count) == MPI_SUCCESS,
                    "handle of %s", name);
        MTEST_CHECK(MPI_T_pvar_read(session, handle, &v) == MPI_SUCCESS, "%s cannot be read", name);
        MTEST_CHECK(MPI_T_pvar_write(session, handle, &v) ==
                        (readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS),
                    "%s written", name);
        MTEST_CHECK(MPI_T_pvar_readreset(session, handle, &v) ==
                        (atomic ? MPI_SUCCESS : MPI_T_ERR_PVAR_NO_ATOMIC),
                    "%s read and reset", name);
        MTEST_CHECK(MPI_T_pvar_start(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP &&
                        MPI_T_pvar_stop(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP,
                    "%s started", name);
        MPI_T_pvar_handle_free(session, &handle);
    }
    MPI_T_category_get_num(&n_categories);
    for (int i = 0; i < n_categories; i++) {
        int n_cvars, n_pvars, n_below, pvars[100];
        MPI_T_category_get_info(i, NULL, NULL, NULL, NULL, &n_cvars, &n_pvars, &n_below);
        MTEST_CHECK(MPI_T_category_get_pvars(i, 100, pvars) == MPI_SUCCESS, "category %d", i);
        n_listed += n_pvars;
    }
    MTEST_CHECK(n_listed == n, "%d variables, %d in categories", n, n_listed);
    MTEST_CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS, "start all");
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    int provided;
    MPI_T_pvar_handle switches, on_comm;
    unsigned long v;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    mtest_init(&argc, &argv, 1);
    MTEST_CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS, "no session");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    check_routes(comm);
    check_queues(comm);
    check_zero(comm);
    check_list();
    switches = open_counter("heddle_switches", NULL);
    v = value(switches);
    MPI_Barrier(comm);
    MTEST_CHECK(value(switches) >= v, "switches run backwards");
    MTEST_CHECK(value(open_level("heddle_message_bytes", NULL)) > 0, "unexpected messages without memory");
    on_comm = open_level("heddle_posted_receives", &comm);
    MPI_Comm_free(&comm);
    MTEST_CHECK(value(on_comm) == 0, "a handle on a freed communicator");
    MTEST_CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS, "session not freed");
    MPI_T_finalize();
    return mtest_end();
}
