/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_T events: callbacks that change their handle while it is in use, their level, old events, the rank they run as, and
 * messages of partitioned operations and matched probes. The library's own messages are not reported. */
#include "mtest.h"
#include <unistd.h>

static int n_called, n_dropped, n_freed, n_old, n_wrong_rank, n_internal, safety_of_free;
static MPI_T_event_registration outer, inner, made;
static char names[8][32];

static MPI_T_event_registration listen(const char *name, MPI_T_cb_safety safety,
                                       MPI_T_event_cb_function *called, void *user_data)
{
    MPI_T_event_registration registration = NULL;
    int index = -1;

    n_called = n_dropped = n_freed = n_old = n_wrong_rank = n_internal = 0;
    MTEST_OK(MPI_T_event_get_index(name, &index));
    MTEST_OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration));
    MTEST_OK(MPI_T_event_register_callback(registration, safety, MPI_INFO_NULL, user_data, called));
    return registration;
}

/* A message of this rank to itself, whose receive is complete after the last callback: that event waits. */
static void talk(int tag)
{
    int out = 1, in = 0;
    MPI_Request requests[2];

    MPI_Isend(&out, 1, MPI_INT, 0, tag, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(&in, 1, MPI_INT, 0, tag, MPI_COMM_SELF, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void count(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                  void *user_data)
{
    MPI_Count values[4] = {0}, time = 0;
    int rank = -1;

    (void)registration, (void)safety;
    MPI_T_event_copy(event, values);
    MPI_T_event_get_timestamp(event, &time);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    n_wrong_rank += rank != mtest_rank;
    n_internal += values[2] < 0;
    n_old += user_data && time < *(MPI_Count *)user_data;
    n_called++;
}

/* ---- A dropped handler takes the callback back ---- */

static void talk_in_callback(MPI_T_event_instance event, MPI_T_event_registration registration,
                             MPI_T_cb_safety safety, void *user_data)
{
    (void)event, (void)registration, (void)safety, (void)user_data;
    n_called++;
    talk(2);
}

static void take_back(MPI_Count count, MPI_T_event_registration registration, int source,
                      MPI_T_cb_safety safety, void *user_data)
{
    (void)source, (void)user_data;
    n_dropped += (int)count;
    MPI_T_event_register_callback(registration, safety, MPI_INFO_NULL, NULL, NULL);
}

static void check_take_back(void)
{
    outer = listen("heddle_send_posted", MPI_T_CB_REQUIRE_NONE, talk_in_callback, NULL);
    MTEST_OK(MPI_T_event_set_dropped_handler(outer, take_back));
    for (int i = 0; i < 3; i++)
        talk(1);
    MTEST_CHECK(n_called == 1 && n_dropped == 1, "%d calls, %d dropped", n_called, n_dropped);
    MTEST_OK(MPI_T_event_handle_free(outer, NULL, NULL));
}

/* ---- The callback of MPI_T_event_handle_free frees the same handle, and a new one is made ---- */

static void note_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    (void)registration, (void)user_data;
    safety_of_free = safety;
    n_freed++;
}

static void make(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    int index = -1;

    (void)registration, (void)safety, (void)user_data;
    MPI_T_event_get_index("heddle_pe_idle", &index);
    MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &made);
}

static void free_both(MPI_T_event_instance event, MPI_T_event_registration registration,
                      MPI_T_cb_safety safety, void *user_data)
{
    (void)event, (void)registration, (void)safety, (void)user_data;
    if (n_called++ == 0) {
        MPI_T_event_handle_free(outer, NULL, note_free);
        MPI_T_event_handle_free(inner, NULL, make);
    }
}

static void check_free_in_free(void)
{
    inner = listen("heddle_collective_begin", MPI_T_CB_REQUIRE_NONE, count, NULL);
    outer = listen("heddle_receive_completed", MPI_T_CB_REQUIRE_NONE, free_both, NULL);
    talk(1);
    MTEST_OK(MPI_T_event_handle_free(outer, NULL, NULL));
    MTEST_CHECK(n_called == 1 && n_freed == 1, "%d calls, %d freed", n_called, n_freed);
    MTEST_CHECK(made != outer, "the freed handle is used again too early");
    MTEST_OK(MPI_T_event_handle_free(made, NULL, NULL));
}

/* ---- A callback in an errand frees its handle: the level is the errand's ---- */

static void free_own(MPI_T_event_instance event, MPI_T_event_registration registration,
                     MPI_T_cb_safety safety, void *user_data)
{
    (void)event;
    if (safety == MPI_T_CB_REQUIRE_NONE) /* the message was faster than this rank */
        return;
    *(MPI_T_cb_safety *)user_data = safety;
    MPI_T_event_handle_free(registration, NULL, note_free);
}

static void check_level(void)
{
    MPI_T_cb_safety safety = MPI_T_CB_REQUIRE_NONE;
    int is_more = 1, value = 0;
    MPI_Request request;

    if (mtest_rank == 0)
        outer = listen("heddle_message_matched", MPI_T_CB_REQUIRE_MPI_RESTRICTED, free_own, &safety);
    for (int i = 0; is_more && mtest_rank < 2; i++) {
        if (mtest_rank == 0) { /* the event happens while this rank is blocked */
            is_more = n_freed == 0 && i < 1000;
            MPI_Irecv(&value, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, &request);
            MPI_Send(&is_more, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&is_more, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
        }
    }
    if (mtest_rank == 0)
        MTEST_CHECK(n_freed == 1 && safety_of_free == (int)safety && safety != MPI_T_CB_REQUIRE_NONE,
                    "freed %d times: level %d, callback %d", n_freed, safety_of_free, (int)safety);
}

/* ---- Events are not for later handles ---- */

static void check_old(void)
{
    MPI_Count now = 0;
    int provided;

    listen("heddle_receive_completed", MPI_T_CB_REQUIRE_NONE, count, NULL);
    talk(1);
    outer = listen("heddle_receive_completed", MPI_T_CB_REQUIRE_NONE, count, &now);
    MTEST_OK(MPI_T_source_get_timestamp(0, &now));
    n_called = 0;
    MTEST_OK(MPI_T_event_handle_free(outer, NULL, NULL));
    MTEST_CHECK(n_called == 1 && n_old == 0, "%d events, %d old ones, before a handle", n_called, n_old);
    talk(1);
    n_called = 0;
    MTEST_OK(MPI_T_finalize());
    MTEST_CHECK(n_called == 1, "MPI_T_finalize handed out %d events", n_called);
    MTEST_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MTEST_OK(MPI_T_source_get_timestamp(0, &now));
    outer = listen("heddle_receive_completed", MPI_T_CB_REQUIRE_NONE, count, &now);
    talk(1);
    MTEST_OK(MPI_T_event_handle_free(outer, NULL, NULL));
    MTEST_CHECK(n_called == 1 && n_old == 0, "%d events, %d old ones", n_called, n_old);
}

/* ---- Messages ---- */

/* Partitioned rounds whose data are messages: a vector is not one block. */
static void check_partitioned(const char *name, int receiver)
{
    enum { ROUNDS = 4 };
    int data[40] = {0};
    MPI_Datatype vector;
    MPI_Request request;

    MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    if (mtest_rank < 2) {
        outer = listen(name, MPI_T_CB_REQUIRE_NONE, count, NULL);
        if (mtest_rank == 0)
            MPI_Psend_init(data, 2, 2, vector, 1, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        else
            MPI_Precv_init(data, 2, 2, vector, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        for (int i = 0; i < ROUNDS; i++) {
            MPI_Start(&request);
            for (int k = 0; k < 2 && mtest_rank == 0; k++)
                MPI_Pready(k, request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&request);
        MTEST_OK(MPI_T_event_handle_free(outer, NULL, NULL));
        MTEST_CHECK(n_called == (mtest_rank == receiver ? ROUNDS : 0) && n_wrong_rank + n_internal == 0,
                    "%s: %d events, %d as another rank, %d internal ones", name, n_called, n_wrong_rank,
                    n_internal);
    }
    MPI_Type_free(&vector);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_mprobe(const char *name)
{
    int out = 7, in = 0, has = 0;
    MPI_Message message;
    MPI_Request requests[2];

    outer = listen(name, MPI_T_CB_REQUIRE_NONE, count, NULL);
    MPI_Isend(&out, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]);
    MPI_Mprobe(0, 5, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE);
    MTEST_OK(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Isend(&out, 1, MPI_INT, 0, 6, MPI_COMM_SELF, &requests[0]);
    while (!has)
        MPI_Improbe(0, 6, MPI_COMM_SELF, &has, &message, MPI_STATUS_IGNORE);
    MTEST_OK(MPI_Imrecv(&in, 1, MPI_INT, &message, &requests[1]));
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MTEST_OK(MPI_T_event_handle_free(outer, NULL, NULL));
    MTEST_CHECK(n_called == 2 && in == 7, "%s: %d events of matched probes", name, n_called);
}

/* ---- The name of the call ---- */

static void keep_name(MPI_T_event_instance event, MPI_T_event_registration registration,
                      MPI_T_cb_safety safety, void *user_data)
{
    MPI_Aint name = 0;

    (void)registration, (void)safety, (void)user_data;
    MPI_T_event_read(event, 0, &name);
    if (name && n_called < 8)
        snprintf(names[n_called], sizeof names[0], "%s", (const char *)name);
    n_called++;
}

static void check_name(const char *when)
{
    MPI_T_event_registration r =
        listen("heddle_rank_blocked", MPI_T_CB_REQUIRE_MPI_RESTRICTED, keep_name, NULL);

    names[0][0] = 0;
    usleep(1000);
    MTEST_OK(MPI_T_event_handle_free(r, NULL, NULL));
    MTEST_CHECK(n_called == 0 || strcmp(names[0], "outside MPI") == 0, "%s: blocked in '%s'", when, names[0]);
}

int main(int argc, char **argv)
{
    int provided;

    MTEST_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_name("before MPI_Init");
    mtest_init(&argc, &argv, 2);
    check_name("after MPI_Init");
    check_take_back();
    check_free_in_free();
    check_level();
    check_old();
    check_partitioned("heddle_send_posted", 0);
    check_partitioned("heddle_send_completed", 0);
    check_partitioned("heddle_receive_posted", 1);
    check_partitioned("heddle_receive_completed", 1);
    check_mprobe("heddle_receive_posted");
    check_mprobe("heddle_receive_completed");
    MTEST_OK(MPI_T_finalize());
    return mtest_end();
}
