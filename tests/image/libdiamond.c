/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The three libraries of diamond.c and constructors.c, by -DLEFT, -DRIGHT and -DCOUNTER; with -DTEXTREL, one
 * that cannot be copied.
 */
int counter_add(int n);
int counter_constructed(void);
int left_add(int n);
int right_add(int n);

#ifdef COUNTER
static int sum, n_constructed;

__attribute__((constructor)) static void construct(void)
{
    n_constructed++;
}

int counter_constructed(void)
{
    return n_constructed;
}

int counter_add(int n)
{
    return sum += n;
}
#endif

#ifdef CONSTRUCTOR
__attribute__((constructor)) static void count_constructions(void)
{
    counter_add(1);
}

__attribute__((destructor)) static void count_destructions(void)
{
    counter_add(-1);
}
#endif

#ifdef LEFT
int left_add(int n)
{
    return counter_add(n);
}
#endif

#ifdef TEXTREL
__asm__(".text\n.globl right_in_text\nright_in_text: .quad right_add\n");
#endif

#ifdef RIGHT
int right_add(int n)
{
    return counter_add(n);
}
#endif
