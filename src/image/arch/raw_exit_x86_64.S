/* SPDX-License-Identifier: BSD-3-Clause
 *
 * raw_exit_x86_64.S: takes the place of the system call exit_group in code that ends the process by itself (image/copy/raw_exit.c).
 *
 * edi: the exit code. The caller's stack may be small (Go's are), so this uses nothing of it but the return address, and calls
 * image_raw_exit on a stack of its own.
 */
#ifdef __x86_64__

#define STACK_BYTES 0x80000

    .hidden image_raw_exit
    .text
    .globl  image_arch_raw_exit
    .hidden image_arch_raw_exit
    .type   image_arch_raw_exit, @function
image_arch_raw_exit:
    .cfi_startproc
    .cfi_undefined rip
    endbr64
    movl    %edi, %ebx
    xorl    %edi, %edi
    movl    $STACK_BYTES, %esi
    movl    $3, %edx                /* PROT_READ | PROT_WRITE */
    movl    $0x22, %r10d            /* MAP_PRIVATE | MAP_ANONYMOUS */
    movq    $-1, %r8
    xorl    %r9d, %r9d
    movl    $9, %eax                /* mmap */
    syscall
    movl    %ebx, %edi
    cmpq    $-4096, %rax
    ja      1f
    leaq    STACK_BYTES(%rax), %rsp
    xorl    %ebp, %ebp
    call    image_raw_exit
1:  movl    $231, %eax              /* exit_group */
    syscall
    hlt
    .cfi_endproc
    .size   image_arch_raw_exit, . - image_arch_raw_exit

#endif

    .section .note.GNU-stack, "", @progbits
