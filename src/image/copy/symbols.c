/* SPDX-License-Identifier: BSD-3-Clause
 *
 * symbols.c: names, versions and look-ups of a module's dynamic symbols.
 */
#include "image/copy/scope.h"

#include <dlfcn.h>
#include <string.h>

/* Bit of a version index: the definition is not the default one. */
#define VERSYM_HIDDEN 0x8000

static const char *needed_version(const struct image_module *module, unsigned index)
{
    const char *at = module->verneed;

    for (size_t i = 0; at && i < module->n_verneeds; i++) {
        const ElfW(Verneed) *need = (const void *)at;
        const char *aux_at = at + need->vn_aux;

        for (unsigned j = 0; j < need->vn_cnt; j++) {
            const ElfW(Vernaux) *aux = (const void *)aux_at;

            if ((aux->vna_other & ~VERSYM_HIDDEN) == index)
                return module->strtab + aux->vna_name;
            aux_at += aux->vna_next;
        }
        if (!need->vn_next)
            break;
        at += need->vn_next;
    }
    return NULL;
}

static const char *defined_version(const struct image_module *module, unsigned index)
{
    const char *at = module->verdef;

    for (size_t i = 0; at && i < module->n_verdefs; i++) {
        const ElfW(Verdef) *def = (const void *)at;

        if ((def->vd_ndx & ~VERSYM_HIDDEN) == index)
            return module->strtab + ((const ElfW(Verdaux) *)(const void *)(at + def->vd_aux))->vda_name;
        if (!def->vd_next)
            break;
        at += def->vd_next;
    }
    return NULL;
}

const char *image_symbol_version(const struct image_module *module, size_t symbol_index)
{
    unsigned index;
    const char *name;

    if (!module->versym)
        return NULL;
    index = module->versym[symbol_index] & ~VERSYM_HIDDEN;
    if (index <= VER_NDX_GLOBAL)
        return NULL;
    name = needed_version(module, index);
    return name ? name : defined_version(module, index);
}

/* ---- Definitions ---- */

/* True if the module's symbol defines the name for other modules, with this version or none. */
static bool defines(const struct image_module *module, size_t index, const char *name, const char *version)
{
    const ElfW(Sym) *symbol = &module->symtab[index];
    int bind = ELF64_ST_BIND(symbol->st_info), type = ELF64_ST_TYPE(symbol->st_info);
    int visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    unsigned number = module->versym ? module->versym[index] : VER_NDX_GLOBAL;
    const char *own;

    if (symbol->st_shndx == SHN_UNDEF || bind == STB_LOCAL || type == STT_SECTION || type == STT_FILE ||
        visibility == STV_HIDDEN || visibility == STV_INTERNAL ||
        strcmp(module->strtab + symbol->st_name, name) != 0)
        return false;
    if (!version)
        return !(number & VERSYM_HIDDEN);
    own =
        (number & ~VERSYM_HIDDEN) > VER_NDX_GLOBAL ? defined_version(module, number & ~VERSYM_HIDDEN) : NULL;
    return own ? strcmp(own, version) == 0 : !(number & VERSYM_HIDDEN);
}

static const ElfW(Sym) *
    find_by_gnu_hash(const struct image_module *module, const char *name, const char *version)
{
    const uint32_t *table = module->gnu_hash;
    uint32_t n_buckets = table[0], first = table[1], n_words = table[2], shift = table[3], hash = 5381;
    const ElfW(Addr) *words = (const ElfW(Addr) *)(const void *)&table[4];
    const uint32_t *buckets = (const uint32_t *)&words[n_words], *chain = buckets + n_buckets;
    ElfW(Addr) word;

    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        hash = hash * 33 + *c;
    word = words[(hash / 64) % n_words];
    if (!(word >> (hash % 64) & word >> ((hash >> shift) % 64) & 1) || n_buckets == 0)
        return NULL;
    for (uint32_t i = buckets[hash % n_buckets]; i >= first; i++) {
        if ((chain[i - first] | 1) == (hash | 1) && defines(module, i, name, version))
            return &module->symtab[i];
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

static const ElfW(Sym) *
    find_by_hash(const struct image_module *module, const char *name, const char *version)
{
    const uint32_t *buckets = &module->hash[2], *chain = buckets + module->hash[0];
    uint32_t hash = 0;

    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = (hash << 4) + *c;
        hash ^= (hash & 0xf0000000) >> 24;
        hash &= 0x0fffffff;
    }
    for (uint32_t i = module->hash[0] ? buckets[hash % module->hash[0]] : 0; i != STN_UNDEF; i = chain[i])
        if (defines(module, i, name, version))
            return &module->symtab[i];
    return NULL;
}

const ElfW(Sym) * image_symbol_find(const struct image_module *module, const char *name, const char *version)
{
    if (!module->symtab || !module->strtab)
        return NULL;
    return module->gnu_hash ? find_by_gnu_hash(module, name, version)
           : module->hash   ? find_by_hash(module, name, version)
                            : NULL;
}

/* The number of entries of the symbol table, from the table of defined symbols. */
static size_t count_symbols(const struct image_module *module)
{
    const uint32_t *table = module->gnu_hash, *buckets, *chain;
    size_t end = 0;

    if (!table)
        return module->hash ? module->hash[1] : 0;
    buckets = table + 4 + 2 * (size_t)table[2];
    chain = buckets + table[0];
    for (uint32_t i = 0; i < table[0]; i++)
        if (buckets[i] > end)
            end = buckets[i];
    if (end < table[1])
        return end;
    while (!(chain[end - table[1]] & 1))
        end++;
    return end + 1;
}

bool image_symbols_wrap(const struct image_module *wrapper, const struct image_module *library)
{
    size_t count = wrapper->symtab && wrapper->strtab ? count_symbols(wrapper) : 0;

    for (size_t i = 1; i < count; i++) {
        const ElfW(Sym) *symbol = &wrapper->symtab[i];
        const char *name = wrapper->strtab + symbol->st_name;

        if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL ||
            ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || strcmp(name, "_init") == 0 ||
            strcmp(name, "_fini") == 0)
            continue;
        if (image_symbol_find(library, name, NULL))
            return true;
    }
    return false;
}

/* ---- Looking up ---- */

/* True if the symbol at this address has no version. ld.so takes it for any version that a module asks for. */
static bool has_no_version(const void *addr)
{
    const ElfW(Sym) *symbol = NULL, *symbols = NULL;
    const ElfW(Half) *versions = NULL;
    const struct link_map *map = NULL;
    Dl_info info;

    if (!dladdr1(addr, &info, (void **)&symbol, RTLD_DL_SYMENT) || info.dli_saddr != addr || !symbol ||
        !dladdr1(addr, &info, (void **)&map, RTLD_DL_LINKMAP))
        return false;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_SYMTAB)
            symbols = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_VERSYM)
            versions = (const void *)entry->d_un.d_ptr;
    return symbols && (!versions || (versions[symbol - symbols] & ~VERSYM_HIDDEN) <= VER_NDX_GLOBAL);
}

/* Like ld.so: the first definition in its order that has this version or none. (dlvsym skips those without one.) */
static void *find_version(const char *name, const char *version)
{
    void *exact = dlvsym(RTLD_DEFAULT, name, version);
    void *first = dlsym(RTLD_DEFAULT, name);

    return exact && first != exact && !(first && has_no_version(first)) ? exact : first;
}

bool image_symbol_is_own(const struct image_module *module, size_t symbol_index)
{
    const ElfW(Sym) *symbol = &module->symtab[symbol_index];

    return symbol->st_shndx != SHN_UNDEF &&
           (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || module->is_symbolic ||
            ELF64_ST_VISIBILITY(symbol->st_other) != STV_DEFAULT);
}

void *image_symbol_lookup(const struct image_program *program, const struct image_module *module,
                          size_t symbol_index)
{
    const ElfW(Sym) *symbol = &module->symtab[symbol_index];
    const char *name = module->strtab + symbol->st_name;
    const char *version = image_symbol_version(module, symbol_index);
    void *value = NULL;

    if (!image_symbol_is_own(module, symbol_index))
        value = version ? find_version(name, version) : dlsym(RTLD_DEFAULT, name);
    if (!image_symbol_is_own(module, symbol_index) && program->number > 0) /* not ld.so's answer */
        value = image_scope_value(program, name, version, value);
    if (value || symbol->st_shndx == SHN_UNDEF)
        return value;
    value = (void *)(module->bias + symbol->st_value);
    if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
        value = ((void *(*)(void))value)();
    return value;
}

/* The value of the symbol in the module's relocations; NULL: it has none. */
static void *bound_in(const struct image_module *module, const ElfW(Rela) * table, size_t count,
                      const char *name)
{
    for (size_t i = 0; i < count; i++) {
        enum image_reloc_kind kind = image_arch_reloc_kind(ELF64_R_TYPE(table[i].r_info));
        const ElfW(Sym) *symbol = &module->symtab[ELF64_R_SYM(table[i].r_info)];

        if ((kind == IMAGE_RELOC_GOT || (kind == IMAGE_RELOC_ABSOLUTE && table[i].r_addend == 0)) &&
            strcmp(module->strtab + symbol->st_name, name) == 0)
            return *(void **)(module->bias + table[i].r_offset);
    }
    return NULL;
}

void *image_symbol_bound(const struct link_map *map, const char *name)
{
    struct image_module module = {.name = map->l_name, .bias = map->l_addr};

    image_module_read_dynamic(&module, map->l_ld);
    return bound_in(&module, module.rela, module.n_relas, name);
}

static bool table_refers_to(const struct image_module *module, const ElfW(Rela) * table, size_t count,
                            const char *function)
{
    for (size_t i = 0; i < count; i++) {
        size_t symbol_index = ELF64_R_SYM(table[i].r_info);
        const ElfW(Sym) *symbol = &module->symtab[symbol_index];

        if (symbol_index && symbol->st_shndx == SHN_UNDEF &&
            strcmp(module->strtab + symbol->st_name, function) == 0)
            return true;
    }
    return false;
}

static bool refers_to(const struct image_module *module, const char *function)
{
    return table_refers_to(module, module->rela, module->n_relas, function) ||
           table_refers_to(module, module->plt_rela, module->n_plt_relas, function);
}

/* Names of the functions that start threads; std::thread's constructors call the third (libstdc++) or the first (libc++). The
 * last two matter if the ranks share the OpenMP library. */
static const char *const thread_starters[] = {
    "pthread_create",
    "thrd_create",
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
    "_ZNSt6thread15_M_start_threadESt10shared_ptrINS_10_Impl_baseEEPFvvE",
    "GOMP_parallel",
    "__kmpc_fork_call"};

/* True if a module refers to one of these functions. */
static bool refers_to_any(const struct image_program *program, const char *const *names, size_t n_names)
{
    for (size_t i = 0; i < program->n_modules; i++) {
        const struct image_module *module = &program->modules[i];

        /* libgfortran starts threads for asynchronous I/O alone. */
        if (module->soname && strncmp(module->soname, "libgfortran.so", 14) == 0)
            continue;
        for (size_t j = 0; j < n_names; j++)
            if (refers_to(module, names[j]))
                return true;
    }
    return false;
}

bool image_program_starts_threads(const struct image_program *program)
{
    return refers_to_any(program, thread_starters, BASE_COUNT(thread_starters));
}

/* The functions of the shared C and C++ libraries that keep addresses of their caller's code or static data. The others that do
 * have a replacement per rank. */
static const char *const lenders[] = {
    "_ZNSt6locale6globalERKS_",
    "timer_create",
    "mq_notify",
    "aio_read",
    "aio_read64",
    "aio_write",
    "aio_write64",
    "lio_listio",
    "lio_listio64",
    "getaddrinfo_a",
    "hsearch",
    "register_printf_function",
    "register_printf_specifier",
    "register_printf_modifier",
    "register_printf_type",
    "svc_register",
    "__register_frame",
};

bool image_program_lends_code(struct image_program *program)
{
    if (program->lends_code == 0)
        program->lends_code = refers_to_any(program, lenders, BASE_COUNT(lenders)) ? 1 : -1;
    return program->lends_code == 1;
}
