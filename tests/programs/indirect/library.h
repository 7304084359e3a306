/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that uses MPI for its callers.
 */
void library_begin(void);
int library_sum(
    void); /* the sum of the ranks' numbers, at the first call in a rank whose library is constructed */
void library_end(void);
