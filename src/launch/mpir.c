/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpir.c: the MPIR process acquisition interface: a debugger that runs mpirun finds the job's processes here (the document
 * of the MPI Forum of 2010). Part of mpirun and mpirun-procs.
 *
 * The debugger sets MPIR_being_debugged before main and a breakpoint at MPIR_Breakpoint. Each process stops at its first
 * instruction: this process traces it up to there, and leaves it stopped. The table is filled, MPIR_Breakpoint is called, and when
 * it returns the processes go on, whether or not the debugger has attached to them. mpirun-procs, which replaces mpirun, is told
 * by its command line. Processes of other nodes are in the table of the launcher that starts them.
 */
#include "launch/launch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Names, types and values are the interface's. */
struct MPIR_PROCDESC {
    char *host_name;
    char *executable_name;
    int pid;
};
#define MPIR_DEBUG_SPAWNED 1

struct MPIR_PROCDESC *MPIR_proctable __attribute__((visibility("default")));
int MPIR_proctable_size __attribute__((visibility("default")));
volatile int MPIR_being_debugged __attribute__((visibility("default")));
volatile int MPIR_debug_state __attribute__((visibility("default")));
char *MPIR_debug_abort_string __attribute__((visibility("default")));
int MPIR_i_am_starter __attribute__((visibility("default")));
int MPIR_partial_attach_ok __attribute__((visibility("default")));

void MPIR_Breakpoint(void) __attribute__((visibility("default"), noinline));
void MPIR_Breakpoint(void)
{
    __asm__ volatile("" ::: "memory");
}

bool launch_mpir_is_on(void)
{
    return MPIR_being_debugged != 0;
}

void launch_mpir_set_on(void)
{
    MPIR_being_debugged = 1;
}

void launch_mpir_trace_me(void)
{
    if (MPIR_being_debugged)
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

void launch_mpir_add(pid_t pid, const char *path)
{
    struct MPIR_PROCDESC *longer;
    char host[256] = "localhost";
    siginfo_t info;

    if (!MPIR_being_debugged || waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT) != 0 ||
        info.si_code != CLD_TRAPPED)
        return; /* it has ended: the caller will see that */
    waitpid(pid, NULL, 0);
    ptrace(PTRACE_DETACH, pid, NULL, (void *)(long)SIGSTOP);
    longer = realloc(MPIR_proctable, ((size_t)MPIR_proctable_size + 1) * sizeof *longer);
    gethostname(host, sizeof host - 1);
    if (longer == NULL)
        launch_fail(1, "out of memory");
    MPIR_proctable = longer;
    MPIR_proctable[MPIR_proctable_size++] =
        (struct MPIR_PROCDESC){.host_name = strdup(host), .executable_name = strdup(path), .pid = pid};
}

void launch_mpir_show(void)
{
    if (!MPIR_being_debugged)
        return;
    MPIR_debug_state = MPIR_DEBUG_SPAWNED;
    MPIR_Breakpoint();
    for (int i = 0; i < MPIR_proctable_size; i++)
        kill(MPIR_proctable[i].pid, SIGCONT);
}
