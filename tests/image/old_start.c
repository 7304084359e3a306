/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a program from before glibc 2.34, whose own start code hands its constructors to libc, runs them
 * once per rank and not on the prototype. Linked with -nostartfiles.
 */
#include "image_test.h"

static int n_constructed;

__attribute__((constructor)) static void construct(void)
{
    n_constructed++;
}

/* What glibc's csu/elf-init.c did: here it must not be called, but when the program runs as it is. */
__attribute__((used)) static void csu_init(int argc, char **argv, char **envp)
{
    (void)argc, (void)argv, (void)envp;
    construct();
}

__attribute__((used)) static void csu_fini(void)
{
    if (n_constructed == 0)
        puts("the prototype's fini was called");
}

int main(void)
{
    let_others_run();
    CHECK(n_constructed == 1);
    puts("ok");
    return 0;
}

__asm__(".globl _start\n"
        "_start: xor %ebp, %ebp\n"
        "    mov %rdx, %r9\n"
        "    pop %rsi\n"
        "    mov %rsp, %rdx\n"
        "    and $-16, %rsp\n"
        "    push %rax\n"
        "    push %rsp\n"
        "    lea csu_fini(%rip), %r8\n"
        "    lea csu_init(%rip), %rcx\n"
        "    lea main(%rip), %rdi\n"
        "    call *__libc_start_main@GOTPCREL(%rip)\n"
        "    hlt\n");
