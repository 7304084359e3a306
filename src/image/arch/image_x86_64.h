/* SPDX-License-Identifier: BSD-3-Clause
 *
 * image_x86_64.h: the facts of x86-64 that the image layer needs. Included by image_arch.h only.
 */
#ifndef IMAGE_ARCH_X86_64_H
#define IMAGE_ARCH_X86_64_H

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define IMAGE_ARCH_ELF_CLASS ELFCLASS64
#define IMAGE_ARCH_ELF_MACHINE EM_X86_64
#define IMAGE_ARCH_PAGE_BYTES 4096u

/* mov $231, %eax; syscall: exit_group. */
#define IMAGE_ARCH_EXIT_CODE "\xb8\xe7\0\0\0\x0f\x05"
#define IMAGE_ARCH_EXIT_BYTES 7
#define IMAGE_ARCH_MAP_LOW MAP_32BIT

/* Writes a call of the function whose address is in this word, as long as the code above. */
static inline void image_arch_write_call(char *code, uint32_t word)
{
    memcpy(code, "\xff\x14\x25", 3);
    memcpy(code + 3, &word, sizeof word);
}

static inline enum image_reloc_kind image_arch_reloc_kind(unsigned type)
{
    switch (type) {
    case R_X86_64_NONE:
        return IMAGE_RELOC_NONE;
    case R_X86_64_RELATIVE:
        return IMAGE_RELOC_RELATIVE;
    case R_X86_64_GLOB_DAT:
        return IMAGE_RELOC_GOT;
    case R_X86_64_JUMP_SLOT:
        return IMAGE_RELOC_PLT;
    case R_X86_64_64:
        return IMAGE_RELOC_ABSOLUTE;
    case R_X86_64_IRELATIVE:
        return IMAGE_RELOC_IRELATIVE;
    case R_X86_64_COPY:
        return IMAGE_RELOC_COPY;
    case R_X86_64_TPOFF64:
        return IMAGE_RELOC_TLS;
    case R_X86_64_DTPMOD64:
        return IMAGE_RELOC_TLS_MODULE;
    case R_X86_64_DTPOFF64:
        return IMAGE_RELOC_TLS_OFFSET;
    case R_X86_64_TLSDESC:
        return IMAGE_RELOC_TLSDESC;
    default:
        return IMAGE_RELOC_UNSUPPORTED;
    }
}

#endif
