/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The function of TLS descriptors on x86-64 (see image/copy/tls_descriptors.h).
 *
 * rax: the descriptor in the copy's GOT {this function, struct image_tls_index *}. Returns in rax the variable's
 * address minus the thread pointer, and keeps all other registers. If the thread has the module's block, it uses
 * rcx and rdx, and saves them below the stack pointer (the red zone). Otherwise a C function creates the block, and
 * all registers are saved that it may change, the vector registers by XSAVE.
 */
#if defined(__x86_64__)

#include "image/arch/tls_descriptor.h"

    .hidden ult_current
    .hidden image_thread_own
    .hidden image_tls_descriptor_find
    .hidden image_arch_register_components
    .hidden image_arch_register_bytes

    .text
    .globl  image_arch_tls_descriptor
    .hidden image_arch_tls_descriptor
    .type   image_arch_tls_descriptor, @function
    .balign 32
image_arch_tls_descriptor:
    .cfi_startproc
    endbr64
    movq    %rcx, -8(%rsp)
    movq    %rdx, -16(%rsp)
    movq    %rax, -24(%rsp)
    movq    8(%rax), %rcx                               /* the index */
    movq    ult_current@gottpoff(%rip), %rdx
    movq    %fs:(%rdx), %rdx
    testq   %rdx, %rdx
    jz      .Lown
    movq    IMAGE_ARCH_ULT_THREAD_STATE(%rdx), %rdx     /* the running ULT's state, if it is a rank's own */
    testq   %rdx, %rdx
    jnz     .Lblocks
.Lown:
    movq    image_thread_own@gottpoff(%rip), %rdx
    movq    %fs:(%rdx), %rdx                            /* the OS thread's */
    testq   %rdx, %rdx
    jz      .Lfind
.Lblocks:
    movq    IMAGE_ARCH_THREAD_LAZY_TLS(%rdx), %rdx
    testq   %rdx, %rdx
    jz      .Lfind
    movq    (%rcx), %rax                                /* the module */
    cmpq    (%rdx), %rax
    jae     .Lfind
    movq    8(%rdx,%rax,8), %rax                        /* its block */
    testq   %rax, %rax
    jz      .Lfind
    addq    8(%rcx), %rax
    subq    %fs:0, %rax
    movq    -8(%rsp), %rcx
    movq    -16(%rsp), %rdx
    ret

.Lfind:
    movq    -8(%rsp), %rcx
    movq    -16(%rsp), %rdx
    movq    -24(%rsp), %rax
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    movq    %rsp, %rbp
    .cfi_def_cfa_register rbp
    pushq   %rcx
    pushq   %rdx
    pushq   %rsi
    pushq   %rdi
    pushq   %r8
    pushq   %r9
    pushq   %r10
    pushq   %r11
    movq    %rax, %rdi
    subq    image_arch_register_bytes(%rip), %rsp
    andq    $-64, %rsp
    movl    image_arch_register_components(%rip), %eax
    movl    4+image_arch_register_components(%rip), %edx
    movl    %eax, %ecx
    orl     %edx, %ecx
    jz      1f
    xorl    %ecx, %ecx
    movq    %rcx, 512(%rsp)                             /* the header of XSAVE */
    movq    %rcx, 520(%rsp)
    movq    %rcx, 528(%rsp)
    movq    %rcx, 536(%rsp)
    movq    %rcx, 544(%rsp)
    movq    %rcx, 552(%rsp)
    movq    %rcx, 560(%rsp)
    movq    %rcx, 568(%rsp)
    xsave64 (%rsp)
    call    image_tls_descriptor_find
    movq    %rax, %rcx
    movl    image_arch_register_components(%rip), %eax
    movl    4+image_arch_register_components(%rip), %edx
    xrstor64 (%rsp)
    jmp     2f
1:  fxsave64 (%rsp)
    call    image_tls_descriptor_find
    movq    %rax, %rcx
    fxrstor64 (%rsp)
2:  movq    %rcx, %rax
    subq    %fs:0, %rax
    leaq    -64(%rbp), %rsp
    popq    %r11
    popq    %r10
    popq    %r9
    popq    %r8
    popq    %rdi
    popq    %rsi
    popq    %rdx
    popq    %rcx
    popq    %rbp
    .cfi_def_cfa rsp, 8
    ret
    .cfi_endproc
    .size   image_arch_tls_descriptor, . - image_arch_tls_descriptor

#endif

    .section .note.GNU-stack, "", @progbits
