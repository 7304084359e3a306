/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_T: every function returns the error class of its wrong argument and calls no error handler; before
 * MPI_T_init_thread and after MPI_T_finalize it returns the error for that. */
#include "mtest.h"

/* One call, and what it must return. */
#define EXPECT(call, wanted)                                                                        \
    do {                                                                                            \
        int got_ = (call);                                                                          \
        MTEST_CHECK(got_ == (wanted), "%s: %d instead of %s (%d)", #call, got_, #wanted, (wanted)); \
    } while (0)

#define UNINIT MPI_T_ERR_NOT_INITIALIZED
#define NAME MPI_T_ERR_INVALID_NAME
#define INDEX MPI_T_ERR_INVALID_INDEX
#define HANDLE MPI_T_ERR_INVALID_HANDLE
#define SESSION MPI_T_ERR_INVALID_SESSION
#define BAD MPI_T_ERR_INVALID

static int n;
static MPI_Count ticks;
static MPI_T_cvar_handle cvar;
static MPI_T_pvar_handle pvar;
static MPI_T_pvar_session session, wrong_session;
static MPI_T_event_registration registration;
static MPI_Info info;
static unsigned long buf;

/* With an index, a name or a handle that never was. `or` : what to expect if not that. */
static void walk(int not_init)
{
    static int not_a_handle[64];
    MPI_T_cvar_handle no_cvar = MPI_T_CVAR_HANDLE_NULL, wrong_cvar = (MPI_T_cvar_handle)not_a_handle;
    MPI_T_pvar_handle no_pvar = MPI_T_PVAR_HANDLE_NULL, wrong_pvar = (MPI_T_pvar_handle)not_a_handle;
    MPI_T_pvar_session no_session = MPI_T_PVAR_SESSION_NULL;
    MPI_T_event_registration wrong_registration = (MPI_T_event_registration)not_a_handle;
    MPI_T_event_instance wrong_instance = (MPI_T_event_instance)not_a_handle;
    static const int indices[] = {-1, 1000000};
#define WANT(class) (not_init ? UNINIT : (class))

    wrong_session = (MPI_T_pvar_session)not_a_handle;
    for (int i = 0; i < 2; i++) {
        int x = indices[i];
        EXPECT(MPI_T_cvar_get_info(x, NULL, NULL, &n, NULL, NULL, NULL, NULL, &n, &n), WANT(INDEX));
        EXPECT(MPI_T_cvar_handle_alloc(x, NULL, &cvar, &n), WANT(INDEX));
        EXPECT(MPI_T_pvar_get_info(x, NULL, NULL, &n, &n, NULL, NULL, NULL, NULL, &n, &n, &n, &n),
               WANT(INDEX));
        if (session != MPI_T_PVAR_SESSION_NULL)
            EXPECT(MPI_T_pvar_handle_alloc(session, x, NULL, &pvar, &n), WANT(INDEX));
        EXPECT(MPI_T_category_get_info(x, NULL, NULL, NULL, NULL, &n, &n, &n), WANT(INDEX));
        EXPECT(MPI_T_category_get_cvars(x, 1, &n), WANT(INDEX));
        EXPECT(MPI_T_category_get_pvars(x, 1, &n), WANT(INDEX));
        EXPECT(MPI_T_category_get_events(x, 1, &n), WANT(INDEX));
        EXPECT(MPI_T_category_get_categories(x, 1, &n), WANT(INDEX));
        EXPECT(MPI_T_category_get_num_events(x, &n), WANT(INDEX));
        EXPECT(MPI_T_event_get_info(x, NULL, NULL, &n, NULL, NULL, &n, NULL, NULL, NULL, NULL, &n),
               WANT(INDEX));
        EXPECT(MPI_T_event_handle_alloc(x, NULL, MPI_INFO_NULL, &registration), WANT(INDEX));
        EXPECT(MPI_T_source_get_info(x, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), WANT(INDEX));
        EXPECT(MPI_T_source_get_timestamp(x, &ticks), WANT(INDEX));
    }
    EXPECT(MPI_T_cvar_get_index("", &n), WANT(NAME));
    EXPECT(MPI_T_pvar_get_index("nothing", MPI_T_PVAR_CLASS_COUNTER, &n), WANT(NAME));
    EXPECT(MPI_T_pvar_get_index("heddle_switches", MPI_T_PVAR_CLASS_TIMER, &n), WANT(NAME));
    EXPECT(MPI_T_category_get_index("nothing", &n), WANT(NAME));
    EXPECT(MPI_T_event_get_index("nothing", &n), WANT(NAME));

    EXPECT(MPI_T_cvar_get_num(NULL), WANT(BAD));
    EXPECT(MPI_T_cvar_get_index(NULL, &n), WANT(BAD));
    EXPECT(MPI_T_cvar_get_index("heddle_ranks", NULL), WANT(BAD));
    EXPECT(MPI_T_cvar_handle_alloc(0, NULL, NULL, &n), WANT(BAD));
    EXPECT(MPI_T_cvar_handle_alloc(0, NULL, &cvar, NULL), WANT(BAD));
    EXPECT(MPI_T_pvar_get_num(NULL), WANT(BAD));
    EXPECT(MPI_T_pvar_get_index(NULL, MPI_T_PVAR_CLASS_COUNTER, &n), WANT(BAD));
    EXPECT(MPI_T_pvar_get_index("heddle_switches", MPI_T_PVAR_CLASS_COUNTER, NULL), WANT(BAD));
    EXPECT(MPI_T_pvar_session_create(NULL), WANT(BAD));
    EXPECT(MPI_T_category_get_num(NULL), WANT(BAD));
    EXPECT(MPI_T_category_get_index(NULL, &n), WANT(BAD));
    EXPECT(MPI_T_category_get_index("heddle_job", NULL), WANT(BAD));
    EXPECT(MPI_T_category_get_cvars(0, -1, &n), WANT(BAD));
    EXPECT(MPI_T_category_get_pvars(0, 1, NULL), WANT(BAD));
    EXPECT(MPI_T_category_get_events(0, -1, &n), WANT(BAD));
    EXPECT(MPI_T_category_get_categories(0, -1, &n), WANT(BAD));
    EXPECT(MPI_T_category_get_num_events(0, NULL), WANT(BAD));
    EXPECT(MPI_T_category_changed(NULL), WANT(BAD));
    EXPECT(MPI_T_event_get_num(NULL), WANT(BAD));
    EXPECT(MPI_T_source_get_num(NULL), WANT(BAD));

    EXPECT(MPI_T_cvar_handle_free(&no_cvar), WANT(HANDLE));
    EXPECT(MPI_T_cvar_handle_free(&wrong_cvar), WANT(HANDLE));
    EXPECT(MPI_T_cvar_handle_free(NULL), WANT(HANDLE));
    EXPECT(MPI_T_cvar_read(no_cvar, &buf), WANT(HANDLE));
    EXPECT(MPI_T_cvar_read(wrong_cvar, &buf), WANT(HANDLE));
    EXPECT(MPI_T_cvar_write(no_cvar, &buf), WANT(HANDLE));
    EXPECT(MPI_T_cvar_write(wrong_cvar, &buf), WANT(HANDLE));
    EXPECT(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, NULL, NULL), WANT(HANDLE));
    EXPECT(MPI_T_enum_get_item(MPI_T_ENUM_NULL, 0, &n, NULL, NULL), WANT(HANDLE));

    EXPECT(MPI_T_pvar_session_free(NULL), WANT(SESSION));
    EXPECT(MPI_T_pvar_session_free(&no_session), WANT(SESSION));
    EXPECT(MPI_T_pvar_session_free(&wrong_session), WANT(SESSION));
    for (int i = 0; i < 2; i++) {
        MPI_T_pvar_session bad = i ? wrong_session : no_session;
        EXPECT(MPI_T_pvar_handle_alloc(bad, 0, NULL, &pvar, &n), WANT(SESSION));
        EXPECT(MPI_T_pvar_handle_free(bad, &wrong_pvar), WANT(SESSION));
        EXPECT(MPI_T_pvar_read(bad, wrong_pvar, &buf), WANT(SESSION));
        EXPECT(MPI_T_pvar_write(bad, wrong_pvar, &buf), WANT(SESSION));
        EXPECT(MPI_T_pvar_reset(bad, wrong_pvar), WANT(SESSION));
        EXPECT(MPI_T_pvar_readreset(bad, wrong_pvar, &buf), WANT(SESSION));
        EXPECT(MPI_T_pvar_start(bad, wrong_pvar), WANT(SESSION));
        EXPECT(MPI_T_pvar_stop(bad, MPI_T_PVAR_ALL_HANDLES), WANT(SESSION));
    }
    for (int i = 0; i < 2 && session != MPI_T_PVAR_SESSION_NULL; i++) {
        MPI_T_pvar_handle bad = i ? wrong_pvar : no_pvar;
        EXPECT(MPI_T_pvar_handle_free(session, &bad), WANT(HANDLE));
        EXPECT(MPI_T_pvar_read(session, bad, &buf), WANT(HANDLE));
        EXPECT(MPI_T_pvar_write(session, bad, &buf), WANT(HANDLE));
        EXPECT(MPI_T_pvar_reset(session, bad), WANT(HANDLE));
        EXPECT(MPI_T_pvar_readreset(session, bad, &buf), WANT(HANDLE));
        EXPECT(MPI_T_pvar_start(session, bad), WANT(HANDLE));
        EXPECT(MPI_T_pvar_stop(session, bad), WANT(HANDLE));
    }

    EXPECT(MPI_T_event_handle_free(wrong_registration, NULL, NULL), WANT(HANDLE));
    EXPECT(MPI_T_event_handle_get_info(wrong_registration, &info), WANT(HANDLE));
    EXPECT(MPI_T_event_handle_set_info(wrong_registration, MPI_INFO_NULL), WANT(HANDLE));
    EXPECT(
        MPI_T_event_register_callback(wrong_registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, NULL),
        WANT(HANDLE));
    EXPECT(MPI_T_event_callback_get_info(wrong_registration, MPI_T_CB_REQUIRE_NONE, &info), WANT(HANDLE));
    EXPECT(MPI_T_event_callback_set_info(wrong_registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL),
           WANT(HANDLE));
    EXPECT(MPI_T_event_set_dropped_handler(wrong_registration, NULL), WANT(HANDLE));
    EXPECT(MPI_T_event_read(wrong_instance, 0, &buf), WANT(HANDLE));
    EXPECT(MPI_T_event_copy(wrong_instance, &buf), WANT(HANDLE));
    EXPECT(MPI_T_event_get_source(wrong_instance, &n), WANT(HANDLE));
    EXPECT(MPI_T_event_get_timestamp(wrong_instance, &ticks), WANT(HANDLE));
}

/* Good handles in wrong places. */
static void check_handles(void)
{
    MPI_Comm comm = MPI_COMM_WORLD, null_comm = MPI_COMM_NULL;
    MPI_T_pvar_session other;
    MPI_T_pvar_handle again;
    int index, count;

    EXPECT(MPI_T_cvar_get_index("heddle_ranks", &index), MPI_SUCCESS);
    EXPECT(MPI_T_cvar_handle_alloc(index, NULL, &cvar, &count), MPI_SUCCESS);
    EXPECT(MPI_T_cvar_read(cvar, NULL), BAD);
    EXPECT(MPI_T_cvar_write(cvar, &index), MPI_T_ERR_CVAR_SET_NEVER);
    EXPECT(MPI_T_cvar_handle_free(&cvar), MPI_SUCCESS);
    EXPECT(MPI_T_cvar_handle_free(&cvar), HANDLE);

    EXPECT(MPI_T_pvar_get_index("heddle_collectives", MPI_T_PVAR_CLASS_COUNTER, &index), MPI_SUCCESS);
    EXPECT(MPI_T_pvar_handle_alloc(session, index, NULL, &pvar, &count), HANDLE);
    EXPECT(MPI_T_pvar_handle_alloc(session, index, &null_comm, &pvar, &count), HANDLE);
    EXPECT(MPI_T_pvar_handle_alloc(session, index, &comm, NULL, &count), BAD);
    EXPECT(MPI_T_pvar_handle_alloc(session, index, &comm, &pvar, NULL), BAD);
    EXPECT(MPI_T_pvar_handle_alloc(session, index, &comm, &pvar, &count), MPI_SUCCESS);
    EXPECT(MPI_T_pvar_session_create(&other), MPI_SUCCESS);
    EXPECT(MPI_T_pvar_read(other, pvar, &buf), HANDLE);
    EXPECT(MPI_T_pvar_reset(other, pvar), HANDLE);
    EXPECT(MPI_T_pvar_handle_free(other, &pvar), HANDLE);
    EXPECT(MPI_T_pvar_read(session, MPI_T_PVAR_ALL_HANDLES, &buf), HANDLE);
    EXPECT(MPI_T_pvar_write(session, MPI_T_PVAR_ALL_HANDLES, &buf), HANDLE);
    EXPECT(MPI_T_pvar_readreset(session, MPI_T_PVAR_ALL_HANDLES, &buf), HANDLE);
    again = MPI_T_PVAR_ALL_HANDLES;
    EXPECT(MPI_T_pvar_handle_free(session, &again), HANDLE);
    EXPECT(MPI_T_pvar_handle_free(session, NULL), HANDLE);
    EXPECT(MPI_T_pvar_read(session, pvar, NULL), BAD);
    EXPECT(MPI_T_pvar_write(session, pvar, NULL), BAD);
    EXPECT(MPI_T_pvar_readreset(session, pvar, NULL), BAD);
    EXPECT(MPI_T_pvar_session_free(&other), MPI_SUCCESS);
    EXPECT(MPI_T_pvar_read(session, pvar, &buf), MPI_SUCCESS);
    EXPECT(MPI_T_pvar_handle_free(session, &pvar), MPI_SUCCESS);
    EXPECT(MPI_T_pvar_handle_free(session, &pvar), HANDLE);
}

static void never(MPI_Comm *comm, int *error, ...)
{
    MTEST_CHECK(!comm || !error, "the tool interface called an error handler");
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    int provided;

    mtest_init(&argc, &argv, 1);
    MPI_Comm_create_errhandler(never, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    walk(1);
    EXPECT(MPI_T_finalize(), UNINIT);
    EXPECT(MPI_T_init_thread(MPI_THREAD_MULTIPLE, NULL), BAD);
    EXPECT(MPI_T_finalize(), UNINIT); /* a refused call has no effect */
    EXPECT(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided), MPI_SUCCESS);
    EXPECT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    EXPECT(MPI_T_pvar_session_create(&session), MPI_SUCCESS);
    walk(0);
    check_handles();
    EXPECT(MPI_T_finalize(), MPI_SUCCESS);
    walk(0); /* the other MPI_T_init_thread is still in effect */
    EXPECT(MPI_T_pvar_session_free(&session), MPI_SUCCESS);
    EXPECT(MPI_T_pvar_session_free(&session), SESSION);
    EXPECT(MPI_T_finalize(), MPI_SUCCESS);
    walk(1);
    MPI_Errhandler_free(&handler);
    return mtest_end();
}
