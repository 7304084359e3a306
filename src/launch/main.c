/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun, also called mpiexec: the order of things.
 */
#include "launch.h"

int main(int argc, char **argv)
{
    struct launch_command command;
    launch_args_read(argc, argv, &command);

    struct launch_program program;
    launch_program_find(&command, &program);
    launch_handover_plan(&command, &program);

    launch_forget_outer();
    return launch_run(&command, &program);
}
