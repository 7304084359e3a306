/* SPDX-License-Identifier: BSD-3-Clause
 *
 * image.h: one copy of the program per rank.
 *
 * The program that ld.so loaded is the prototype. image_program_open reads its segments and
 * relocations once; image_create then maps and relocates a copy at a given address. The shared libraries
 * that the program uses are copied with it, but for those on a list (shared_libraries.c).
 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include "base/base.h"

/* ---- Taking over the program's start (takeover.c) ---- */

typedef int (*image_main_fn)(int argc, char **argv, char **envp);

/* The functions of the layer above that start the program. Defined once by that layer. */
struct image_client {
    /* Before the constructors of all libraries, and before the C library is up: could wants_images say yes?
     * Looks at its arguments only. */
    bool (*may_want_images)(int argc, char **argv, char **envp);
    /* Called first. May take our options out of argv (and change *argc). Returns true if the program is to be
     * virtualized: then the prototype's constructors do not run, and run() is called instead of its main.
     * false: the program runs as it is. */
    bool (*wants_images)(int *argc, char **argv);
    /* Runs the whole job and returns its exit code. main: the prototype's, for image_program_open. */
    int (*run)(image_main_fn main, int argc, char **argv, char **envp);
};
extern const struct image_client image_client;

/* ---- The program ---- */

/* Analyses the prototype: which modules are privatized, their segments, relocations, TLS. main is the
 * address of the prototype's main. false: the program cannot be virtualized; *error_out is a sentence that
 * says why and what to do (static storage). Called once. Never switches. */
bool image_program_open(image_main_fn main, const char **error_out) BASE_MUST_CHECK;

/* Exceptions from the rule which shared libraries are copied with the program: names up to ".so", separated
 * by commas; one with a '-' before it is shared ("libfoo,-libbar"). Before image_program_open; the string
 * must stay valid. Libraries of the C and C++ runtime are always shared. */
void image_set_private_libraries(const char *list);

/* Do the ranks share libraries other than the C and C++ runtime, libmpi and what it needs? After
 * image_program_open. */
bool image_has_shared_libraries(void);

/* Bytes of address space that one copy takes, a multiple of image_align_bytes(). The regions [base, base +
 * span) are filled by image_create; copies that lie one after the other, without gaps, share page tables. */
size_t image_span_bytes(void);

/* Bytes of that for libraries that a rank opens with dlopen: 0 at first, and then the ranks share these.
 * Before the first image_create. */
void image_set_late_bytes(size_t bytes);
size_t image_late_bytes(void);

/* The alignment of base: the page size, or the largest alignment that the program asks for. */
size_t image_align_bytes(void);

/* How many memory mappings one copy costs; by image_set_protect_relro, too. */
int image_mappings_per_copy(void);

/* Makes all private libraries of a copy one mapping, which is writable and executable. Before the first copy.
 * false: the system does not let us, or there are none. */
bool image_join_libraries(void);

/* Makes the copies' read-only-after-relocation part read-only if on (the default). Costs one mapping per
 * copy. */
void image_set_protect_relro(bool on);

struct image;

/* Maps and relocates a copy at base (aligned to image_align_bytes(), [base, base + image_span_bytes()) must
 * be free address space). Runs no code of the program. NULL: errno is set (ENOMEM also stands for
 * vm.max_map_count). Any PE thread, in parallel. */
struct image *image_create(char *base) BASE_MUST_CHECK;

/* Sets a variable of the environment that the copy begins with; if it is not added, only where there is one
 * of the name. Before image_run. false: no memory. */
bool image_env_preset(struct image *image, const char *name, const char *value,
                      bool is_added) BASE_MUST_CHECK;

/* Runs the copy's constructors, then its main; returns main's value. On the rank's ULT. May switch. */
int image_run(struct image *image, int argc, char **argv);

/* Runs the rank's atexit handlers and the destructors of the copy; once per image, the second call does
 * nothing. On the rank's ULT. May switch (handlers are the program's code). */
void image_finish(struct image *image);

/* The address in this copy that corresponds to an address of the prototype; the same address if it lies in no
 * privatized module. */
void *image_translate(const struct image *image, const void *prototype_addr);

/* The initial contents of the program's thread_local blocks, laid out as ult_tls_set_regions regions one
 * after the other. */
void image_tls_init(const struct image *image, unsigned char *save);

/* Which image's code or data an address lies in: for the report of a crash. NULL: none. */
struct image *image_find(const void *addr);

/* The image of the rank that the calling thread runs or belongs to; NULL: of none, or not known. */
struct image *image_of_thread(void);

/* Where the copy lies: the argument of image_create. */
char *image_base(const struct image *image);

/* Writes "PROGRAM+0x1234 (function+0x10)" for an address in an image: where addr2line finds it in the file,
 * and the function, if the file says. false, and an empty text: the address lies in no image. Safe in signal
 * handlers, as are the next three. */
bool image_describe(const void *addr, char *text, size_t size_bytes);

/* The same for an address in a shared library, with advice if ranks need not share it. */
bool image_describe_shared(const void *addr, char *text, size_t size_bytes);

/* Is there code of the image at this address? */
bool image_has_code(const struct image *image, const void *addr);

/* One past the last byte of the mapping that the address lies in; NULL: in none. */
const void *image_mapping_end(const void *addr);

/* ---- Rebinding (rebind.c): the C library's calls that must be per rank ---- */

/* Per-rank replacement of the C library's per-process state. One per rank. */
struct image_libc;
struct image_libc *image_libc_of(struct image *image);

/* A name that a rank's code is bound to something else of. */
struct image_rebinding {
    const char *name;
    void *replacement; /* a function; NULL: a variable of struct image_libc */
    int libc_field;    /* which variable (rebind.h); -1 for functions */
    const char *why;
};

/* Adds a table of the layer above (CUDA calls and the like); goes before the C library's. Before
 * image_program_open; the table must stay valid. */
void image_rebind_add(const struct image_rebinding *table, size_t count);

/* dlsym for code of a rank, which `caller` lies in: addresses in the rank's copy. handle: dlopen's, or
 * RTLD_NEXT, RTLD_DEFAULT. */
void *image_dlsym(void *handle, const char *name, const void *caller);

/* Was this process forked by the program (or shares it the memory of one that has called vfork)? Then it is
 * no part of the job: it ends without any of the layers above. */
bool image_is_forked_child(void);

/* Has the rank that calls, or that the calling thread belongs to, a handler of its own for SIGSEGV or one
 * like it? */
bool image_has_fault_handler(int number);

/* Functions that the layer above provides to the rebound ones; all are called on the rank's ULT, but for
 * current. NULL: libc's function is called. */
struct image_rebind_client {
    struct image *(*current)(void); /* the image of the running rank; NULL outside of ranks. Any thread */
    void (*exit)(int code) BASE_NORETURN;       /* the rank called exit(): handlers have run already */
    void (*quick_exit)(int code) BASE_NORETURN; /* the rank called _exit(), _Exit() or quick_exit() */
    void (*abort)(void) BASE_NORETURN;
    void (*sleep_ns)(uint64_t duration_ns);
    void (*yield)(void);
    /* Around code that expects to run alone: constructors and destructors. NULL: it does. */
    void (*begin_exclusive)(void);
    void (*end_exclusive)(void);
    void (*report)(const char *text); /* prints a line that begins with the rank's name */
    /* In a process that was just forked: from now on current() is NULL, and MPI an error. */
    void (*forked)(void);
    /* Another thread of the image's rank called exit(); handlers have run. */
    void (*exit_by_thread)(struct image *image, int code) BASE_NORETURN;
};
extern const struct image_rebind_client image_rebind_client;

#endif
