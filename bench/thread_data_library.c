/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The library of thread_data.c: BYTES of thread_local data.
 */
_Thread_local char library_data[BYTES];

void data_touch(int value)
{
    library_data[0] = library_data[BYTES - 1] = (char)value;
}

int data_get(void)
{
    return library_data[BYTES - 1];
}
