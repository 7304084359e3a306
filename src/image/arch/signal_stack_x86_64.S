/* SPDX-License-Identifier: BSD-3-Clause
 *
 * signal_stack_x86_64.S: void image_arch_call_on_stack(void (*function)(void *), void *arg, void *stack_end): calls the
 * function on another stack, and returns on this one. The unwinder passes: the frame is found by rbp.
 */
#ifdef __x86_64__

    .text
    .globl  image_arch_call_on_stack
    .hidden image_arch_call_on_stack
    .type   image_arch_call_on_stack, @function
image_arch_call_on_stack:
    .cfi_startproc
    pushq   %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    movq    %rsp, %rbp
    .cfi_def_cfa_register rbp
    andq    $-16, %rdx
    movq    %rdx, %rsp
    movq    %rdi, %rax
    movq    %rsi, %rdi
    call    *%rax
    movq    %rbp, %rsp
    popq    %rbp
    .cfi_def_cfa rsp, 8
    ret
    .cfi_endproc
    .size   image_arch_call_on_stack, . - image_arch_call_on_stack

#endif

    .section .note.GNU-stack, "", @progbits
