/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libtls.h: what libtls.c exports.
 */
extern _Thread_local int tls_counter;
int *tls_counter_address(void);
int tls_is_pointer_right(void); /* an address as initial value is that of the same copy */
int *tls_aligned_address(void);
char *tls_big_address(void); /* of 190,000 zero bytes */
