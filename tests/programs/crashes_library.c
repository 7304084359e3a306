/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that writes to an address that its caller passes.
 */
void crash_in_library(int *where);
void crash_in_library(int *where)
{
    *(volatile int *)where = 1;
}
