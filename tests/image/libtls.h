/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libtls.h: the functions and variables that libtls.c exports.
 */
extern _Thread_local int tls_counter;
int *tls_counter_address(void);
int tls_is_pointer_right(void); /* an address as initial value is that of the same copy */
int *tls_aligned_address(void); /* to 64 bytes */
int *tls_page_address(void);    /* to 4096 bytes */
char *tls_big_address(void);    /* of 190,000 zero bytes */

/* The weighted sum of the arguments and of a thread_local variable, which is 1. It is accessed while all
 * arguments are in registers. */
double tls_sum(double a, double b, double c, double d, double e, double f, double g, double h, long i, long j,
               long k, long l, long m, long n);
