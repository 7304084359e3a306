/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_T events: each kind is seen with the right elements, in order of time, on the stack of its rank; by all communicators or
 * a bound one; callbacks of each level, also one that frees its handle; nothing is lost unless it is counted. */
#include "mtest.h"
#include <unistd.h>

enum { MAX_SEEN = 4096, MAX_VALUES = 4 };

static struct seen {
    MPI_Count values[MAX_VALUES], time;
    MPI_T_cb_safety safety;
} seen[MAX_SEEN];
static int n_seen, n_called, n_dropped, n_freed, n_wrong;
static const int marker = 42; /* its address: user data */

static int index_of(const char *name)
{
    int index = -1;
    MTEST_OK(MPI_T_event_get_index(name, &index));
    return index;
}

static void on_event(MPI_T_event_instance event, MPI_T_event_registration registration,
                     MPI_T_cb_safety safety, void *user_data)
{
    struct seen *slot = &seen[n_seen % MAX_SEEN];
    MPI_Count all[MAX_VALUES] = {0};
    int source = -1, rank = -1;

    memset(slot, 0, sizeof *slot);
    slot->safety = safety;
    MPI_T_event_copy(event, all);
    for (int i = 0; i < MAX_VALUES; i++)
        if (MPI_T_event_read(event, i, &slot->values[i]) == MPI_SUCCESS)
            n_wrong += all[i] != slot->values[i];
        else
            n_wrong += MPI_T_event_read(event, i, &slot->values[i]) != MPI_T_ERR_INVALID_INDEX;
    n_wrong += MPI_T_event_get_timestamp(event, &slot->time) != MPI_SUCCESS;
    n_wrong += MPI_T_event_get_source(event, &source) != MPI_SUCCESS || source != 0;
    n_wrong += MPI_T_event_read(event, 0, NULL) != MPI_T_ERR_INVALID ||
               MPI_T_event_copy(event, NULL) != MPI_T_ERR_INVALID;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    n_wrong += user_data != &marker || rank != mtest_rank || registration == NULL;
    n_seen++;
}

static void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source,
                       MPI_T_cb_safety safety, void *user_data)
{
    (void)registration, (void)safety, (void)user_data;
    n_wrong += source != 0 || count <= 0;
    n_dropped += (int)count;
}

static void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    (void)registration, (void)safety;
    n_wrong += user_data != &marker;
    n_freed++;
}

static MPI_T_event_registration listen_at(const char *name, MPI_Comm *comm, MPI_T_cb_safety safety)
{
    MPI_T_event_registration registration = NULL;

    n_seen = n_called = n_dropped = 0;
    MTEST_OK(MPI_T_event_handle_alloc(index_of(name), comm, MPI_INFO_NULL, &registration));
    MTEST_OK(MPI_T_event_set_dropped_handler(registration, on_dropped));
    MTEST_OK(MPI_T_event_register_callback(registration, safety, MPI_INFO_NULL, (void *)&marker, on_event));
    return registration;
}

static MPI_T_event_registration listen(const char *name)
{
    return listen_at(name, NULL, MPI_T_CB_REQUIRE_MPI_RESTRICTED);
}

/* Frees it: after that, all events before are there. */
static void stop(MPI_T_event_registration registration)
{
    int before = n_freed;

    MTEST_OK(MPI_T_event_handle_free(registration, (void *)&marker, on_free));
    MTEST_CHECK(n_freed == before + 1, "the callback of MPI_T_event_handle_free was called %d times",
                n_freed - before);
#ifndef __SANITIZE_ADDRESS__ /* it reads freed memory */
    MTEST_CHECK(MPI_T_event_handle_free(registration, NULL, NULL) == MPI_T_ERR_INVALID_HANDLE, "freed twice");
#endif
    for (int i = 1; i < n_seen && i < MAX_SEEN; i++)
        MTEST_CHECK(seen[i].time >= seen[i - 1].time, "event %d is earlier than the one before", i);
    MTEST_CHECK(n_wrong == 0, "%d wrong things in callbacks", n_wrong);
    n_wrong = 0;
}

/* An event was seen whose last three values are these; -1: any. */
static void expect(const char *what, MPI_Count a, MPI_Count b, MPI_Count c)
{
    for (int i = 0; i < n_seen; i++)
        if ((a == -1 || seen[i].values[1] == a) && (b == -1 || seen[i].values[2] == b) &&
            (c == -1 || seen[i].values[3] == c))
            return;
    mtest_fail(__FILE__, __LINE__, "no %s (%lld, %lld, %lld) among %d events", what, (long long)a,
               (long long)b, (long long)c, n_seen);
}

/* Descriptions: elements, names, categories. */
static void check_types(void)
{
    int n_types = 0, n_categories = 0, n_listed = 0;

    MTEST_OK(MPI_T_event_get_num(&n_types));
    MTEST_CHECK(n_types >= 13, "%d types of events", n_types);
    for (int i = 0; i < n_types; i++) {
        char name[64] = "", desc[200] = "", short_name[4], item[32];
        int name_len = sizeof name, desc_len = sizeof desc, short_len = sizeof short_name;
        int verbosity, n = MAX_VALUES, bind, one = 1, n_items = 0, again = -1, value = -1, item_len;
        MPI_Datatype types[MAX_VALUES];
        MPI_Aint at[MAX_VALUES];
        MPI_T_enum names;
        MPI_Info info = MPI_INFO_NULL;
        MTEST_OK(MPI_T_event_get_info(i, name, &name_len, &verbosity, types, at, &n, &names, &info, desc,
                                      &desc_len, &bind));
        MTEST_CHECK(strncmp(name, "heddle_", 7) == 0 && (int)strlen(name) + 1 == name_len && desc[0],
                    "type %d: '%s'", i, name);
        MTEST_CHECK((bind == MPI_T_BIND_MPI_COMM) == (strncmp(name, "heddle_comm_", 12) == 0), "%s: bind %d",
                    name, bind);
        MTEST_OK(MPI_Info_free(&info));
        MTEST_OK(MPI_T_event_get_info(i, short_name, &short_len, NULL, types, at, &one, NULL, NULL, NULL,
                                      NULL, NULL));
        MTEST_CHECK(strcmp(short_name, "hed") == 0 && short_len == name_len && one == n, "%s: truncation",
                    name);
        MTEST_OK(MPI_T_event_get_index(name, &again));
        MTEST_CHECK(again == i, "%s has the index %d and %d", name, i, again);
        MTEST_OK(MPI_T_enum_get_info(names, &n_items, NULL, NULL));
        MTEST_CHECK(n_items == n && n > 0 && n <= MAX_VALUES, "%s: %d elements, %d names", name, n, n_items);
        for (int k = 0; k < n; k++) {
            item_len = sizeof item;
            MTEST_OK(MPI_T_enum_get_item(names, k, &value, item, &item_len));
            MTEST_CHECK(value == k && item[0] && at[k] == 8 * k, "%s: element %d", name, k);
            MTEST_CHECK(
                types[k] ==
                    (strcmp(item, "call_name") == 0 || strcmp(item, "operation") == 0 ? MPI_AINT : MPI_COUNT),
                "%s: type of %s", name, item);
        }
        MTEST_CHECK(MPI_T_enum_get_item(names, n, &value, NULL, NULL) == MPI_T_ERR_INVALID_ITEM, "item %d",
                    n);
    }
    MTEST_OK(MPI_T_category_get_num(&n_categories));
    for (int i = 0; i < n_categories; i++) {
        int n = 0, indices[64];
        MTEST_OK(MPI_T_category_get_num_events(i, &n));
        MTEST_OK(MPI_T_category_get_events(i, 64, indices));
        for (int k = 0; k < n; k++)
            MTEST_CHECK(indices[k] >= 0 && indices[k] < n_types, "category %d has the event %d", i,
                        indices[k]);
        n_listed += n;
    }
    MTEST_CHECK(n_listed == n_types, "%d of %d types are in categories", n_listed, n_types);
}

static void check_source(void)
{
    MPI_T_source_order order;
    MPI_Count ticks, most, before, after;
    MPI_Info info;
    int n = 0;

    MTEST_OK(MPI_T_source_get_num(&n));
    MTEST_CHECK(n == 1, "%d sources", n);
    MTEST_OK(MPI_T_source_get_info(0, NULL, NULL, NULL, NULL, &order, &ticks, &most, &info));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_CHECK(order == MPI_T_SOURCE_ORDERED && ticks == 1000000000 && most > 0, "the source is wrong");
    MTEST_OK(MPI_T_source_get_timestamp(0, &before));
    MTEST_OK(MPI_T_source_get_timestamp(0, &after));
    MTEST_CHECK(after >= before, "time goes back");
    MTEST_CHECK(MPI_T_source_get_timestamp(0, NULL) == MPI_T_ERR_INVALID, "no error");
}

/* Wrong arguments of what concerns a registration. */
static void check_arguments(void)
{
    MPI_Comm null = MPI_COMM_NULL;
    MPI_T_event_registration r, bound;
    MPI_Info info;

    MTEST_CHECK(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, NULL) == MPI_T_ERR_INVALID, "no address");
    MTEST_CHECK(MPI_T_event_handle_alloc(index_of("heddle_comm_send_posted"), &null, MPI_INFO_NULL, &bound) ==
                    MPI_T_ERR_INVALID_HANDLE,
                "MPI_COMM_NULL");
    MTEST_CHECK(MPI_T_event_handle_alloc(index_of("heddle_comm_send_posted"), NULL, MPI_INFO_NULL, &bound) ==
                    MPI_T_ERR_INVALID_HANDLE,
                "no object");
    r = listen("heddle_send_posted");
    MTEST_CHECK(MPI_T_event_register_callback(r, 1, MPI_INFO_NULL, NULL, on_event) == MPI_T_ERR_INVALID,
                "level 1");
    MTEST_OK(MPI_T_event_handle_get_info(r, &info));
    MTEST_OK(MPI_T_event_handle_set_info(r, info));
    MTEST_OK(MPI_T_event_callback_set_info(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, info));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPI_T_event_callback_get_info(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, &info));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_CHECK(MPI_T_event_callback_get_info(r, MPI_T_CB_REQUIRE_NONE, &info) == MPI_T_ERR_INVALID,
                "no callback");
    MTEST_CHECK(MPI_T_event_handle_get_info(r, NULL) == MPI_T_ERR_INVALID, "no address");
    MTEST_OK(MPI_T_event_register_callback(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL, NULL, NULL));
    MTEST_OK(MPI_Sendrecv(&info, 0, MPI_INT, MPI_PROC_NULL, 0, &info, 0, MPI_INT, MPI_PROC_NULL, 0,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    stop(r);
    MTEST_CHECK(n_seen == 0, "%d events without a callback", n_seen);
}

/* Messages around a ring: blocking, nonblocking, persistent, synchronous, large. */
static void check_messages(const char *name, int is_send)
{
    int right = (mtest_rank + 1) % mtest_size, left = (mtest_rank + mtest_size - 1) % mtest_size;
    static char out[100000], in[100000];
    MPI_Request requests[2];
    MPI_T_event_registration r = listen(name);
    int n_expected = 0;

    for (int i = 0; i < 4; i++) {
        int bytes = i < 2 ? 8 : i == 2 ? 5000 : (int)sizeof out;
        MPI_Irecv(in, sizeof in, MPI_BYTE, left, 10 + i, MPI_COMM_WORLD, &requests[0]);
        if (i == 1)
            MPI_Issend(out, bytes, MPI_BYTE, right, 10 + i, MPI_COMM_WORLD, &requests[1]);
        else
            MPI_Isend(out, bytes, MPI_BYTE, right, 10 + i, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        n_expected++;
    }
    MPI_Sendrecv(out, 8, MPI_BYTE, right, 20, in, 8, MPI_BYTE, left, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    n_expected++;
    MPI_Recv_init(in, 16, MPI_BYTE, left, 21, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out, 16, MPI_BYTE, right, 21, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 5; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        n_expected++;
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    if (mtest_rank % 2 == 0 && right != mtest_rank)
        MPI_Send(out, 8, MPI_BYTE, right, 22, MPI_COMM_WORLD);
    if (left % 2 == 0 && left != mtest_rank)
        MPI_Recv(in, 8, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    n_expected += (is_send ? mtest_rank % 2 == 0 : left % 2 == 0) && right != mtest_rank;
    stop(r);
    MTEST_CHECK(n_seen == n_expected && n_dropped == 0, "%s: %d events, %d dropped, %d expected", name,
                n_seen, n_dropped, n_expected);
    for (int i = 0; i < 4 && strcmp(name, "heddle_message_matched") != 0; i++)
        expect(name, is_send ? right : left, 10 + i,
               strcmp(name, "heddle_receive_posted") == 0 ? (int)sizeof in
               : i < 2                                    ? 8
               : i == 2                                   ? 5000
                                                          : (int)sizeof out);
    expect(name, is_send ? right : left, 21, -1);
    for (int i = 1; i < n_seen; i++)
        MTEST_CHECK(seen[i].values[0] == seen[0].values[0], "%s: two contexts of one communicator", name);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A message that waits for its receive, and one that does not. */
static void check_unexpected(void)
{
    MPI_T_event_registration r = listen("heddle_message_unexpected"), matched;
    int value = 7;
    MPI_Request request;

    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0)
        MPI_Isend(&value, 1, MPI_INT, 1, 31, MPI_COMM_WORLD, &request);
    if (mtest_rank == 1)
        MPI_Probe(0, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    stop(r);
    if (mtest_rank == 1)
        expect("message_unexpected", 0, 31, (int)sizeof value);
    matched = listen("heddle_message_matched");
    if (mtest_rank == 1)
        MPI_Recv(&value, 1, MPI_INT, 0, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    stop(matched);
    if (mtest_rank == 1)
        expect("message_matched", 0, 31, 1);
    if (mtest_rank == 0)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    matched = listen("heddle_message_matched");
    if (mtest_rank == 1)
        MPI_Irecv(&value, 1, MPI_INT, 0, 32, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0)
        MPI_Send(&value, 1, MPI_INT, 1, 32, MPI_COMM_WORLD);
    if (mtest_rank == 1)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    stop(matched);
    if (mtest_rank == 1)
        expect("message_matched", 0, 32, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_collectives(const char *name)
{
    MPI_T_event_registration r = listen(name);
    static const char *const names[] = {"barrier", "bcast", "allreduce"};
    int value = 1, sum = 0;
    MPI_Request request;

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&value, 1, MPI_INT, mtest_size - 1, MPI_COMM_WORLD);
    MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    stop(r);
    MTEST_CHECK(n_seen == 3 && sum == mtest_size, "%s: %d events", name, n_seen);
    for (int i = 0; i < 3 && i < n_seen; i++) {
        const char *got = (const char *)(intptr_t)seen[i].values[1];
        MTEST_CHECK(strcmp(got, names[i]) == 0, "%s %d is of %s instead of %s", name, i, got, names[i]);
    }
    for (int i = 0; i < 3 && strcmp(name, "heddle_collective_begin") == 0; i++)
        MTEST_CHECK(seen[i].values[2] == (i == 1 ? mtest_size - 1 : -1), "the root is %lld",
                    (long long)seen[i].values[2]);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Operations on a window that exists before events are wanted, and after they were. */
static void check_windows(void)
{
    int right = (mtest_rank + 1) % mtest_size, in = -1, *base;
    MPI_T_event_registration r;
    MPI_Win win;

    MTEST_OK(MPI_Win_allocate(2 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    base[0] = base[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 2; i++) {
        r = listen("heddle_one_sided");
        MTEST_OK(MPI_Put(&mtest_rank, 1, MPI_INT, right, 0, 1, MPI_INT, win));
        MTEST_OK(MPI_Win_flush(right, win));
        MTEST_OK(MPI_Get(&in, 1, MPI_INT, right, 0, 1, MPI_INT, win));
        MTEST_OK(MPI_Win_flush(right, win));
        MTEST_OK(MPI_Fetch_and_op(NULL, &in, MPI_INT, 0, 1, MPI_NO_OP, win));
        MTEST_OK(MPI_Win_flush(0, win));
        stop(r);
        MTEST_CHECK(n_seen == 3 && in >= 0, "%d events of one-sided operations", n_seen);
        for (int k = 0; k < n_seen && k < 3; k++) {
            static const char *const names[] = {"MPI_Put", "MPI_Get", "MPI_Fetch_and_op"};
            MTEST_CHECK(strcmp((const char *)(intptr_t)seen[k].values[2], names[k]) == 0 &&
                            seen[k].values[1] == (k < 2 ? right : 0) &&
                            seen[k].values[3] == (MPI_Count)sizeof(int),
                        "operation %d is another one", k);
        }
        MTEST_OK(MPI_Put(&mtest_rank, 1, MPI_INT, right, 0, 1, MPI_INT, win)); /* nobody wants this */
    }
    MTEST_OK(MPI_Win_unlock_all(win));
    r = listen_at("heddle_window_sync", NULL, MPI_T_CB_REQUIRE_NONE);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
    MTEST_OK(MPI_Win_unlock(right, win));
    MTEST_CHECK(n_seen == 2, "%d events before the calls that they are of return", n_seen);
    stop(r);
    MTEST_CHECK(n_seen == 2 && seen[0].values[1] == right && seen[0].values[3] == 1 &&
                    strcmp((const char *)(intptr_t)seen[1].values[2], "MPI_Win_unlock") == 0,
                "%d events of synchronisations", n_seen);
    MTEST_OK(MPI_Win_free(&win));
}

/* Rank 1 waits until rank 0 has had the event. */
static void check_blocking(void)
{
    MPI_T_event_registration r;
    int value = 0;

    for (int i = 0; i < 2; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        r = listen(i ? "heddle_rank_resumed" : "heddle_rank_blocked");
        if (mtest_rank == 1) { /* these two cannot both find their message */
            MPI_Recv(&value, 1, MPI_INT, 0, 41, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Ssend(&value, 1, MPI_INT, 0, 42, MPI_COMM_WORLD);
        } else if (mtest_rank == 0) {
            MPI_Ssend(&value, 1, MPI_INT, 1, 41, MPI_COMM_WORLD);
            MPI_Recv(&value, 1, MPI_INT, 1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (int k = 0; k < 20; k++)
            MPI_Barrier(MPI_COMM_WORLD);
        stop(r);
        MTEST_CHECK(mtest_size == 1 || n_seen > 0 || mtest_size > 2, "no rank_%s", i ? "resumed" : "blocked");
        for (int k = 0; k < n_seen; k++) {
            const char *call = (const char *)(intptr_t)seen[k].values[0];
            MTEST_CHECK(strncmp(call, "MPI_", 4) == 0 && (i == 0 || seen[k].values[1] >= 0),
                        "blocked in '%s'", call);
        }
    }
}

/* All ranks of a PE sleep: it is idle, unless the time is over before it is its turn, under load. (A process with one rank may
 * sleep outside of the library.) */
static void check_idle(void)
{
    MPI_T_event_registration r = listen("heddle_pe_idle");

    for (int i = 0; i < 100 && n_seen == 0; i++)
        usleep(2000);
    MPI_Barrier(MPI_COMM_WORLD);
    stop(r);
    MTEST_CHECK(n_seen > 0 || mtest_size < 8, "the PE was never idle");
    for (int i = 0; i < n_seen; i++)
        MTEST_CHECK(seen[i].values[0] >= 0 && seen[i].values[1] > 0, "PE %lld was idle for %lld ns",
                    (long long)seen[i].values[0], (long long)seen[i].values[1]);
}

/* A bound event concerns its communicator only, also after MPI_Comm_free; new communicators are watched, too. */
static void check_bound(void)
{
    MPI_Comm dup, later;
    MPI_T_event_registration r, all;
    int n_bound;

    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    r = listen_at("heddle_comm_collective_end", &dup, MPI_T_CB_REQUIRE_THREAD_SAFE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(dup);
    MPI_Comm_free(&dup);
    MPI_Barrier(MPI_COMM_WORLD);
    stop(r);
    n_bound = n_seen;
    MTEST_CHECK(n_bound == 1, "%d events of one collective on the communicator", n_bound);
    all = listen("heddle_collective_begin");
    MPI_Comm_dup(MPI_COMM_WORLD, &later);
    MPI_Barrier(later);
    stop(all);
    MTEST_CHECK(n_seen == 2 && seen[0].values[0] != seen[1].values[0], "%d events", n_seen);
    MPI_Comm_free(&later);
}

/* ---- What callbacks do ---- */

static void free_itself(MPI_T_event_instance event, MPI_T_event_registration registration,
                        MPI_T_cb_safety safety, void *user_data)
{
    (void)event, (void)safety;
    n_called++;
    n_wrong += MPI_T_event_handle_free(registration, user_data, on_free) != MPI_SUCCESS;
    n_wrong += MPI_T_event_handle_free(registration, user_data, on_free) != MPI_T_ERR_INVALID_HANDLE;
}

static MPI_T_event_instance kept;

/* Needs MPI_T_CB_REQUIRE_NONE: it communicates. Its own messages are dropped. */
static void communicate(MPI_T_event_instance event, MPI_T_event_registration registration,
                        MPI_T_cb_safety safety, void *user_data)
{
    int out = mtest_rank, in = -1;
    (void)registration, (void)user_data;
    kept = event;
    n_called++;
    n_wrong += safety != MPI_T_CB_REQUIRE_NONE;
    n_wrong += MPI_Sendrecv(&out, 1, MPI_INT, mtest_rank, 51, &in, 1, MPI_INT, mtest_rank, 51, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE) != MPI_SUCCESS ||
               in != out;
}

static void check_callbacks(void)
{
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size,
        freed = n_freed, x = 0;
    MPI_T_event_registration r = listen("heddle_send_posted");

    MTEST_OK(MPI_T_event_register_callback(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL, (void *)&marker,
                                           free_itself));
    for (int i = 0; i < 3; i++)
        MPI_Sendrecv(&x, 1, MPI_INT, right, 50, &x, 1, MPI_INT, left, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MTEST_CHECK(n_called == 1 && n_freed == freed + 1 && n_wrong == 0,
                "%d calls of a callback that frees its handle", n_seen);

    r = listen_at("heddle_send_posted", NULL, MPI_T_CB_REQUIRE_NONE);
    MTEST_OK(
        MPI_T_event_register_callback(r, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, (void *)&marker, communicate));
    for (int i = 0; i < 3; i++)
        MPI_Sendrecv(&x, 1, MPI_INT, right, 50, &x, 1, MPI_INT, left, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    stop(r);
    MTEST_CHECK(n_called == 3 && n_dropped == 3, "%d events, %d dropped", n_called, n_dropped);
    MTEST_CHECK(kept != NULL, "no instance");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* More events than the queue holds while this rank makes no call: all are seen or counted. */
static void check_thousands(void)
{
    enum { N = 3000 };
    MPI_T_event_registration r = listen("heddle_message_unexpected");
    int x = 0, is_sender = mtest_rank == 0;

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < N && is_sender; i++)
        MPI_Send(&x, 1, MPI_INT, 1, 61, MPI_COMM_WORLD);
    if (is_sender)
        MPI_Send(&x, 1, MPI_INT, 1, 62, MPI_COMM_WORLD);
    if (mtest_rank == 1) {
        MPI_Recv(&x, 1, MPI_INT, 0, 62, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < N; i++)
            MPI_Recv(&x, 1, MPI_INT, 0, 61, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (is_sender) /* one more event, which brings the number of dropped ones */
        MPI_Send(&x, 1, MPI_INT, 1, 63, MPI_COMM_WORLD);
    if (mtest_rank == 1) {
        MPI_Probe(0, 63, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&x, 1, MPI_INT, 0, 63, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    stop(r);
    if (mtest_rank == 1)
        MTEST_CHECK(n_seen + n_dropped >= N && n_seen + n_dropped <= N + 2,
                    "%d events seen, %d dropped of %d", n_seen, n_dropped, N);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int provided, x = 0;

    MTEST_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_types();
    check_source();
    MPI_T_event_registration early = listen("heddle_collective_begin");
    mtest_init(&argc, &argv, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    stop(early);
    MTEST_CHECK(n_seen > 0, "a registration before MPI_Init saw no barrier");
    check_arguments();
    check_messages("heddle_send_posted", 1);
    check_messages("heddle_send_completed", 1);
    check_messages("heddle_receive_posted", 0);
    check_messages("heddle_receive_completed", 0);
    check_messages("heddle_message_matched", 0);
    check_unexpected();
    check_collectives("heddle_collective_begin");
    check_collectives("heddle_collective_end");
    check_windows();
    check_blocking();
    check_idle();
    check_bound();
    check_callbacks();
    check_thousands();
    MTEST_OK(MPI_T_finalize());
    MPI_Bcast(&x, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MTEST_CHECK(MPI_T_event_handle_free(early, NULL, NULL) == MPI_T_ERR_NOT_INITIALIZED, "MPI_T_finalize");
    return mtest_end();
}
