/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun, also called mpiexec: the main sequence.
 */
#include "launch/launch.h"

#include <fcntl.h>
#include <unistd.h>

/* The pipes of this process must not take the numbers of closed standard files, so these are opened; for
 * the program they are closed again. */
static void open_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    (void)argc;
    open_standard_files();

    struct launch_command command;
    launch_args_read(argv, &command);
    if (command.debugs)
        launch_debug(&command, argv);
    if (command.num_explored > 0)
        launch_explore(&command, argv);

    struct launch_program program;
    launch_program_find(&command, &program);
    launch_programs_read(&command, &program);
    launch_python_plan(&command, &program);
    launch_handover_plan(&command, &program);

    launch_forget_outer();
    return launch_run(&command, &program);
}
