/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The other file of variables.cu.
 */
__device__ int in_other_file = 15;

__device__ int count_calls(void)
{
    static int calls = 16;

    return calls++;
}
