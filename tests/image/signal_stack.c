/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: each rank has an alternate signal stack of its own, on which the handler of its fault runs. A child of vfork does
 * not change it.
 */
#include "image_test.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char stack[1 << 16];
static volatile int is_on_stack, is_reported, errno_inside;
static sigjmp_buf before;

static void on_fault(int number)
{
    stack_t now, other = {.ss_sp = stack, .ss_size = sizeof stack};

    is_on_stack = number == SIGSEGV && (size_t)((char *)&now - stack) < sizeof stack;
    is_reported = sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_ONSTACK && now.ss_sp == stack;
    errno_inside = sigaltstack(&other, NULL) == -1 ? errno : 0;
    siglongjmp(before, 1);
}

int main(void)
{
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack}, old, off = {.ss_flags = SS_DISABLE};
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    pid_t child;
    int status;

    CHECK(sigaltstack(&own, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
    child = vfork();
    if (child == 0)
        _exit(sigaltstack(&off, NULL));
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    let_others_run();
    CHECK(sigaltstack(NULL, &old) == 0 && old.ss_sp == stack && old.ss_size == sizeof stack &&
          old.ss_flags == 0);
    if (!sigsetjmp(before, 1))
        *(volatile int *)NULL = 1;
    CHECK(is_on_stack && is_reported && errno_inside == EPERM);
    let_others_run();
    CHECK(sigaltstack(&off, NULL) == 0 && sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
    own.ss_size = 100;
    CHECK(sigaltstack(&own, NULL) == -1 && errno == ENOMEM);
    puts("ok");
    return 0;
}
