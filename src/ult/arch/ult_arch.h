/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ult_arch.h: the facts of the CPU that src/ult needs. The switch itself is in one .S per CPU.
 */
#ifndef ULT_ARCH_ARCH_H
#define ULT_ARCH_ARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <asm/prctl.h>
#endif

/* Saves the callee-saved registers and floating-point control words on the stack and the stack pointer in *save_sp; continues where load_sp
 * was saved. */
void ult_arch_switch(void **save_sp, void *load_sp);

/* The target of a new ULT's first switch. */
void ult_arch_start(void);

#if defined(__x86_64__)

/* The thread's MXCSR, and above it the control word of the x87 unit. */
static inline uint64_t ult_arch_float_control(void)
{
    uint32_t mxcsr;
    uint16_t control;

    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(control));
    return mxcsr | (uint64_t)control << 32;
}

/* Builds the frame described in ult_x86_64.S on a fresh stack; returns the stack pointer to load. */
static inline void *ult_arch_prepare(char *stack_hi, void (*entry)(void *), void *arg)
{
    uint64_t *top = (uint64_t *)((uintptr_t)stack_hi & ~(uintptr_t)15);

    *--top = 0; /* the alignment that a function expects at its first instruction */
    *--top = 0;
    *--top = (uint64_t)(uintptr_t)ult_arch_start;
    *--top = 0;                          /* rbp */
    *--top = 0;                          /* rbx */
    *--top = (uint64_t)(uintptr_t)entry; /* r12 */
    *--top = (uint64_t)(uintptr_t)arg;   /* r13 */
    *--top = 0;                          /* r14 */
    *--top = 0;                          /* r15 */
    *--top = ult_arch_float_control();
    return top;
}

/* The address of the instruction at which a signal interrupted the thread; context is the third argument of a
 * handler. */
static inline void *ult_arch_context_pc(void *context)
{
    return (void *)(uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

/* The stack pointer at that instruction. */
static inline char *ult_arch_context_sp(void *context)
{
    return (char *)(uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
}

/* The number of the system call that the thread was blocked in and will repeat; -1: none. */
static inline long ult_arch_context_system_call(void *context)
{
    const unsigned char *at = (const unsigned char *)ult_arch_context_pc(context);

    return at[0] == 0x0f && at[1] == 0x05 ? (long)((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] : -1;
}

/* Makes the context of a function's first instruction that of its caller after the return; returns the address of that instruction.
 * Reads the top of the stack. */
static inline void *ult_arch_context_return(void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint64_t *top = (uint64_t *)(uintptr_t)registers[REG_RSP];

    registers[REG_RIP] = (greg_t)*top;
    registers[REG_RSP] += (greg_t)sizeof *top;
    return (void *)(uintptr_t)registers[REG_RIP];
}

/* True if a call can have pushed this return address: a call instruction ends there. Reads the 7 bytes
 * before it. */
static inline int ult_arch_follows_call(const void *addr)
{
    const unsigned char *at = (const unsigned char *)addr;

    if (at[-5] == 0xe8)
        return 1;
    for (int len = 2; len <= 7; len++) /* ff /2: through a register or memory */
        if (len != 5 && at[-len] == 0xff && ((at[1 - len] >> 3) & 7) == 2)
            return 1;
    return 0;
}

/* Sets the thread pointer of the calling OS thread. fast: the kernel lets programs do that themselves; it takes a few ns,
 * a system call 100. */
static inline void ult_arch_set_thread_pointer(void *thread_pointer, bool fast)
{
    if (fast)
        __asm__ volatile("wrfsbase %0" : : "r"(thread_pointer) : "memory");
    else
        syscall(SYS_arch_prctl, ARCH_SET_FS, thread_pointer);
}

static inline bool ult_arch_has_fast_thread_pointer(void)
{
    return getauxval(AT_HWCAP2) & 2; /* HWCAP2_FSGSBASE */
}

#else
#error "src/ult/arch has no context switch for this CPU yet: write one like ult_x86_64.S"
#endif

#endif
