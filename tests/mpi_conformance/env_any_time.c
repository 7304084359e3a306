/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that may be called before MPI_Init and after MPI_Finalize work there, also in a session:
 * inquiries, info objects, error classes, error handlers for sessions, the tool interface. */
#include "mtest.h"

static int n_handled;

static void count_errors(MPI_Session *session, int *error, ...)
{
    (void)session;
    (void)error;
    n_handled++;
}

static int check(int condition, const char *what, const char *when)
{
    if (!condition)
        fprintf(stderr, "FAIL %s MPI: %s\n", when, what);
    return !condition;
}

#define CHECK(condition) n_wrong += check(condition, #condition, when)
#define OK(call) n_wrong += check((call) == MPI_SUCCESS, #call, when)

static int check_inquiries(const char *when, int is_initialized, int is_finalized)
{
    int n_wrong = 0, flag = -1, version = 0, subversion = 0, len = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];

    OK(MPI_Initialized(&flag));
    CHECK(flag == is_initialized);
    OK(MPI_Finalized(&flag));
    CHECK(flag == is_finalized);
    OK(MPI_Get_version(&version, &subversion));
    CHECK(version >= 4);
    OK(MPI_Get_library_version(text, &len));
    CHECK(len > 0 && len == (int)strlen(text));
    return n_wrong;
}

static int check_infos(const char *when)
{
    int n_wrong = 0, flag = 0, n_keys = 0, len = 8;
    char key[MPI_MAX_INFO_KEY], value[8];
    MPI_Info info, dup, env;

    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "key", "value"));
    OK(MPI_Info_get_string(info, "key", &len, value, &flag));
    CHECK(flag && len == 6 && strcmp(value, "value") == 0);
    OK(MPI_Info_dup(info, &dup));
    OK(MPI_Info_delete(info, "key"));
    OK(MPI_Info_get_nkeys(info, &n_keys));
    CHECK(n_keys == 0);
    OK(MPI_Info_get_nthkey(dup, 0, key));
    CHECK(strcmp(key, "key") == 0);
    OK(MPI_Info_get_valuelen(dup, "key", &len, &flag));
    CHECK(flag && len == 5);
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&dup));
    OK(MPI_Info_create_env(0, NULL, &env));
    OK(MPI_Info_free(&env));
    return n_wrong;
}

static int check_errors(const char *when)
{
    int n_wrong = 0, error_class = -1, code = -1, len = 0;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Errhandler handler;

    OK(MPI_Error_class(MPI_ERR_TAG, &error_class));
    CHECK(error_class == MPI_ERR_TAG);
    OK(MPI_Error_string(MPI_ERR_TAG, text, &len));
    CHECK(len > 0);
    OK(MPI_Add_error_class(&error_class));
    OK(MPI_Add_error_code(error_class, &code));
    OK(MPI_Add_error_string(code, "ours"));
    OK(MPI_Error_string(code, text, &len));
    CHECK(strcmp(text, "ours") == 0);
    OK(MPI_Remove_error_string(code));
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_class(error_class));
    OK(MPI_Session_create_errhandler(count_errors, &handler));
    OK(MPI_Errhandler_free(&handler));
    CHECK(handler == MPI_ERRHANDLER_NULL);
    return n_wrong;
}

static int check_tools(const char *when)
{
    int n_wrong = 0, provided = -1, n_cvars = -1;

    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_cvar_get_num(&n_cvars));
    CHECK(n_cvars >= 0);
    OK(MPI_T_finalize());
    return n_wrong;
}

/* A session is opened and closed as if the world model did not exist. */
static int check_sessions(const char *when)
{
    int n_wrong = 0, n_psets = 0;
    MPI_Errhandler handler;
    MPI_Session session;

    OK(MPI_Session_create_errhandler(count_errors, &handler));
    OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n_psets));
    CHECK(n_psets >= 2);
    n_handled = 0;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL);
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK(n_handled == 2);
    OK(MPI_Session_finalize(&session));
    return n_wrong;
}

static int check_all(const char *when, int is_initialized, int is_finalized)
{
    return check_inquiries(when, is_initialized, is_finalized) + check_infos(when) + check_errors(when) +
           check_tools(when) + check_sessions(when);
}

int main(int argc, char **argv)
{
    int n_wrong = check_all("before", 0, 0);

    mtest_init(&argc, &argv, 1);
    n_wrong += check_all("in", 1, 0);
    MPI_Finalize();
    n_wrong += check_all("after", 1, 1);
    return n_wrong != 0;
}
