/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that only plugins bring along: it counts.
 */
static int counter;

int helper_count(void)
{
    return ++counter;
}

const void *helper_address(void)
{
    return &counter;
}
