/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libexit_order.h: the library of exit_order.c.
 */
/* Appends a letter to the list. */
void order_note(char letter);
