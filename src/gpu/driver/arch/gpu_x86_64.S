/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dlsym on x86-64 (System V ABI), preceding the C library's: see gpu/driver/driver_symbols.h. Part of the shared library only,
 * never of a unit test (except gpu_monitor_test).
 *
 * The C library identifies the calling library by the return address, which determines the modules that it searches
 * for RTLD_DEFAULT and RTLD_NEXT. Therefore this is a jump, not a call. Names that begin with "cu" are first passed
 * to gpu_dlsym; if that returns NULL the C library's result is used.
 */
#if defined(__x86_64__)

    .text

/* void *dlsym(void *library, const char *name) */
    .globl  dlsym
    .type   dlsym, @function
    .balign 16
dlsym:
    .cfi_startproc
    endbr64
    cmpb    $'c', (%rsi)
    jne     .Lnext
    cmpb    $'u', 1(%rsi)
    jne     .Lnext
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    movq    16(%rsp), %rdx  /* the return address: the caller */
    subq    $8, %rsp        /* the stack is aligned to 16 bytes at a call */
    .cfi_adjust_cfa_offset 8
    call    gpu_dlsym
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    testq   %rax, %rax
    jz      .Lnext
    ret
.Lnext:
    movq    gpu_dlsym_next(%rip), %rax
    testq   %rax, %rax
    jz      .Lfind
    jmp     *%rax
.Lfind:
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    call    gpu_dlsym_find
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    jmp     *%rax
    .cfi_endproc
    .size   dlsym, . - dlsym

#endif

    .section .note.GNU-stack, "", @progbits
