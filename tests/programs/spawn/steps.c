/* SPDX-License-Identifier: BSD-3-Clause */
/* Does what its arguments say, in turn: "@LIBRARY" opens a library, "?" tolerates errors, "<" opens a file and ">" closes it, "!COMMAND" runs a
 * command, "NAME=VALUE" sets a variable; others are programs to spawn. As a child: prints the version of its library, and
 * whether it can open the library in PLUG. -DVERSION=N: a library of this version. -DFIRST: a program that does not spawn.
 * -DBIG=N: a child with N MiB of variables. */
#ifdef VERSION
int version(void)
{
    return VERSION;
}
#else
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef BIG /* bytes of variables, more than a relocation reaches */
#define TEXT_OF(number) #number
#define ROOM(number) __asm__(".pushsection .big, \"aw\", @nobits; .zero " TEXT_OF(number) "; .popsection")
ROOM(BIG);
#endif

int version(void);

#ifndef FIRST
static void do_step(char *step)
{
    static int fd;
    char text[MPI_MAX_ERROR_STRING] = "spawned";
    MPI_Comm inter;
    int error, length;

    if (*step == '<')
        fd = open("/dev/null", O_RDONLY);
    else if (*step == '>')
        close(fd);
    else if (*step == '@')
        printf("%s\n", dlopen(step + 1, RTLD_NOW) ? "opened" : dlerror());
    else if (*step == '!')
        printf("command: %d\n", system(step + 1));
    else if (*step == '?')
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    else if (strchr(step, '='))
        putenv(step);
    else {
        error = MPI_Comm_spawn(step, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter,
                               MPI_ERRCODES_IGNORE);
        if (error)
            MPI_Error_string(error, text, &length);
        else
            MPI_Comm_disconnect(&inter);
        puts(text);
    }
    fflush(stdout);
}
#endif

int main(int argc, char **argv)
{
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        printf("version %d, plug %d\n", version(), getenv("PLUG") && dlopen(getenv("PLUG"), RTLD_NOW));
        fflush(stdout);
        MPI_Comm_disconnect(&parent);
    }
#ifndef FIRST
    for (int i = 1; i < argc; i++)
        do_step(argv[i]);
#endif
    MPI_Finalize();
    return 0;
}
#endif
