/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The context switch on x86-64 (System V ABI).
 *
 * Frame of a ULT that is not running; its saved stack pointer points at the lowest word:
 *
 *      sp + 48   return address: after the call of ult_arch_switch, or ult_arch_start
 *      sp + 40   rbp
 *      sp + 32   rbx
 *      sp + 24   r12
 *      sp + 16   r13
 *      sp +  8   r14
 *      sp +  0   r15
 *
 * The floating-point control words are not switched: programs that change them change them for all ULTs of the PE.
 */
#if defined(__x86_64__)

    .text

/* void ult_arch_switch(void **save_sp, void *load_sp) */
    .globl  ult_arch_switch
    .hidden ult_arch_switch
    .type   ult_arch_switch, @function
    .balign 32
ult_arch_switch:
    .cfi_startproc
    pushq   %rbp
    pushq   %rbx
    pushq   %r12
    pushq   %r13
    pushq   %r14
    pushq   %r15
    movq    %rsp, (%rdi)
    movq    %rsi, %rsp
    popq    %r15
    popq    %r14
    popq    %r13
    popq    %r12
    popq    %rbx
    popq    %rbp
    ret                     /* nearly always returns to the one call in pe.c: predicted correctly, and the return
                               predictor's stack stays in step for the following returns */
    .cfi_endproc
    .size   ult_arch_switch, . - ult_arch_switch

/* Functions with ULT_JUMPS_BACK return through this function, by the name that compilers use for it. Keeps all registers that hold
 * results. */
    .globl  __x86_return_thunk
    .hidden __x86_return_thunk
    .type   __x86_return_thunk, @function
    .balign 16
__x86_return_thunk:
    .cfi_startproc
    movq    ult_has_switched@gottpoff(%rip), %rcx
    cmpb    $0, %fs:(%rcx)
    jne     1f
    ret
1:  movb    $0, %fs:(%rcx)
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rcx
    jmp     *%rcx
    .cfi_endproc
    .size   __x86_return_thunk, . - __x86_return_thunk

/* Entry point of a new ULT: r12 = its function, r13 = its argument. The end of every backtrace. */
    .globl  ult_arch_start
    .hidden ult_arch_start
    .type   ult_arch_start, @function
    .balign 16
ult_arch_start:
    .cfi_startproc
    .cfi_undefined rip
    xorl    %ebp, %ebp
    movq    %r13, %rdi
    call    *%r12
    ud2
    .cfi_endproc
    .size   ult_arch_start, . - ult_arch_start

#endif

    .section .note.GNU-stack, "", @progbits
