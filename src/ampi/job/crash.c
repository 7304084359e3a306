/* SPDX-License-Identifier: BSD-3-Clause
 *
 * crash.c: reports the rank and the location when a signal ends the process.
 *
 * The handler runs on the thread's signal stack and does not touch the rank's stack. The crash may have interrupted
 * malloc, ld.so or printf: nothing here takes a lock, allocates or formats with the C library (base/text.h,
 * image/copy/describe.c, backtrace.c). Then the default action ends the process with the signal.
 *
 * One thread reports; others that crash meanwhile wait for the end of the process. First it reads the stack, which
 * faults if it is damaged; then the report continues with the frames read so far. If it crashes or does not end for
 * another reason, the process ends with the part of the first line that is known. After that line come the frames.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ampi/job/report.h"
#include "ampi/job/job.h"
#include "ampi/misuse/misuse.h"
#include "ampi/tool/trace.h"
#include "base/log.h"
#include "base/text.h"
#include "image/image.h"
#include "ult/arch/ult_arch.h"
#include "ult/shuffle.h"

#define SIGNAL_STACK_BYTES (256 << 10)

/* Bytes of a thread's stack, if it is not a rank's ULT, that are searched for a return address. */
#define SEARCH_BYTES 65536

/* An access up to this far below the stack pointer counts as a stack access: a large frame is touched from
 * its other end. */
#define BELOW_STACK_BYTES 65536

/* Seconds after which the process ends without the rest of the report. */
#define REPORT_SECONDS 10

/* Names of the signals, as returned by strsignal, which is not safe here. */
static const struct {
    int number;
    const char *name;
} signals[] = {{SIGSEGV, "Segmentation fault"},
               {SIGBUS, "Bus error"},
               {SIGFPE, "Floating point exception"},
               {SIGILL, "Illegal instruction"},
               {SIGABRT, "Aborted"}};

static atomic_bool is_installed;

/* The report of this process. Not on the signal stack, which the program may have made small. */
static struct {
    _Atomic pid_t process;        /* that reports; a child process has its own */
    atomic_bool is_line_open;     /* the first line is not written yet */
    volatile sig_atomic_t number; /* of the signal */
    struct base_text line;        /* the first line */
    char bytes[2000];             /* of it */
    struct ampi_backtrace frames; /* of the code that crashed */
    const void *caller;           /* found in another way if no frame is in the program; NULL: not found */
    sigjmp_buf after_stack;       /* where the report continues after a fault, while is_on_stack */
    volatile sig_atomic_t is_on_stack; /* the stack of the crashed code is being read */
} report;

/* A crash. */
struct crash {
    int signal_number;
    const siginfo_t *info;
    const char *pc, *sp;          /* location */
    const struct ampi_rank *rank; /* the running rank, or that of the thread or child process; NULL: none */
    const struct ult *ult;        /* the rank's or, of a thread in a call of MPI, the thread's; NULL: none */
    bool is_on_ult;               /* the rank itself, not one of its threads or child processes */
    struct ampi_misuse_fault guarded; /* +check buffers: the operation that has the page */
};

/* ---- Analysis ---- */

static const char *name_of(int signal_number)
{
    for (size_t i = 0; i < BASE_COUNT(signals); i++)
        if (signals[i].number == signal_number)
            return signals[i].name;
    return "signal";
}

/* True if kill, raise or a similar function sent the signal, rather than an instruction that faulted. */
static bool is_sent(const siginfo_t *info)
{
    return info->si_code <= 0;
}

static bool is_from_outside(const siginfo_t *info)
{
    return is_sent(info) && info->si_pid != getpid();
}

static bool is_memory_fault(const struct crash *crash)
{
    return (crash->signal_number == SIGSEGV || crash->signal_number == SIGBUS) && !is_sent(crash->info);
}

/* True if the rank's stack is full, on which a child process continues. The stack pointer shows this for a
 * frame that skipped the whole guard, the address for code that touches the guard first. */
static bool is_stack_full(const struct crash *crash)
{
    const struct ult *u = &crash->rank->ult;

    if (!is_memory_fault(crash) || !(crash->is_on_ult || ampi_job.is_forked) || !u->stack_lo)
        return false;
    return (crash->sp < u->stack_lo && ampi_memory_region_of(crash->sp) >= 0) ||
           ampi_memory_guard_of(crash->info->si_addr) == ampi_job_index_of(crash->rank->world_rank);
}

/* The same for any other stack: a thread's, or one that the program created. */
static bool is_other_stack_full(const struct crash *crash)
{
    const char *addr = crash->info->si_addr;

    return is_memory_fault(crash) && addr < crash->sp + 4096 && addr + BELOW_STACK_BYTES >= crash->sp;
}

/* The caller, in the rank's program, of the code that crashed: the newest return address on the stack. It
 * may be a remnant of an earlier call, so this can be wrong, but seldom is. NULL: not found. */
static const char *find_caller(const struct crash *crash)
{
    const struct ult *u = &crash->rank->ult;
    const char *end;

    if (crash->is_on_ult && crash->sp >= u->stack_lo && crash->sp < u->stack_hi) {
        end = u->stack_hi;
    } else {
        end = image_mapping_end(crash->sp);
        if (end && (size_t)(end - crash->sp) > SEARCH_BYTES)
            end = crash->sp + SEARCH_BYTES;
    }
    for (const char *at = (const char *)((uintptr_t)crash->sp & ~(uintptr_t)7); end && at + sizeof end <= end;
         at += sizeof end) {
        const char *word;

        memcpy(&word, at, sizeof word);
        if (image_has_code(crash->rank->image, word) && image_has_code(crash->rank->image, word - 7) &&
            ult_arch_follows_call(word))
            return word;
    }
    return NULL;
}

/* ---- The report ---- */

static void add_origin(struct base_text *text, const struct crash *crash)
{
    if (crash->rank && ampi_rank_spawn(crash->rank) > 0) {
        base_text_add(text, "spawn ");
        base_text_add_number(text, crash->rank->spawned->number);
        base_text_add(text, ", ");
    }
    if (crash->rank) {
        base_text_add(text, crash->is_on_ult     ? "rank "
                            : ampi_job.is_forked ? "a child process of rank "
                                                 : "a thread of rank ");
        base_text_add_number(text, ampi_rank_number(crash->rank));
        base_text_add(text, " of ");
        base_text_add_number(text, ampi_rank_world_size(crash->rank));
        base_text_add(text, " on ");
    }
    base_text_add(text, "host ");
    base_text_add(text, ampi_job.host ? ampi_job.host : "this");
    if (crash->rank && crash->is_on_ult) {
        base_text_add(text, " (PE ");
        base_text_add_number(text, crash->rank->pe_id);
        base_text_add(text, ")");
    }
    base_text_add(text, ": ");
}

/* The newest frame of the program; NULL: not known. */
static const struct image_place *newest_of_program(void)
{
    for (int i = 0; i < report.frames.n; i++)
        if (report.frames.places[i].path)
            return &report.frames.places[i];
    return NULL;
}

/* Adds the function that crashed or, in a shared library, that function and its caller; and the last call of MPI. */
static void add_place(struct base_text *text, const struct crash *crash)
{
    bool is_abort = crash->signal_number == SIGABRT && is_sent(crash->info);
    const struct image_place *place = newest_of_program();
    char library[512];

    if (!is_abort && (!place || place != report.frames.places) &&
        image_describe_shared(crash->pc, library, sizeof library)) {
        base_text_add(text, " in ");
        base_text_add(text, library);
        base_text_add(text, place ? ", called from " : "");
    } else {
        base_text_add(text, place ? " in " : "");
    }
    if (place)
        ampi_backtrace_add_place(text, place, false);
    if (crash->rank && crash->ult && crash->ult->call) {
        base_text_add(text, "; last MPI call: ");
        base_text_add(text, crash->ult->call);
    }
}

static void add_overflow(struct base_text *text, const struct crash *crash)
{
    if (is_stack_full(crash)) {
        base_text_add(text, "stack overflow: the stack of ");
        base_text_add_number(text, (long long)(ampi_memory_stack_bytes() >> 10));
        base_text_add(text, " KiB is full; give ranks larger ones with +stacksize;");
    } else if (crash->is_on_ult) {
        base_text_add(text, "overflow of a stack that the program created;");
    } else {
        base_text_add(text, "stack overflow: the thread's stack is full; pthread_attr_setstacksize, "
                            "OMP_STACKSIZE or `ulimit -s` set its size;");
    }
}

static void add_signal(struct base_text *text, const struct crash *crash)
{
    base_text_add(text, name_of(crash->signal_number));
    if (is_from_outside(crash->info)) {
        base_text_add(text, ", sent by process ");
        base_text_add_number(text, crash->info->si_pid);
        return;
    }
    if (crash->signal_number == SIGABRT)
        base_text_add(text, ": abort() or raise(SIGABRT) was called");
    else if (is_sent(crash->info))
        base_text_add(text, ", which the program sent to itself,");
    else if (is_memory_fault(crash) && crash->info->si_code == SI_KERNEL)
        base_text_add(text, " at an address that cannot exist, or is not aligned,");
    else {
        base_text_add(text, " at ");
        base_text_add_hex(text, (uintptr_t)crash->info->si_addr);
        ampi_misuse_describe_fault(&crash->guarded, text);
    }
}

/* ---- The handler ---- */

/* Finds the rank that the calling thread runs or belongs to. A thread that is in a call of MPI has a ULT of its own. */
static void find_rank(struct crash *crash)
{
    const struct ult *u = ult_self();
    const struct image *image;
    int region;

    if (u) {
        crash->rank = u->owner;
        crash->ult = u;
        crash->is_on_ult = crash->rank && u == &crash->rank->ult;
        return;
    }
    image = ampi_job.is_virtual ? image_of_thread() : NULL;
    region = image ? ampi_memory_region_of(image_base(image)) : -1;
    crash->rank = region >= 0 ? &ampi_job.ranks[region] : NULL;
}

static void end_by(int signal_number) BASE_NORETURN;
static void end_by(int signal_number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t set;

    sigaction(signal_number, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, signal_number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(signal_number);
    _exit(128 + signal_number);
}

/* Writes the known part of the first line, unless the line was written. */
static void write_first_line(void)
{
    if (atomic_exchange(&report.is_line_open, false))
        base_text_write_line(&report.line);
}

/* The report takes too long. Any thread. */
static void handle_alarm(int signal_number)
{
    (void)signal_number;
    write_first_line();
    end_by(report.number);
}

/* Makes this thread the one that reports, for a limited time. */
static void begin_report(int signal_number)
{
    struct sigaction action = {.sa_handler = handle_alarm, .sa_flags = SA_ONSTACK};
    sigset_t set;

    while (atomic_exchange(&report.process, getpid()) == getpid())
        pause(); /* until another thread's report ends the process */
    report.number = signal_number;
    report.line = base_text_in(report.bytes, sizeof report.bytes);
    atomic_store(&report.is_line_open, true);
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    alarm(REPORT_SECONDS);
}

/* Reads the stack of the code that crashed. */
static void read_stack(const struct crash *crash, void *context)
{
    if (sigsetjmp(report.after_stack, 1) == 0) {
        report.is_on_stack = 1;
        ampi_backtrace_walk(&report.frames, context);
        if (crash->rank && crash->rank->image && !ampi_backtrace_has_program(&report.frames))
            report.caller = find_caller(crash);
    }
    report.is_on_stack = 0;
}

static void write_report(struct crash *crash, void *context)
{
    struct base_text *line = &report.line;

    find_rank(crash);
    if (is_from_outside(crash->info))
        crash->rank = NULL; /* the signal is meant for the process */
    add_origin(line, crash);
    if (crash->rank && (is_stack_full(crash) || is_other_stack_full(crash)))
        add_overflow(line, crash);
    else
        add_signal(line, crash);
    if (!is_from_outside(crash->info)) {
        read_stack(crash, context);
        ampi_backtrace_locate(&report.frames, crash->pc, report.caller);
        add_place(line, crash);
    }
    write_first_line();
    ampi_backtrace_write(&report.frames);
    if (ult_shuffles) {
        *line = base_text_in(report.bytes, sizeof report.bytes);
        base_text_add(line, "this run had +schedule random:");
        base_text_add_number(line, (long long)ult_shuffle_seed());
        if (ult_shuffle_list()) {
            base_text_add(line, ":");
            base_text_add(line, ult_shuffle_list());
        }
        base_text_write_line(line);
    }
}

/* True if a fault at a page of a pending operation is not the program's: then the page is open now. */
static bool open_for_library(struct crash *crash, void *context)
{
    static pthread_mutex_t lock =
        PTHREAD_MUTEX_INITIALIZER; /* guards the next one, too large for a signal stack */
    static struct ampi_backtrace frames;
    bool is_own = ampi_job.is_forked;

    if (!base_settings.check_buffers || !is_memory_fault(crash) ||
        !ampi_misuse_find_guarded(crash->info->si_addr, &crash->guarded))
        return false;
    pthread_mutex_lock(&lock);
    ampi_backtrace_walk(&frames, context);
    is_own = is_own || ampi_call_site_is_in_call(&frames);
    pthread_mutex_unlock(&lock);
    if (is_own)
        ampi_misuse_open_at(crash->info->si_addr);
    return is_own;
}

static void handle_crash(int signal_number, siginfo_t *info, void *context)
{
    static __thread volatile sig_atomic_t is_reporting;
    struct crash crash = {.signal_number = signal_number,
                          .info = info,
                          .pc = ult_arch_context_pc(context),
                          .sp = ult_arch_context_sp(context)};

    if (is_reporting) { /* a crash inside of the report */
        if (report.is_on_stack)
            siglongjmp(report.after_stack, 1);
        write_first_line();
        end_by(signal_number);
    }
    if (open_for_library(&crash, context))
        return;
    is_reporting = 1;
    begin_report(signal_number);
    write_report(&crash, context);
    ampi_trace_write();
    end_by(signal_number);
}

/* Gives the calling thread a signal stack, unless it has one: AddressSanitizer does that, too, and frees
 * the current one at the thread's end. */
static void give_signal_stack(void)
{
    stack_t stack;

    if (sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE))
        return;
    stack = (stack_t){.ss_size = SIGNAL_STACK_BYTES};
    stack.ss_sp = mmap(NULL, SIGNAL_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack.ss_sp == MAP_FAILED)
        base_fatal(1, "cannot allocate a signal stack: %s; raise `ulimit -v`", strerror(errno));
    sigaltstack(&stack, NULL);
}

void ampi_crash_handler_install(void)
{
    struct sigaction action = {.sa_sigaction = handle_crash,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

    give_signal_stack();
    for (size_t i = 0; i < BASE_COUNT(signals); i++) {
        struct sigaction old;
        if (sigaction(signals[i].number, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(signals[i].number, &action, NULL);
    }
    atomic_store(&is_installed, true);
}

bool ampi_crash_is_reported(int signal_number)
{
    return atomic_load(&is_installed) && !image_has_fault_handler(signal_number);
}
