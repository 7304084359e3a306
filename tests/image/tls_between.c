/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a private library that refers to a thread_local variable of another private library, or of the
 * program, sees the one of the rank and thread; an undefined weak one has no address.
 */
#include "image_test.h"
#include "libtls_between.h"

#include <pthread.h>

_Thread_local int program_variable = 21;

/* value: of this rank and thread */
static void *check(void *value_ptr)
{
    int value = *(const int *)value_ptr;

    CHECK(*user_second_address() == 12 && *user_own_address() == 13 && *user_program_address() == 21);
    CHECK(user_second_address() == &owner_address()->second);
    CHECK(user_program_address() == &program_variable);
    CHECK(!user_missing_address());
    *user_second_address() = *user_own_address() = program_variable = value;
    let_others_run();
    CHECK(owner_address()->first == 11 && owner_address()->second == value);
    CHECK(*user_own_address() == value && *user_program_address() == value);
    return NULL;
}

int main(void)
{
    int value = (int)test_id(), thread_value = value + 1;
    pthread_t thread;

    check(&value);
    CHECK(pthread_create(&thread, NULL, check, &thread_value) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(owner_address()->second == value && program_variable == value);
    puts("ok");
    return 0;
}
