/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that refers to MPIX_Stream_create gets CUDA_MODULE_LOADING=EAGER and CUDA_DEVICE_MAX_CONNECTIONS=32, unless they are set:
 * kernels whose first launch waits for the GPU, or few connections, would hold up streams that wait for messages. Argument: the number
 * of connections that the environment has.
 */
#include <stdlib.h>

#include "enqueue.h"

static void expect_variable(const char *name, const char *expected)
{
    const char *value = getenv(name);

    MTEST_CHECK(value && strcmp(value, expected) == 0, "%s is %s instead of %s", name,
                value ? value : "unset", expected);
}

int main(int argc, char **argv)
{
    struct etest test;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    expect_variable("CUDA_MODULE_LOADING", "EAGER");
    expect_variable("CUDA_DEVICE_MAX_CONNECTIONS", argc > 1 ? argv[1] : "32");
    test = etest_begin(0, 0);
    etest_end(&test);
    return mtest_end();
}
