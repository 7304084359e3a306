/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_backtrace.c: backtrace_symbols and backtrace_symbols_fd for code in copies, which ld.so does not know.
 *
 * Such an address gets libc's form, FILE(FUNCTION+0x10) [0x1234] (backtrace_symbols_fd: without a blank), with the vaddr if the file has
 * no symbol for it: FILE(+0x56). Unlike libc's, the functions also are those that are not exported.
 */
#include "image/libc/rebind.h"

#include "base/text.h"

#include <execinfo.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longest text of an address: a path, a function, two numbers. Longer ones are cut; ranks have small stacks. */
#define TEXT_MAX 2000

/* Writes the text of an address in a copy. Returns its length with the final zero; 0: the address is in no copy. */
static size_t describe(const void *addr, const char *blank, char bytes[TEXT_MAX])
{
    struct base_text text = base_text_in(bytes, TEXT_MAX);
    struct image_place place;

    if (!image_find(addr))
        return 0;
    image_place_find(addr, &place);
    if (!place.path)
        return 0;
    base_text_add(&text, place.path);
    base_text_add(&text, "(");
    base_text_add(&text, place.function);
    base_text_add(&text, "+");
    base_text_add_hex(&text, place.function[0] ? place.offset : place.vaddr);
    base_text_add(&text, ")");
    base_text_add(&text, blank);
    base_text_add(&text, "[");
    base_text_add_hex(&text, (uintptr_t)addr);
    base_text_add(&text, "]");
    return text.len + 1;
}

/* Returns one block, as libc does: the array, then the texts. */
static char **image_libc_backtrace_symbols(void *const *addrs, int n)
{
    char **names = backtrace_symbols(addrs, n), **block;
    char bytes[TEXT_MAX], *at;
    size_t len_bytes = 0;

    if (!names || n <= 0)
        return names;
    for (int i = 0; i < n; i++) {
        size_t name_bytes = describe(addrs[i], " ", bytes);

        len_bytes += name_bytes ? name_bytes : strlen(names[i]) + 1;
    }
    block = malloc((size_t)n * sizeof *block + len_bytes);
    at = block ? (char *)(block + n) : NULL;
    for (int i = 0; block && i < n; i++) {
        size_t name_bytes = describe(addrs[i], " ", bytes);

        len_bytes = name_bytes ? name_bytes : strlen(names[i]) + 1;
        block[i] = memcpy(at, name_bytes ? bytes : names[i], len_bytes);
        at += len_bytes;
    }
    free(names);
    return block;
}
IMAGE_REBINDS(image_libc_backtrace_symbols, "backtrace_symbols");

/* Allocates nothing, as libc's. */
static void image_libc_backtrace_symbols_fd(void *const *addrs, int n, int fd)
{
    char bytes[TEXT_MAX];

    for (int i = 0; i < n; i++) {
        size_t len_bytes = describe(addrs[i], "", bytes);

        if (!len_bytes) {
            backtrace_symbols_fd(addrs + i, 1, fd);
            continue;
        }
        bytes[len_bytes - 1] = '\n';
        if (write(fd, bytes, len_bytes) < 0)
            return;
    }
}
IMAGE_REBINDS(image_libc_backtrace_symbols_fd, "backtrace_symbols_fd");
