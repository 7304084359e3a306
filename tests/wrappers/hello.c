/* SPDX-License-Identifier: BSD-3-Clause */
#include "hello.h"

int main(int argc, char **argv)
{
    return hello(argc, argv);
}
