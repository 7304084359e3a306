/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank has at least the stack that +stacksize asks for, and pthread_getattr_np knows it. */
#define _GNU_SOURCE
#include <pthread.h>

#include "mtest.h"

int main(int argc, char **argv)
{
    pthread_attr_t attr;
    void *lo;
    size_t bytes;
    int error;

    mtest_init(&argc, &argv, 1);
    error = pthread_getattr_np(pthread_self(), &attr);
    MTEST_CHECK(error == 0, "pthread_getattr_np returns %d", error);
    if (error == 0) {
        pthread_attr_getstack(&attr, &lo, &bytes);
        MTEST_CHECK((char *)&attr > (char *)lo && (char *)&attr < (char *)lo + bytes, "another stack");
        MTEST_CHECK((size_t)((char *)&attr - (char *)lo) > 15 << 10, "%zu bytes of %zu are left",
                    (size_t)((char *)&attr - (char *)lo), bytes);
        pthread_attr_destroy(&attr);
    }
    return mtest_end();
}
