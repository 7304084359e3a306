/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that writes where its caller says.
 */
void crash_in_library(int *where);
void crash_in_library(int *where)
{
    *(volatile int *)where = 1;
}
