/* SPDX-License-Identifier: BSD-3-Clause
 *
 * image.h: one copy of the program per rank.
 *
 * The program that ld.so loaded is the prototype. image_program_open reads its segments and relocations
 * once; image_create then maps and relocates a copy at a given address. Its shared libraries are copied
 * with it, except those on a list (shared_libraries.c).
 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include "base/base.h"

/* ---- Taking over the program's start (takeover.c) ---- */

typedef int (*image_main_fn)(int argc, char **argv, char **envp);

/* Functions of the layer above that start the program. Defined once by that layer. */
struct image_client {
    /* Returns true if wants_images could return true. Called before the constructors of all libraries and
     * before the C library is initialised; reads only its arguments. */
    bool (*may_want_images)(int argc, char **argv, char **envp);
    /* Called first. May remove Heddle's options from argv (and change *argc). Returns true if the program
     * will be virtualized: then the prototype's constructors do not run, and run() is called instead of its
     * main. Returns false if the program runs unchanged. */
    bool (*wants_images)(int *argc, char **argv);
    /* Runs the whole job and returns its exit code. main: the prototype's main, for image_program_open. */
    int (*run)(image_main_fn main, int argc, char **argv, char **envp);
};
extern const struct image_client image_client;

/* True if the program is position-independent, and it or a library that it was loaded with (but not a library of
 * this installation) calls a function of another one whose name contains this text, in lower case letters; the names are
 * compared without regard to case. At any time from the constructors on. */
bool image_process_refers_to(const char *text);

/* In a process with one rank: image_rebind_client.process_ends is also called if the program, written in Go, ends the process by a
 * system call of its own. Before the program can do so; once. */
void image_process_catch_exits(void);

/* ---- The program ---- */

/* Analyses the prototype: the modules to privatize, their segments, relocations and TLS. main is the
 * address of the prototype's main. Returns false if the program cannot be virtualized; *error_out is then a
 * sentence with the reason and the remedy (static storage). Called once. Never switches. */
bool image_program_open(image_main_fn main, const char **error_out) BASE_MUST_CHECK;

/* A program of which there are copies. The process's own is always there, once image_program_open has succeeded. */
struct image_program;
extern struct image_program image_program;

/* Loads another program beside the process's, without running its code, or finds that it is loaded. path: of an executable file.
 * NULL: there can be no copies of it in this process; *error_out is then a sentence with the reason and, if there is one, the
 * remedy (static storage). Any rank. Never switches. */
struct image_program *image_program_load(const char *path, const char **error_out) BASE_MUST_CHECK;

/* True if the program or one of its private libraries refers to a function that starts threads: ranks may have threads. */
bool image_program_starts_threads(const struct image_program *program);

/* True if it refers to a function by which the process may keep addresses of a copy after the end of its rank: a locale's facets,
 * functions for timers and queues. */
bool image_program_lends_code(struct image_program *program);

/* Exceptions to the rules by which shared libraries are copied with the program: names up to ".so",
 * separated by commas; a leading '-' makes a library shared ("libfoo,-libbar"). Before image_program_open;
 * the string must stay valid. Libraries of the C and C++ runtime are always shared. */
void image_set_private_libraries(const char *list);

/* True if the ranks share libraries other than the C and C++ runtime, libmpi and its dependencies. After
 * image_program_open. */
bool image_has_shared_libraries(void);

/* Bytes of address space of one copy, a multiple of image_align_bytes(). image_create fills the region
 * [base, base + span); adjacent copies share page tables. */
size_t image_span_bytes(void);

/* Sets the part of the span that is reserved for libraries that a rank opens with dlopen. remedy: for messages, what makes more
 * room ("fewer ranks"). Before the first image_create. */
void image_set_late_bytes(size_t bytes, const char *remedy);
size_t image_late_bytes(void);

/* True if a module of the process asks for executable stacks (PT_GNU_STACK), because it puts code there: the
 * address of an internal procedure of Fortran, or of a nested function of C, is that of such code. */
bool image_wants_executable_stacks(void);

/* The alignment of base: the page size, or the program's largest alignment. */
size_t image_align_bytes(void);

/* The number of memory mappings of one copy; depends on image_set_protect_relro, too. */
int image_mappings_per_copy(void);

/* Merges all private libraries of a copy into one mapping, which is writable and executable. Before the
 * first copy. Returns false if the system forbids it, or if there are no such libraries. */
bool image_join_libraries(void);

/* Enables (the default) or disables write protection of the copies' RELRO ranges. Costs one mapping per
 * copy. */
void image_set_protect_relro(bool on);

struct image;

/* Maps and relocates a copy of the program at base (aligned to image_align_bytes(), [base, base + image_span_bytes()) must
 * be free address space). Runs no code of the program. NULL: errno is set (ENOMEM also stands for
 * vm.max_map_count). Any PE thread, in parallel. */
struct image *image_create(char *base, struct image_program *program) BASE_MUST_CHECK;

/* Sets a variable in the initial environment of all copies. Before the first copy. False: memory is exhausted. */
bool image_env_set_all(const char *name, const char *value) BASE_MUST_CHECK;

/* True if the initial environment of copies has a variable of this name. */
bool image_env_has(const char *name);

/* The value of a variable in this copy's environment; NULL: not set. The copy never frees it. Any thread. */
const char *image_env_value(struct image *image, const char *name);

/* Gives the variable a separate value in each copy: the next one of image_env_init_own. Before the first copy.
 * False: memory is exhausted. */
bool image_env_add_own(const char *name) BASE_MUST_CHECK;

/* Creates the environment of a copy: values[i] is the value of the i-th variable of image_env_add_own. After
 * image_create, before image_run. Any PE thread. False: memory is exhausted. */
bool image_env_init_own(struct image *image, const char *const *values) BASE_MUST_CHECK;

/* Sets a variable in the environment of this copy ("NAME=VALUE", which stays where it is), or removes it ("NAME"). Before
 * image_run. False: memory is exhausted. */
bool image_env_put(struct image *image, char *text) BASE_MUST_CHECK;

/* True if the caller is a rank's main thread that was cancelled, and nothing keeps it from ending. */
bool image_cancel_is_due(void);

/* Memory for the arguments, the environment and the auxiliary vector of a rank; larger ones are allocated. */
struct image_arguments {
    void *words[128];
};

/* Runs the copy's constructors, then its main; returns main's value. On the rank's ULT. The room is the copy's until it has
 * ended. May switch. */
int image_run(struct image *image, int argc, char **argv, struct image_arguments *room);

/* Runs the rank's atexit handlers and the copy's destructors; later calls do nothing. On the rank's ULT.
 * May switch (handlers are the program's code). */
void image_finish(struct image *image);

/* False if something may still refer to a copy whose rank has ended: the rank had threads or gave a buffer to a stream; a signal
 * handler of it is running, on any thread; it ended by _exit; debuggers show the copy. */
bool image_can_be_unmapped(const struct image *image);

/* Unmaps such a copy, after the end of its rank's ULT. */
void image_unmap(struct image *image);

/* Translates an address of the prototype into this copy; returns addresses outside privatized modules
 * unchanged. */
void *image_translate(const struct image *image, const void *prototype_addr);

/* The initial contents of the program's thread_local blocks, in the order of the regions of
 * ult_tls_set_regions, without gaps. */
void image_tls_init(const struct image *image, unsigned char *save);

/* The per-thread state of the image's main thread, for `thread_state` of its ULT. */
void *image_main_thread(struct image *image);

/* The image whose code or data contains the address, for crash reports. NULL: none. */
struct image *image_find(const void *addr);

/* The image of the rank that the calling thread runs or belongs to; NULL: none or unknown. */
struct image *image_of_thread(void);

/* The number of threads of the image's rank besides its main thread, as far as this library knows of them. */
int image_count_threads(const struct image *image);

/* The copy's address: the argument of image_create. */
char *image_base(const struct image *image);

/* Writes "PROGRAM+0x1234 (function+0x10)" for an address in an image: the address that addr2line expects,
 * and the function if the file has a symbol for it. Returns false, with an empty text, if the address is in
 * no image. Safe in signal handlers, as are the next five functions. */
bool image_describe(const void *addr, char *text, size_t size_bytes);

/* The same for an address in a shared library, with advice if ranks could have their own copies of it. */
bool image_describe_shared(const void *addr, char *text, size_t size_bytes);

/* The place of some code, for reports. */
struct image_place {
    const char *path;       /* the file of a module of a copy; NULL: of a shared library, or none */
    char file[64];          /* the file's name without folders; empty: in no file */
    size_t vaddr;           /* the address in the file, as addr2line expects it */
    char function[512];     /* as in the symbol table; empty: not known */
    size_t offset;          /* of the address in the function, if it is known */
    char source[160];       /* source file, if line > 0 */
    unsigned line;          /* in it; 0: not known */
    bool is_line_elsewhere; /* addr2line may know it: compressed or in another file */
    const struct image_module *module; /* private to describe.c */
};
#define IMAGE_PLACES_MAX 24

/* Finds the places of n <= IMAGE_PLACES_MAX addresses, with source lines for those in copies. May take a second for a program with
 * 100 MB of line tables. */
void image_places_find(const void *const *addrs, int n, struct image_place *places_out);

/* The same for one address, without its line. */
void image_place_find(const void *addr, struct image_place *place_out);

/* The same with its line, also in a shared library and in the program of a process without copies. */
void image_place_find_line(const void *addr, struct image_place *place_out);

/* The file of a copy's code at this address, and the address in it: a quick look-up. NULL: in no copy. */
const char *image_file_of(const void *addr, size_t *vaddr_out);

/* True if there is code of the image at this address. */
bool image_has_code(const struct image *image, const void *addr);

/* One past the last byte of the mapping that contains the address; NULL: none. */
const void *image_mapping_end(const void *addr);

/* True if the address is in a mapping, of any file or none, that the CPU may execute. */
bool image_is_code(const void *addr);

/* ---- Rebinding (rebind.c): the C library's calls that must be per rank ---- */

/* Per-rank replacement of the C library's per-process state. One per rank. */
struct image_libc;
struct image_libc *image_libc_of(struct image *image);

/* Names that code of a rank resolves to Heddle's replacement. */
#define IMAGE_REBINDING_NAMES 4
struct image_rebinding {
    const char *names[IMAGE_REBINDING_NAMES]; /* fewer end with NULL */
    void *replacement;                        /* a function; NULL: a variable of struct image_libc */
    int libc_field; /* index of the variable (copy/libc_state.h); -1 for functions */
};

/* Adds a table of the layer above (CUDA calls, for example); it takes precedence over the C library's
 * table. Before image_program_open; the table must stay valid. */
void image_rebind_add(const struct image_rebinding *table, size_t count);

/* dlsym for a rank's code, which contains the address `caller`: returns addresses in the rank's copy.
 * handle: from dlopen, or RTLD_NEXT, RTLD_DEFAULT. */
void *image_dlsym(void *handle, const char *name, const void *caller);

/* Sets a folder in which the job's processes on this node publish the file locks that their ranks wait for, so that
 * circles of ranks of several processes are found. Before the first copy; NULL: there is none. */
void image_set_lock_folder(const char *path);

/* True (the default): getpid gives each rank a number of its own (rebind_pid.c). False: the process's. Before the first copy. */
void image_set_process_numbers(bool are_own);

/* True if the program forked this process (or if it shares the memory of a process that called vfork). Such
 * a process is not part of the job and ends without any of the layers above. */
bool image_is_forked_child(void);

/* True if the calling rank, or the calling thread's rank, has its own handler for this fault signal
 * (SIGSEGV and similar). */
bool image_has_fault_handler(int number);

/* A thread that waits in pthread_join: used by join_begins and join_ends. */
struct image_join {
    struct image_join *next; /* in a list of all */
    void *owner;             /* its rank */
    pthread_t thread, target;
    pid_t tid;        /* the kernel's number of the thread */
    pid_t target_tid; /* the same of the one that it waits for, which is the target */
    bool is_awaited;  /* the rank's main thread waits for it, by await_call */
    bool is_asleep;   /* known since this look at all of them */
    unsigned look;
    void *end; /* the end of its chain, as of the look below */
    unsigned end_look;
    const void *from; /* the address of the call */
};

/* Runs handlers of signals that have come for the calling rank while it waited (image_rebind_client.call_soon). */
void image_signals_called(void);

/* Functions that the layer above provides to the replacements; all but current are called on the rank's
 * ULT. NULL: libc's function is called. */
struct image_rebind_client {
    struct image *(*current)(void); /* the image of the running rank; NULL outside of ranks. Any thread */
    /* The kernel's id of the OS thread with the image's main thread; 0: none. place: where the last call for this image has found
     * it; initially 0. Any thread, also in handlers of signals. */
    pid_t (*main_tid)(const struct image *image, atomic_int *place);
    /* Has the image's rank call image_signals_called, while it waits. place, threads: as above. NULL: a rank's handlers run at once,
     * whichever rank runs. */
    void (*call_soon)(const struct image *image, atomic_int *place);
    /* True if the running rank waits for others, but none of them was ready. On its stack, also in handlers of signals. */
    bool (*is_waiting)(void);
    void (*exit)(int code) BASE_NORETURN;       /* the rank called exit(); its handlers have run */
    void (*quick_exit)(int code) BASE_NORETURN; /* the rank called _exit(), _Exit() or quick_exit() */
    /* The process ends without exit handlers: _exit outside of ranks. Any thread, also in handlers of signals and in children. */
    void (*process_ends)(int code);
    void (*abort)(void) BASE_NORETURN;
    void (*sleep_ns)(uint64_t duration_ns);
    void (*yield)(void);
    /* Bracket code that expects to run alone: constructors and destructors. NULL: not needed. */
    void (*begin_exclusive)(void);
    void (*end_exclusive)(void);
    void (*report)(const char *text); /* prints a line prefixed with the rank's name */
    /* True once a rank of the process has called MPI. */
    bool (*has_begun)(void);
    /* Writes an entry for the environment of a program that the code at caller's address starts now; false:
     * it gets none. Also in children, of vfork too. NULL: it gets none. */
    bool (*child_entry)(const void *caller, char *entry, size_t size);
    /* Called in a process that was just forked: from now on current() is NULL, and calling MPI is an
     * error. */
    void (*forked)(void);
    /* Another thread of the image's rank called exit(); its handlers have run. */
    void (*exit_by_thread)(struct image *image, int code) BASE_NORETURN;
    /* Called before the calling thread starts a thread of the program; after a thread of a rank has ended.
     * NULL: nothing. */
    void (*thread_begins)(void);
    void (*thread_ended)(void);
    /* A rank's main thread waits for the end of another one, which is in a call that waits: returns when that goes on, or after
     * end_await (any thread). False: at once, there is no such call. Deadlocks are found meanwhile. from: the address of the call. */
    bool (*await_call)(pthread_t thread, const void *from);
    void (*end_await)(const struct image *image);
    /* Another thread, or that of a process with one rank, is about to wait so in the C library. False: that need not be known;
     * otherwise join_ends follows on this thread, also if it is cancelled. NULL: false. */
    bool (*join_begins)(struct image_join *join, pthread_t thread, const void *from);
    void (*join_ends)(struct image_join *join);
    /* A library that a rank has opened wants executable stacks (image_wants_executable_stacks). NULL: nothing. */
    void (*make_stacks_executable)(void);
    /* True if other ranks wait for as long as the running rank blocks its OS thread. NULL: false. */
    bool (*holds_others)(void);
};
extern const struct image_rebind_client image_rebind_client;

/* The receiver of the ranks' output. */
struct image_output {
    /* Writes to stdout or stderr; false: another descriptor. */
    bool (*write)(int fd, const void *bytes, size_t n_bytes, ssize_t *written_out);
    /* The descriptor of a stream that stands for stdout or stderr; -1: another stream. */
    int (*number)(const void *stream);
};

/* NULL: the C library. Set before the first copy. */
extern const struct image_output *image_output;

#endif
