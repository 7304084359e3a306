/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library with a function of a name that other libraries have, too. NEXT: a wrapper that calls the next one.
 */
#include <dlfcn.h>

#ifdef NEXT
int answer(void)
{
    int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "answer");

    return NUMBER + (next ? next() : 0);
}
#else
int answer(void)
{
    return NUMBER;
}
#endif

int FUNCTION(void)
{
    return answer();
}
