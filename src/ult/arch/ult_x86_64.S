/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The context switch on x86-64 (System V ABI).
 *
 * Frame of a ULT that is not running; its saved stack pointer points at the lowest word:
 *
 *      sp + 56   return address: after the call of ult_arch_switch, or ult_arch_start
 *      sp + 48   rbp
 *      sp + 40   rbx
 *      sp + 32   r12
 *      sp + 24   r13
 *      sp + 16   r14
 *      sp +  8   r15
 *      sp +  4   control word of the x87 unit (2 bytes)
 *      sp +  0   MXCSR (4 bytes): rounding, masks, flush to zero; its six lowest bits are not the ULT's
 *
 * The control words are callee-saved, like the registers. Storing them is cheap; they are loaded only if those of the two
 * ULTs differ. The exceptions that have been raised (in MXCSR and in the x87 unit's status word) are the PE's: to
 * change them in MXCSR takes 200 ns on an Intel Xeon of 2023. Those of the x87 unit move to MXCSR where the x87 control words
 * differ: an exception in its status word traps as soon as a control word does not mask it.
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
    subq    $8, %rsp
    stmxcsr (%rsp)
    fnstcw  4(%rsp)
    movq    %rsp, (%rdi)
    movl    (%rsp), %eax
    movzwl  4(%rsp), %ecx
    movq    %rsi, %rsp
    xorl    (%rsp), %eax
    testl   $0xffc0, %eax
    jne     .Lmxcsr
.Lsame_mxcsr:
    cmpw    4(%rsp), %cx
    jne     .Lcontrol
.Lsame_control:
    addq    $8, %rsp
    popq    %r15
    popq    %r14
    popq    %r13
    popq    %r12
    popq    %rbx
    popq    %rbp
    ret                     /* nearly always returns to the one call in pe.c: predicted correctly, and the return
                               predictor's stack stays in step for the following returns */
.Lmxcsr:                    /* keeps the raised exceptions */
    andl    $0x3f, %eax
    xorl    %eax, (%rsp)
    ldmxcsr (%rsp)
    jmp     .Lsame_mxcsr
.Lcontrol:
    fnstsw  %ax
    testb   $0x3f, %al
    jne     .Lraised
.Lload_control:
    fldcw   4(%rsp)
    jmp     .Lsame_control
.Lraised:                   /* with fldcw, an exception that only the next ULT traps would trap there: it goes to MXCSR */
    andl    $0x3f, %eax
    stmxcsr (%rsp)
    orl     %eax, (%rsp)
    ldmxcsr (%rsp)
    fnclex
    jmp     .Lload_control
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
