/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Facts about Python interpreters, for mpirun (python.c) and the library that it preloads (starter.c).
 */
#ifndef LAUNCH_PYTHON_INTERPRETER_H
#define LAUNCH_PYTHON_INTERPRETER_H

#include <stdbool.h>

/* The file names in lib/heddle of an installation. */
#define PYTHON_STARTER "python-starter.so"
#define PYTHON_PROGRAM "python"

/* For PYTHON_PROGRAM: the path of the library with the interpreter. */
#define PYTHON_LIBRARY_ENV "HEDDLE_LIBPYTHON"

/* True if the file's name is that of an interpreter: python, python3, python3.11, python3.13t. */
bool python_is_interpreter(const char *path);

/* The library that has the interpreter of this executable, in the installation of the executable: /usr/bin/python3.11 and
 * /usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0, for example. path: without symbolic links. malloc'ed; NULL: there is
 * none, or no memory. */
char *python_library_find(const char *path);

#endif
