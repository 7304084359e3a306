/* SPDX-License-Identifier: BSD-3-Clause
 *
 * refuse CALL PROGRAM [ARGUMENT...]: runs the program with a filter that refuses a system call (EPERM).
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <errno.h>

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"signalfd4", SYS_signalfd4}, {"eventfd2", SYS_eventfd2}, {"sched_getaffinity", SYS_sched_getaffinity},
    {"pselect6", SYS_pselect6},   {"flock", SYS_flock},
};

int main(int argc, char **argv)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    size_t i = 0;

    while (i < sizeof calls / sizeof calls[0] && argc > 2 && strcmp(calls[i].name, argv[1]) != 0)
        i++;
    if (argc < 3 || i == sizeof calls / sizeof calls[0]) {
        fprintf(stderr, "usage: refuse CALL PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    filter[1].k = calls[i].number;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 77;
    execv(argv[2], argv + 2);
    return 127;
}
