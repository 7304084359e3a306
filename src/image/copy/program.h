/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program.h: the results of image_program_open, private to src/image.
 *
 *   prototype   the program as ld.so loaded it; its code never runs (except constructors of libraries)
 *   module      the program, or a shared library that is copied with it (a private library)
 *   copy        the result of image_create: a second instance of every module, at base + module->copy_offset
 *   plan        how to make a copy, computed once: mappings, bytes to fill in, words to add base to
 *
 * There are three kinds of addresses: vaddr (as in the ELF file), prototype (vaddr + module->bias), and
 * offsets from the base of a copy (vaddr + module->copy_shift).
 *
 * Written by image_program_open, on one thread; read-only afterwards.
 */
#ifndef IMAGE_PROGRAM_H
#define IMAGE_PROGRAM_H

#include "image/arch/image_arch.h"
#include "image/image.h"

#include <link.h>
#include <sys/types.h>

/* ---- Modules ---- */

/* A writable range of a module: neighbouring writable segments, in whole pages. */
struct image_data {
    size_t vaddr_lo;               /* first page */
    size_t vaddr_hi;               /* one past the last page, .bss included */
    size_t fill_bytes;             /* size of bytes: up to the last page that is not all .bss */
    unsigned char *bytes;          /* initial contents, relocated as for a copy at address 0 */
    unsigned char *page_relocated; /* one flag per page of bytes: relocations modify it */
    ssize_t file_shift;            /* vaddr - file offset, if the same for all its segments */
    bool is_one_shift;             /* file_shift is valid */
};
#define IMAGE_DATA_MAX 8

struct image_module {
    const char *name;          /* path, for messages and to open the file again */
    int fd;                    /* the file; stays open */
    uintptr_t bias;            /* address in the prototype - vaddr */
    size_t vaddr_lo, vaddr_hi; /* range of the segments, in whole pages */
    size_t align;              /* largest alignment of its segments */
    size_t copy_offset;        /* its copy begins at base + this */
    size_t copy_shift;         /* copy_offset - vaddr_lo: offset in a copy - vaddr */
    const ElfW(Phdr) * phdr;   /* program headers, in the prototype */
    size_t n_phdrs;
    size_t group;                    /* number of its load group (groups.h) */
    bool is_late;                    /* the group is not a program, but was opened by ranks */
    const struct link_map *link_map; /* ld.so's descriptor of the prototype, for the unwinder */
    size_t eh_frame_hdr_vaddr;       /* 0: none */

    /* Dynamic section. Addresses in the prototype, or vaddr where the name has _vaddr. */
    const ElfW(Dyn) * dynamic;
    const ElfW(Sym) * symtab;
    const char *strtab;
    size_t strtab_bytes;
    const ElfW(Half) * versym;
    const uint32_t *gnu_hash, *hash; /* tables of the defined symbols: DT_GNU_HASH, DT_HASH; NULL: none */
    const char *verneed;
    size_t n_verneeds;
    const char *verdef;
    size_t n_verdefs;
    const ElfW(Rela) * rela;
    size_t n_relas;
    const ElfW(Rela) * plt_rela;
    size_t n_plt_relas;
    const ElfW(Xword) * relr;
    size_t n_relrs;
    size_t init_vaddr, fini_vaddr; /* DT_INIT, DT_FINI; 0: none */
    size_t preinit_array_vaddr, init_array_vaddr, fini_array_vaddr;
    size_t n_preinits, n_inits, n_finis;
    const char *soname;             /* DT_SONAME or the last part of the path */
    const struct link_map **needed; /* the libraries that it needs, in the order of DT_NEEDED; never freed */
    size_t n_needed;
    const struct link_map **scope; /* itself and what it needs, in the order of look-up; never freed */
    size_t n_scope;                /* 0: not known, because no handle of it is used */
    bool is_pristine;              /* no constructor has run on the prototype */
    bool is_symbolic;              /* DT_SYMBOLIC: its own definitions take precedence */
    bool has_textrel;              /* relocations in read-only segments */

    size_t tls_vaddr, tls_file_bytes, tls_bytes, tls_align; /* PT_TLS; tls_bytes 0: none */
    size_t tls_number;                                      /* ld.so's, for __tls_get_addr */
    size_t tls_lazy;      /* its number in copies if blocks are allocated at first use (lazy_tls.c); else 0 */
    bool has_static_tls;  /* DF_STATIC_TLS: its code accesses some variables, maybe another module's, at fixed
                           * offsets from the thread pointer */
    bool is_tls_static;   /* its variables are accessed in this way */
    void *tls_block;      /* its block on the first thread; NULL: allocated at first use */
    ptrdiff_t tls_offset; /* of the block from the thread pointer, equal on every thread */

    struct image_data data[IMAGE_DATA_MAX];
    int n_data;
};

/* ---- The plan ---- */

/* One mapping of each copy. */
struct image_mapping {
    size_t offset, len_bytes;
    int prot;
    int flags; /* MAP_*, for mmap */
    int fd;    /* -1: anonymous */
    off_t file_offset;
};

/* Bytes written into a copy after mapping. */
struct image_fill {
    size_t offset, len_bytes;
    const unsigned char *bytes;
};

/* A word of a copy that holds the address of a member of struct image_libc (optind, for example). */
struct image_libc_ref {
    size_t offset;
    size_t field_offset;
};

/* A word of a copy that holds the address of a stream object of the rank (cxx_streams.c). */
struct image_stream_ref {
    size_t offset;
    int stream;    /* its number */
    size_t addend; /* added to its address */
};

/* A library's variable for which the program has its own space (a COPY relocation). */
struct image_variable {
    size_t offset, len_bytes;
    const void *prototype; /* the variable that the libraries use */
    bool is_private; /* the library is copied, too: the copy's bytes are right, including pointers in them */
    size_t source;   /* if private: their offset in the copy */
    int libc_field;  /* index of the C library's per-rank variable (libc_state.h); -1: none */
    bool is_stream;  /* a stream object of libstdc++ (cxx_streams.c) */
    bool is_zeroed;  /* starts as zero bytes (__libc_single_threaded) */
};

struct image_range {
    size_t offset, len_bytes;
};

/* A list of libraries or load groups, which grows at its end (scope.h). */
struct image_scope_item;

/* The libraries of a rank that affect which definitions symbols of a load group are bound to. */
struct image_scope {
    _Atomic(struct image_scope_item *)
        globals; /* libraries opened with RTLD_GLOBAL, in the order of look-up */
    _Atomic(struct image_scope_item *) groups; /* load groups, in the order in which the rank got them */
    const struct image_program *root;          /* the rank's program */
};

/* The program with the libraries that were loaded with it, or the modules that a later dlopen loaded
 * (groups.h). */
struct image_program {
    size_t number;                 /* of the load group; 0: the program that the process was started with */
    struct image_program *root;    /* whose ranks can have the group; itself: a program */
    struct image_program *variant; /* of a group: the plan for ranks with another scope; NULL: none */
    struct image_scope scope;      /* what it was relocated for, without libraries that change nothing */
    unsigned char *matters;        /* answers of scope.c, by number of another group; NULL: none yet */
    bool is_deep;                  /* opened with RTLD_DEEPBIND: its own libraries precede all others */
    bool *needs;                   /* by number: other groups that its copies refer to; NULL: none */
    struct image_module *modules;  /* the main program first */
    size_t n_modules;
    size_t *init_order;       /* modules in the order of their constructors */
    size_t reserved_bytes;    /* of the program: including the space reserved behind its copies for groups */
    size_t span_bytes, align; /* of a copy: span_bytes is the end of this and all earlier groups */

    struct image_mapping *mappings;
    size_t n_mappings;
    struct image_fill *fills;
    size_t n_fills;
    size_t *adds; /* offsets of words to which the base is added */
    size_t n_adds;
    struct image_libc_ref *libc_refs;
    size_t n_libc_refs;
    struct image_stream_ref *stream_refs;
    size_t n_stream_refs;
    struct image_variable *variables;
    size_t n_variables;
    struct image_range *populated; /* pages to be filled: allocated by one call each, not by page faults */
    size_t n_populated;
    size_t *exits; /* offsets of system calls that end the process (raw_exit.c) */
    size_t n_exits;
    struct image_range *relros; /* read-only after relocation */
    size_t n_relros;

    struct image_range *unwinders; /* address ranges of libgcc_s and libunwind */
    size_t n_unwinders;

    size_t main_offset; /* offset of main in a copy */
    size_t entry_vaddr; /* of the entry point; 0: the process's */
    bool is_relro_protected;
    int lends_code; /* image_program_lends_code: 1: yes, -1: no, 0: not known yet */
    bool is_open;
};

/* Appends *item to a growing array; *count is its length. */
void image_array_push(void *array_ptr, size_t *count, size_t item_bytes, const void *item);

/* Formats a sentence into the static error buffer and returns it. */
const char *image_error(const char *fmt, ...) BASE_PRINTF(1, 2) BASE_COLD;

/* ---- swapped_tls.c: thread_local data of shared libraries that is switched with the rank ---- */

struct ult_tls_region;

/* Finds it and appends its ranges to regions[n]; returns the new number of regions, at most max. */
int image_swapped_tls_find(struct ult_tls_region *regions, int n, int max);

/* Its initial contents, one range after the other. */
void image_swapped_tls_init(unsigned char *save);

/* Computes the plan of a program or group whose modules are known: their places, segments and relocations. */
bool image_program_plan(struct image_program *program, const char **error_out) BASE_MUST_CHECK;

/* ---- load_program.c ---- */

/* The library's __libc_start_main (takeover.c), which calls image_start_end first; NULL in unit tests. */
extern void *image_start_function;

/* If a loaded program's main is being searched for, takes this main, and does not return. */
void image_start_end(image_main_fn main);

/* Constructs the C++ streams in the prototypes that the program's copies are filled from. */
void image_construct_streams(const struct image_program *program);

/* ---- modules.c: finding and reading ---- */

/* Reads the module's program headers (bias, phdr, n_phdrs and name are set) and its dynamic section, if any. Allocates
 * no memory. */
void image_module_read(struct image_module *module);

/* Reads the dynamic section alone: bias and name are set. Allocates no memory. */
void image_module_read_dynamic(struct image_module *module, const ElfW(Dyn) * dynamic);

/* All modules of the process, the program first, with their headers read and their needed libraries found. is_loading:
 * called by a constructor of a dlopen; ld.so, which would run the other constructors, is not asked. */
void image_modules_list(bool is_loading, struct image_module **modules_out, size_t *count_out);

/* Frees the array. is_kept: for modules that were copied elsewhere; NULL: none. */
void image_modules_free(struct image_module *modules, size_t count, const bool *is_kept);

/* Finds the modules to copy and reads their headers. */
bool image_modules_find(struct image_program *program, const char **error_out) BASE_MUST_CHECK;

/* True if this library can be copied; opens its file. If not, *why_out is the reason; *damage_out describes
 * the damage of its file, or is NULL. */
bool image_module_can_copy(struct image_module *module, const char **why_out, const char **damage_out);

/* sound.c: a sentence about a damaged header of the module; NULL: no damage. */
const char *image_module_flaw(const struct image_module *module);

/* The module whose prototype contains this address, in the program or group or in a published group of its root; NULL:
 * none. */
struct image_module *image_module_of(const struct image_program *program, uintptr_t prototype_addr);

/* ---- needed.c: dependencies ---- */

/* True if this module names the other one in DT_NEEDED, by its DT_SONAME or by its file's name. Reads the dynamic sections
 * alone. */
bool image_module_names(const struct image_module *module, const struct image_module *other);

/* Sets `needed` of all modules of the process. is_loading: as above. */
void image_modules_resolve(struct image_module *modules, size_t count, bool is_loading);

/* True if the other module is in `needed` of this one. */
bool image_module_needs(const struct image_module *module, const struct image_module *other);

/* The index of the module with this descriptor of ld.so; count: none. */
size_t image_modules_index(const struct image_module *modules, size_t count, const struct link_map *map);

/* Sets `scope` of modules[index]. modules: all of the process. is_program: preloaded libraries follow it. */
void image_modules_set_scope(struct image_module *modules, size_t count, size_t index, bool is_program);

/* Computes the order of constructors. */
void image_modules_order(struct image_program *program);

/* ---- segments.c: mappings ---- */

/* Reads the module's segments: fills in module->data, vaddr_lo and vaddr_hi. */
bool image_segments_read(struct image_module *module, const char **error_out) BASE_MUST_CHECK;

/* The initial contents at this vaddr, for n bytes; NULL: not in writable data. */
unsigned char *image_data_at(struct image_module *module, size_t vaddr, size_t n);

/* After relocation: appends the module's mappings, fills and RELRO ranges to the plan. */
void image_segments_plan(struct image_program *program, struct image_module *module);

/* ---- raw_exit.c ---- */

/* Appends the module's own calls of exit_group to the plan. A message ends the process if they cannot be replaced. */
void image_exits_plan(struct image_program *program, const struct image_module *module);

/* Replaces them in a copy; the same. */
void image_exits_fill(const struct image_program *program, char *base);

/* ---- reloc.c ---- */

/* Relocates the initial contents of the module and completes the plan's adds, libc_refs and variables. */
bool image_relocate(struct image_program *program, struct image_module *module,
                    const char **error_out) BASE_MUST_CHECK;

/* ---- symbols.c ---- */

/* The version name of a symbol that the module references or defines; NULL: any. */
const char *image_symbol_version(const struct image_module *module, size_t symbol_index);

/* True if the module's references to its own symbol cannot lead to another module. */
bool image_symbol_is_own(const struct image_module *module, size_t symbol_index);

/* The definition of a name in the module itself, with this version or none; version NULL: the default one. NULL: none. */
const ElfW(Sym) * image_symbol_find(const struct image_module *module, const char *name, const char *version);

/* True if the wrapper, which precedes the library in the order of look-up, defines one of its functions, too. */
bool image_symbols_wrap(const struct image_module *wrapper, const struct image_module *library);

/* The variable that a library uses by this name: its own, or the space that a program has for it. NULL: not known. */
void *image_symbol_bound(const struct link_map *map, const char *name);

/* Looks the symbol up as ld.so would have, in a process that has opened the libraries of program->scope alone. NULL:
 * undefined. */
void *image_symbol_lookup(const struct image_program *program, const struct image_module *module,
                          size_t symbol_index);

/* ---- C++ (cxx_new.c) ---- */

/* If a private module defines these operators, makes shared libraries that use its definition call the running rank's. After
 * the program's modules are known, before the first copy. */
void image_cxx_new_open(const struct image_program *program);

/* cxx_waits.c: a rank that waits in a shared C++ library lets others run. The same. */
void image_cxx_waits_open(const struct image_program *program);

#endif
