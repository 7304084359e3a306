/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The registers of an x86-64 CPU that XSAVE saves, for tls_descriptor_x86_64.S.
 */
#if defined(__x86_64__)

#include "image/arch/tls_descriptor.h"

#include "base/base.h"

#include <cpuid.h>

#define FXSAVE_BYTES 512
#define XSAVE_HEADER_BYTES 64
#define AMX_COMPONENTS ((uint64_t)3 << 17) /* 8 KiB; no C function changes them */
#define FIRST_EXTENDED_COMPONENT 2
#define LAST_COMPONENT 62

/* The components to save, 0 if the CPU or kernel has FXSAVE only; the space that they need. */
uint64_t image_arch_register_components;
size_t image_arch_register_bytes;

/* The components that the kernel has enabled: register XCR0. */
static uint64_t enabled_components(void)
{
    unsigned eax, ebx, ecx, edx, low, high;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

void image_arch_measure_registers(void)
{
    uint64_t components = enabled_components() & ~AMX_COMPONENTS;
    size_t end = components ? FXSAVE_BYTES + XSAVE_HEADER_BYTES : FXSAVE_BYTES;
    unsigned bytes, offset, ecx, edx;

    for (unsigned i = FIRST_EXTENDED_COMPONENT; i <= LAST_COMPONENT; i++)
        if ((components >> i & 1) && __get_cpuid_count(0xd, i, &bytes, &offset, &ecx, &edx) &&
            (size_t)offset + bytes > end)
            end = (size_t)offset + bytes;
    image_arch_register_components = components;
    image_arch_register_bytes = end;
}

#endif
