/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows, on modules made by hand, because this system's tools do not make them: TLS descriptors that ld.so has
 * not resolved (glibc before 2.34) make all modules static; a block keeps the place in a page that a TLS
 * segment has in its file, if the linker has not aligned it.
 */
#include "image/copy/instantiate.h"
#include "image/copy/lazy_tls.h"
#include "image/copy/threads.h"
#include "image/copy/tls_descriptors.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Two modules that lie in `memory`; the second one has a descriptor for symbol 1. */
static struct fixture {
    char memory[256];
    ElfW(Phdr) segment;
    ElfW(Sym) symbols[2];
    ElfW(Rela) relocation;
    struct image_module modules[3]; /* the first one stands for the program */
    struct image_program program;
} fix;

static void set_up(void)
{
    memset(&fix, 0, sizeof fix);
    fix.segment = (ElfW(Phdr)){.p_type = PT_LOAD, .p_memsz = sizeof fix.memory};
    fix.relocation = (ElfW(Rela)){.r_offset = 64, .r_info = ELF64_R_INFO(1, R_X86_64_TLSDESC), .r_addend = 0};
    for (int i = 0; i < 3; i++)
        fix.modules[i] = (struct image_module){.name = "made by hand",
                                               .bias = (uintptr_t)fix.memory,
                                               .phdr = &fix.segment,
                                               .n_phdrs = 1,
                                               .symtab = fix.symbols,
                                               .tls_number = 1000 + (size_t)i,
                                               .tls_bytes = 24};
    fix.modules[2].rela = &fix.relocation;
    fix.modules[2].n_relas = 1;
    fix.program = (struct image_program){.modules = fix.modules, .n_modules = 3};
}

static void set_descriptor(size_t arg)
{
    struct image_tls_descriptor descriptor = {.arg = arg};

    memcpy(fix.memory + fix.relocation.r_offset, &descriptor, sizeof descriptor);
}

START_TEST(unresolved_descriptors_make_all_static)
{
    set_descriptor((size_t)fix.memory + 128); /* ld.so's argument: the relocation, which is in the module */
    ck_assert(!image_tls_descriptors_are_bound(&fix.modules[2]));
    ck_assert(!image_lazy_tls_can(&fix.modules[2]));
    image_lazy_tls_find(&fix.program);
    for (int i = 0; i < 3; i++)
        ck_assert(fix.modules[i].is_tls_static && !fix.modules[i].tls_lazy);
}
END_TEST

START_TEST(resolved_descriptors_lead_to_their_module)
{
    static struct image_tls_index index = {1001, 16}; /* the argument for a module without a static block */
    size_t offset = 0;

    set_descriptor((size_t)&index);
    image_lazy_tls_find(&fix.program);
    ck_assert(!fix.modules[1].is_tls_static && fix.modules[1].tls_lazy && fix.modules[2].tls_lazy);
    ck_assert_ptr_eq(image_tls_descriptor_target(&fix.program, &fix.modules[2], &fix.relocation, &offset),
                     &fix.modules[1]);
    ck_assert_uint_eq(offset, 16);
    index.module = 1; /* a shared module's */
    ck_assert_ptr_null(image_tls_descriptor_target(&fix.program, &fix.modules[2], &fix.relocation, &offset));
}
END_TEST

START_TEST(own_variables_need_no_answer)
{
    size_t offset = 0;

    fix.relocation.r_info = ELF64_R_INFO(0, R_X86_64_TLSDESC);
    fix.relocation.r_addend = 8;
    set_descriptor((size_t)fix.memory + 128);
    image_lazy_tls_find(&fix.program);
    ck_assert_ptr_eq(image_tls_descriptor_target(&fix.program, &fix.modules[2], &fix.relocation, &offset),
                     &fix.modules[2]);
    ck_assert_uint_eq(offset, 8);
}
END_TEST

START_TEST(blocks_keep_their_place_in_a_page)
{
    static struct image image;
    struct image_thread thread = {.image = &image};
    char *block;

    memcpy(fix.memory + 40, "initial", 8);
    image.base = fix.memory;
    fix.modules[1].tls_vaddr = 40;
    fix.modules[1].tls_file_bytes = 8;
    fix.modules[1].tls_align = 64;
    image_lazy_tls_find(&fix.program);
    ck_assert_ptr_null(image_lazy_tls_peek(&thread, &fix.modules[1]));
    block = image_lazy_tls_block(&thread, &fix.modules[1]);
    ck_assert_uint_eq((uintptr_t)block % 64, 40);
    ck_assert_str_eq(block, "initial");
    ck_assert_ptr_eq(image_lazy_tls_peek(&thread, &fix.modules[1]), block);
    for (int i = 8; i < 24; i++)
        ck_assert_int_eq(block[i], 0);
    image_lazy_tls_free(&thread);
    ck_assert_ptr_null(image_lazy_tls_peek(&thread, &fix.modules[1]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image_tls");
    TCase *tc = tcase_create("by hand");
    SRunner *runner;
    int n_failed;

    tcase_add_checked_fixture(tc, set_up, NULL);
    tcase_add_test(tc, unresolved_descriptors_make_all_static);
    tcase_add_test(tc, resolved_descriptors_lead_to_their_module);
    tcase_add_test(tc, own_variables_need_no_answer);
    tcase_add_test(tc, blocks_keep_their_place_in_a_page);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
