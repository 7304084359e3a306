/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One of the libraries of many_libraries.c; NUMBER is its number.
 */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

static int sum, n_constructed;
static int *pointer = &sum;
static char room[5000];
int JOIN(many_value, NUMBER) = NUMBER;
int JOIN(many_add, NUMBER)(int n);

__attribute__((constructor)) static void construct(void)
{
    n_constructed++;
}

int JOIN(many_add, NUMBER)(int n)
{
    room[n & 4095]++;
    *pointer += n;
    return n_constructed == 1 ? sum + JOIN(many_value, NUMBER) : -1;
}
