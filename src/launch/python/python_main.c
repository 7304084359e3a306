/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lib/heddle/python: runs a Python interpreter from its library, for interpreters that are not position-independent
 * themselves (starter.c). Its arguments are the interpreter's, the program's name included: from that Python finds its
 * installation or virtual environment. Each rank opens the library: modules find its symbols (RTLD_GLOBAL).
 */
#include "launch/python/interpreter.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *path = getenv(PYTHON_LIBRARY_ENV);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    int (*run)(int argc, char **argv) = NULL;

    if (library)
        *(void **)&run = dlsym(library, "Py_BytesMain");
    if (!run) {
        fprintf(stderr, "Heddle: cannot run Python: %s\n", path ? dlerror() : "mpirun starts this program");
        return 1;
    }
    unsetenv(PYTHON_LIBRARY_ENV);
    return run(argc, argv);
}
