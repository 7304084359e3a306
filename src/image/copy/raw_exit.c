/* SPDX-License-Identifier: BSD-3-Clause
 *
 * raw_exit.c: the end of programs in Go, whose runtime does not call the C library's exit, but makes the system call exit_group
 * itself: this would end all ranks of the process, and in silence.
 *
 * A module with Go code has a note of that name. In its copies the instructions "mov $231, %eax; syscall" are replaced by a
 * call of the same length through a word in the lowest 2 GiB of memory, which leads to image_raw_exit (libc/rebind_exit.c). In a process with one
 * rank the program itself is changed.
 */
#include "image/copy/program.h"

#include "base/log.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

/* The address of this word is in the code that calls it. */
static void (**entry)(void);

static bool make_entry(void)
{
    void *page = entry ? entry
                       : mmap(NULL, IMAGE_ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | IMAGE_ARCH_MAP_LOW, -1, 0);

    if (page == MAP_FAILED)
        return false;
    entry = page;
    *entry = image_arch_raw_exit;
    return true;
}

/* True if a segment of notes has one of Go's. */
static bool has_go_note(const char *notes, size_t n_bytes)
{
    for (size_t at = 0; at + sizeof(ElfW(Nhdr)) + 4 <= n_bytes;) {
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(notes + at);

        if (note->n_namesz == 4 && memcmp(note + 1, "Go\0", 4) == 0)
            return true;
        at += sizeof *note + base_round_up((size_t)note->n_namesz, 4) +
              base_round_up((size_t)note->n_descsz, 4);
    }
    return false;
}

/* The number of bytes of a segment that are in a mapping of the file: a damaged file may promise more. */
static size_t count_mapped(const struct image_module *module, const ElfW(Phdr) * segment)
{
    for (size_t i = 0; i < module->n_phdrs; i++) {
        const ElfW(Phdr) *load = &module->phdr[i];
        size_t offset = segment->p_vaddr - load->p_vaddr;

        if (load->p_type == PT_LOAD && segment->p_vaddr >= load->p_vaddr && offset < load->p_filesz)
            return segment->p_filesz < load->p_filesz - offset ? segment->p_filesz : load->p_filesz - offset;
    }
    return 0;
}

static bool is_go(const struct image_module *module)
{
    for (size_t i = 0; i < module->n_phdrs; i++)
        if (module->phdr[i].p_type == PT_NOTE &&
            has_go_note((const char *)module->bias + module->phdr[i].p_vaddr,
                        count_mapped(module, &module->phdr[i])))
            return true;
    return false;
}

/* Calls visit with the vaddr of each exit. */
static void find(const struct image_module *module, void (*visit)(void *arg, size_t vaddr), void *arg)
{
    for (size_t i = 0; i < module->n_phdrs && is_go(module); i++) {
        const ElfW(Phdr) *phdr = &module->phdr[i];
        const char *code = (const char *)module->bias + phdr->p_vaddr, *end = code + phdr->p_filesz;

        if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X))
            continue;
        while ((code = memmem(code, (size_t)(end - code), IMAGE_ARCH_EXIT_CODE, IMAGE_ARCH_EXIT_BYTES))) {
            visit(arg, (uintptr_t)code - module->bias);
            code += IMAGE_ARCH_EXIT_BYTES;
        }
    }
}

/* Threads may run other code of the page. */
static bool write_call(char *code)
{
    char *page = (char *)((uintptr_t)code & ~(uintptr_t)(IMAGE_ARCH_PAGE_BYTES - 1));
    size_t n_bytes = (size_t)(code - page) + IMAGE_ARCH_EXIT_BYTES;

    if (mprotect(page, n_bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return false;
    image_arch_write_call(code, (uint32_t)(uintptr_t)entry);
    return mprotect(page, n_bytes, PROT_READ | PROT_EXEC) == 0;
}

static void refuse(const char *name)
{
    base_fatal(1,
               "%s ends its process by a system call, as programs in Go do, and the system does not let it "
               "be changed; use one "
               "rank per process (mpirun --procs N -n N)",
               name);
}

/* ---- Copies ---- */

struct planning {
    struct image_program *program;
    const struct image_module *module;
};

static void plan_exit(void *arg, size_t vaddr)
{
    struct planning *planning = arg;
    size_t offset = vaddr + planning->module->copy_shift;

    if (!make_entry())
        refuse(planning->module->name);
    image_array_push(&planning->program->exits, &planning->program->n_exits, sizeof offset, &offset);
}

void image_exits_plan(struct image_program *program, const struct image_module *module)
{
    find(module, plan_exit, &(struct planning){program, module});
}

void image_exits_fill(const struct image_program *program, char *base)
{
    for (size_t i = 0; i < program->n_exits; i++)
        if (!write_call(base + program->exits[i]))
            refuse(program->modules[0].name);
}

/* ---- A process with one rank ---- */

static void change(void *module, size_t vaddr)
{
    if (make_entry()) /* else the process ends as before */
        write_call((char *)((struct image_module *)module)->bias + vaddr);
}

void image_process_catch_exits(void)
{
    struct image_module module = {.bias = _r_debug.r_map->l_addr,
                                  .phdr = (const ElfW(Phdr) *)getauxval(AT_PHDR),
                                  .n_phdrs = getauxval(AT_PHNUM)};

    find(&module, change, &module);
}
