/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that loads its library, which uses MPI, at run time, as Python does.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = dlopen("./libuser.so", RTLD_NOW);
    void (*begin)(void) = (void (*)(void))(library ? dlsym(library, "library_begin") : NULL);
    void (*end)(void) = (void (*)(void))(library ? dlsym(library, "library_end") : NULL);

    if (!begin || !end)
        return 1;
    begin();
    puts("one rank");
    end();
    return 0;
}
