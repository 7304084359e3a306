/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The reader of DWARF line tables: lines of a good table (versions 2, 4 and 5), and none, but no read outside of the file, of a
 * damaged one.
 */
#include "image/copy/lines.h"

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Files of one function: 0x1000 to 0x1003 are line 4 of t.c, 0x1004 is line 6, and there is nothing from 0x1005 on. */
static const char *const seeds[] = {SEEDS "/dwarf2.elf", SEEDS "/dwarf4.elf", SEEDS "/dwarf5.elf"};
static const size_t vaddrs[] = {0x0fff, 0x1000, 0x1003, 0x1004, 0x1005};
static const unsigned expected[] = {0, 4, 4, 6, 0};

#define FILE_BYTES_MAX 1024

static size_t load(const char *path, unsigned char *bytes)
{
    FILE *file = fopen(path, "rb");
    size_t len_bytes;

    ck_assert_ptr_nonnull(file);
    len_bytes = fread(bytes, 1, FILE_BYTES_MAX, file);
    fclose(file);
    ck_assert_uint_gt(len_bytes, sizeof(Elf64_Ehdr));
    return len_bytes;
}

/* Finds the lines of `vaddrs`; returns false if the file has none that can be read. */
static bool find(const unsigned char *bytes, size_t len_bytes, struct image_line *found, char *name_out)
{
    int fd = memfd_create("lines", MFD_CLOEXEC);
    struct image_lines lines;
    bool has_lines;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, len_bytes), (ssize_t)len_bytes);
    has_lines = image_lines_open(fd, &lines);
    if (has_lines)
        image_lines_find(&lines, vaddrs, BASE_COUNT(vaddrs), found);
    for (size_t i = 0; has_lines && i < BASE_COUNT(vaddrs); i++) {
        const char *folder, *name = image_lines_source(&lines, &found[i], &folder);

        ck_assert(!name || strlen(name) < len_bytes);
        ck_assert(!folder || strlen(folder) < len_bytes);
        if (name_out && name)
            snprintf(name_out, FILE_BYTES_MAX, "%s", name);
    }
    image_lines_close(&lines);
    close(fd);
    return has_lines;
}

START_TEST(good_tables)
{
    struct image_line found[BASE_COUNT(vaddrs)];
    unsigned char bytes[FILE_BYTES_MAX];
    char name[FILE_BYTES_MAX] = "";

    ck_assert(find(bytes, load(seeds[_i], bytes), found, name));
    for (size_t i = 0; i < BASE_COUNT(vaddrs); i++)
        ck_assert_uint_eq(found[i].line, expected[i]);
    ck_assert_str_eq(name, "t.c");
}
END_TEST

START_TEST(cut_off_anywhere)
{
    struct image_line found[BASE_COUNT(vaddrs)];
    unsigned char bytes[FILE_BYTES_MAX];
    size_t len_bytes = load(seeds[_i], bytes);

    for (size_t n = 1; n < len_bytes; n++)
        ck_assert(!find(bytes, n, found, NULL)); /* the section headers are at the end */
}
END_TEST

START_TEST(any_byte_damaged)
{
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
    struct image_line found[BASE_COUNT(vaddrs)];
    unsigned char bytes[FILE_BYTES_MAX];
    size_t len_bytes = load(seeds[_i], bytes);

    for (size_t at = 0; at < len_bytes; at++)
        for (size_t i = 0; i < BASE_COUNT(values); i++) {
            unsigned char good = bytes[at];

            bytes[at] = values[i];
            find(bytes, len_bytes, found, NULL);
            bytes[at] = good;
        }
}
END_TEST

/* The table is shorter than its section says: every program ends in the midst of an instruction once. */
START_TEST(short_sections)
{
    struct image_line found[BASE_COUNT(vaddrs)];
    _Alignas(Elf64_Shdr) unsigned char bytes[FILE_BYTES_MAX];
    size_t len_bytes = load(seeds[_i], bytes);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)bytes;
    Elf64_Shdr *lines = (Elf64_Shdr *)(bytes + header->e_shoff) + 1;
    size_t all_bytes = lines->sh_size;

    for (size_t n = 0; n < all_bytes; n++) {
        lines->sh_size = n;
        ck_assert(find(bytes, len_bytes, found, NULL));
        for (size_t i = 0; i < BASE_COUNT(vaddrs); i++)
            ck_assert_uint_eq(found[i].line, 0); /* its only unit is longer */
    }
    lines->sh_size = UINT64_MAX - lines->sh_offset + 1;
    ck_assert(!find(bytes, len_bytes, found, NULL));
    lines->sh_offset = UINT64_MAX;
    ck_assert(!find(bytes, len_bytes, found, NULL));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image_lines");
    TCase *tables = tcase_create("tables");
    SRunner *runner;
    int n_failed;

    tcase_add_loop_test(tables, good_tables, 0, BASE_COUNT(seeds));
    tcase_add_loop_test(tables, cut_off_anywhere, 0, BASE_COUNT(seeds));
    tcase_add_loop_test(tables, any_byte_damaged, 0, BASE_COUNT(seeds));
    tcase_add_loop_test(tables, short_sections, 0, BASE_COUNT(seeds));
    suite_add_tcase(suite, tables);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}
