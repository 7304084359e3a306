/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that only plugins depend on; it counts.
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
