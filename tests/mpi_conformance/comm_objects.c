/* SPDX-License-Identifier: BSD-3-Clause */
/* Names, info objects, error handlers and user error classes of communicators behave as the standard
 * describes. */
#include "mtest.h"

static int handled, last_code;
static MPI_Comm last_comm;

static void handler(MPI_Comm *comm, int *code, ...)
{
    handled++;
    last_code = *code;
    last_comm = *comm;
}

static void names(void)
{
    MPI_Comm dup;
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    MTEST_OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &len));
    MTEST_CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && len == 14, "world is called '%s'", name);
    MTEST_OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &len));
    MTEST_CHECK(strcmp(name, "MPI_COMM_SELF") == 0, "self is called '%s'", name);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MTEST_OK(MPI_Comm_get_name(dup, name, &len));
    MTEST_CHECK(len == 0 && name[0] == 0, "a dup is called '%s'", name);
    MTEST_OK(MPI_Comm_set_name(dup, "weft"));
    MTEST_OK(MPI_Comm_get_name(dup, name, &len));
    MTEST_CHECK(strcmp(name, "weft") == 0 && len == 4, "named '%s'", name);
    MTEST_OK(MPI_Comm_free(&dup));
    MTEST_OK(MPI_Type_get_name(MPI_DOUBLE, name, &len));
    MTEST_CHECK(strcmp(name, "MPI_DOUBLE") == 0, "MPI_DOUBLE is called '%s'", name);
}

static void infos(void)
{
    MPI_Info info, copy, of_comm;
    MPI_Comm comm;
    char value[32], key[MPI_MAX_INFO_KEY];
    int n, flag, len;
    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "colour", "red"));
    MTEST_OK(MPI_Info_set(info, "size", "12"));
    MTEST_OK(MPI_Info_set(info, "colour", "dark blue"));
    MTEST_OK(MPI_Info_get_nkeys(info, &n));
    MTEST_CHECK(n == 2, "%d keys", n);
    MTEST_OK(MPI_Info_get_nthkey(info, 0, key));
    MTEST_CHECK(strcmp(key, "colour") == 0 || strcmp(key, "size") == 0, "first key '%s'", key);
    MTEST_OK(MPI_Info_get(info, "colour", 31, value, &flag));
    MTEST_CHECK(flag && strcmp(value, "dark blue") == 0, "colour is '%s'", value);
    MTEST_OK(MPI_Info_get_valuelen(info, "colour", &len, &flag));
    MTEST_CHECK(flag && len == 9, "length %d", len);
    MTEST_OK(MPI_Info_get(info, "weight", 31, value, &flag));
    MTEST_CHECK(!flag, "a key that is not there");
    MTEST_OK(MPI_Info_dup(info, &copy));
    MTEST_OK(MPI_Info_delete(info, "colour"));
    MTEST_OK(MPI_Info_get_nkeys(copy, &n));
    MTEST_CHECK(n == 2, "the copy has %d keys", n);
    MTEST_CLASS(MPI_Info_delete(info, "colour"), MPI_ERR_INFO_NOKEY);
    MTEST_CLASS2(MPI_Info_get_nkeys(MPI_INFO_NULL, &n), MPI_ERR_INFO, MPI_ERR_ARG);
    char long_key[MPI_MAX_INFO_KEY + 10];
    memset(long_key, 'k', sizeof long_key);
    long_key[sizeof long_key - 1] = 0;
    MTEST_CLASS(MPI_Info_set(info, long_key, "x"), MPI_ERR_INFO_KEY);
#if MPI_VERSION >= 4
    len = 5;
    MTEST_OK(MPI_Info_get_string(copy, "colour", &len, value, &flag));
    MTEST_CHECK(flag && len == 10 && strcmp(value, "dark") == 0, "Info_get_string: '%s', length %d", value,
                len);
    len = 0;
    MTEST_OK(MPI_Info_get_string(copy, "size", &len, value, &flag));
    MTEST_CHECK(flag && len == 3, "Info_get_string asked for the length: %d", len);
#endif
    MTEST_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
    MTEST_OK(MPI_Comm_set_info(comm, copy));
    MTEST_OK(MPI_Comm_get_info(comm, &of_comm));
    MTEST_CHECK(of_comm != MPI_INFO_NULL, "no info of a communicator");
    MTEST_OK(MPI_Info_free(&of_comm));
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPI_Info_free(&copy));
    MTEST_CHECK(info == MPI_INFO_NULL, "Info_free leaves the handle");
}

static void errhandlers(void)
{
    MPI_Errhandler own, got;
    MPI_Comm comm, dup;
    int buf = 0;
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MTEST_OK(MPI_Comm_create_errhandler(handler, &own));
    MTEST_OK(MPI_Comm_set_errhandler(comm, own));
    MTEST_OK(MPI_Comm_get_errhandler(comm, &got));
    MTEST_CHECK(got == own, "another handler than the one set");
    MTEST_OK(MPI_Errhandler_free(&got));
    int code = MPI_Send(&buf, 1, MPI_INT, mtest_size + 1, 0, comm);
    MTEST_CLASS(code, MPI_ERR_RANK);
    MTEST_CHECK(handled == 1 && last_code == code && last_comm == comm, "the handler ran %d times", handled);
    /* It lives on in the communicator after free, and a dup inherits it. */
    MTEST_OK(MPI_Errhandler_free(&own));
    MTEST_CHECK(own == MPI_ERRHANDLER_NULL, "Errhandler_free leaves the handle");
    MTEST_OK(MPI_Comm_dup(comm, &dup));
    MTEST_CLASS(MPI_Bcast(&buf, 1, MPI_INT, -9, dup), MPI_ERR_ROOT);
    MTEST_CHECK(handled == 2 && last_comm == dup, "the dup has another handler");
    MTEST_OK(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
    MTEST_CHECK(handled == 3 && last_code == MPI_ERR_OTHER && last_comm == comm, "call_errhandler: %d",
                last_code);
    MTEST_OK(MPI_Comm_free(&dup));
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    MTEST_CHECK(got == MPI_ERRORS_RETURN, "world's handler is another");
    MTEST_OK(MPI_Errhandler_free(&got));
}

static void user_errors(void)
{
    int class_a, class_b, code, got, len, flag, *last = NULL;
    char text[MPI_MAX_ERROR_STRING];
    MTEST_OK(MPI_Add_error_class(&class_a));
    MTEST_OK(MPI_Add_error_class(&class_b));
    MTEST_CHECK(class_a != class_b && class_a > MPI_ERR_LASTCODE, "classes %d and %d", class_a, class_b);
    MTEST_OK(MPI_Add_error_code(class_a, &code));
    MTEST_OK(MPI_Add_error_string(class_a, "the class"));
    MTEST_OK(MPI_Add_error_string(code, "the shuttle is stuck"));
    MTEST_OK(MPI_Error_class(code, &got));
    MTEST_CHECK(got == class_a, "class of the code: %d", got);
    MTEST_OK(MPI_Error_string(code, text, &len));
    MTEST_CHECK(strcmp(text, "the shuttle is stuck") == 0 && len == 20, "text '%s'", text);
    MTEST_OK(MPI_Error_string(class_a, text, &len));
    MTEST_CHECK(strcmp(text, "the class") == 0, "text '%s'", text);
    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    MTEST_CHECK(flag && *last >= class_b, "MPI_LASTUSEDCODE is %d", flag ? *last : -1);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    names();
    infos();
    errhandlers();
    user_errors();
    return mtest_end();
}
