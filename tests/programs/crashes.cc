/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Crashes in the way that the first argument names, in the last rank; or survives what a program may do with signals and
 * stacks.
 */
#include <mpi.h>

#include <alloca.h>
#include <cassert>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern "C" void crash_in_library(int *where);

#define NOINLINE __attribute__((noinline))

/* ---- Crashes ---- */

static volatile int n_calls;

static NOINLINE int recurse(int depth)
{
    volatile char room[1000];

    room[depth % 1000] = (char)depth;
    return recurse(depth + 1) + room[(depth + 1) % 1000];
}

static NOINLINE void write_to(volatile int *where)
{
    *where = 1;
}

static NOINLINE void copy_to(void *where)
{
    memset(where, 0, 100);
}

static NOINLINE void free_twice(void *block)
{
    free(block);
    free(block);
}

static NOINLINE void call_it(void (*volatile function)())
{
    function();
    n_calls++; /* so that it is no jump */
}

/* Code without a stack: neither the caller nor the report can read one. */
static NOINLINE void lose_stack()
{
    asm volatile("mov $16, %rsp; push %rax");
}

static NOINLINE void throw_it()
{
    throw std::runtime_error("nobody catches it");
}

/* As Fortran's runtime does after its backtrace. */
static void raise_again(int number)
{
    std::signal(number, SIG_DFL);
    raise(number);
}

static void *crash_in_thread(void *)
{
    write_to((int *)8);
    return nullptr;
}

static void *overflow_in_thread(void *)
{
    return (void *)(intptr_t)recurse(0);
}

static void crash_in_operation(void *, void *, int *, MPI_Datatype *)
{
    write_to((int *)8);
}

static void overflow_in_operation(void *, void *, int *, MPI_Datatype *)
{
    recurse(0);
}

static void *crash_in_call(void *function)
{
    int one = 1, sum = 1;
    MPI_Op op;

    MPI_Op_create((MPI_User_function *)function, 1, &op);
    MPI_Reduce_local(&one, &sum, 1, MPI_INT, op);
    return nullptr;
}

static void *abort_in_thread(void *)
{
    MPI_Abort(MPI_COMM_WORLD, 9);
    return nullptr;
}

static void run_thread(void *(*function)(void *), void *arg = nullptr)
{
    pthread_t thread;

    pthread_create(&thread, nullptr, function, arg);
    pthread_join(thread, nullptr);
}

/* The rank survives the crash of a process that it forked. */
static NOINLINE void run_child(int (*function)(int), int argument)
{
    pid_t child = fork();

    if (child == 0)
        _exit(function(argument));
    waitpid(child, nullptr, 0);
}

static NOINLINE int crash_in_child(int)
{
    write_to((int *)8);
    return 0;
}

static NOINLINE void crash(const std::string &how)
{
    if (how == "static")
        write_to((int *)8);
    if (how == "high")
        write_to((int *)0x1234567812345678);
    if (how == "libc")
        copy_to((void *)16);
    if (how == "library")
        crash_in_library((int *)8);
    if (how == "abort")
        abort();
    if (how == "assert")
        assert(how == "not this");
    if (how == "heap")
        free_twice(malloc(2000));
    if (how == "throw")
        throw_it();
    if (how == "no-code")
        call_it(nullptr);
    if (how == "data-as-code")
        call_it((void (*)())&n_calls);
    if (how == "heap-as-code")
        call_it((void (*)())malloc(16));
    if (how == "no-stack")
        lose_stack();
    if (how == "raise")
        raise(SIGSEGV);
    if (how == "raise-again") {
        std::signal(SIGSEGV, raise_again);
        write_to((int *)8);
    }
    if (how == "thread")
        run_thread(crash_in_thread);
    if (how == "thread-overflow")
        run_thread(overflow_in_thread);
    if (how == "thread-in-call")
        run_thread(crash_in_call, (void *)crash_in_operation);
    if (how == "thread-in-call-overflow")
        run_thread(crash_in_call, (void *)overflow_in_operation);
    if (how == "thread-abort")
        run_thread(abort_in_thread);
    if (how == "child")
        run_child(crash_in_child, 0);
    if (how == "child-overflow")
        run_child(recurse, 0);
    if (how == "wait-for-signal")
        for (;;) {
            std::printf("process %d\n", (int)getpid());
            std::fflush(stdout);
            sleep(1);
        }
}

/* ---- What programs do, and survive ---- */

static sigjmp_buf back;
static volatile int n_caught;
static int rank;

static void catch_fault(int, siginfo_t *, void *)
{
    n_caught++;
    siglongjmp(back, 1);
}

static void handle_faults(int flags)
{
    struct sigaction action = {};

    action.sa_sigaction = catch_fault;
    action.sa_flags = SA_SIGINFO | flags;
    sigaction(SIGSEGV, &action, nullptr);
}

/* Its own handler catches its own fault, in the rank that made it. */
static int own_handler()
{
    handle_faults(0);
    for (int i = 0; i < 3; i++) {
        MPI_Barrier(MPI_COMM_WORLD); /* other ranks run, with the same handler */
        if (sigsetjmp(back, 1) == 0)
            write_to((int *)8);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return n_caught == 3;
}

/* A stack for signals of its own, on which it survives a stack overflow. */
static int own_signal_stack()
{
    static char room[65536];
    stack_t stack = {}, now = {};

    stack.ss_sp = room;
    stack.ss_size = sizeof room;
    for (int i = 0; i < 2; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (sigaltstack(&stack, nullptr) != 0 || sigaltstack(nullptr, &now) != 0 || now.ss_sp != room)
            return 0;
        handle_faults(SA_ONSTACK);
        if (sigsetjmp(back, 1) == 0)
            recurse(0);
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
    MPI_Barrier(MPI_COMM_WORLD);
    return n_caught == 2;
}

/* The others have a handler, the last rank has none: its fault is a crash. */
static int others_handle(int n_ranks)
{
    if (rank < n_ranks - 1)
        handle_faults(0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == n_ranks - 1)
        write_to((int *)8);
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

static ucontext_t main_context, other_context;
static int n_there;

static void be_elsewhere()
{
    for (int i = 0; i < 3; i++) {
        int sum = 0, one = 1;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* blocks on a stack of the program's own */
        n_there += sum;
        swapcontext(&other_context, &main_context);
    }
}

/* Coroutines, each on a stack that the rank allocated. */
static int coroutines(int n_ranks)
{
    static char room[65536];

    getcontext(&other_context);
    other_context.uc_stack.ss_sp = room;
    other_context.uc_stack.ss_size = sizeof room;
    other_context.uc_link = &main_context;
    makecontext(&other_context, be_elsewhere, 0);
    for (int i = 0; i < 3; i++) {
        swapcontext(&main_context, &other_context);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return n_there == 3 * n_ranks;
}

static jmp_buf here;

static NOINLINE void jump(int depth)
{
    volatile char room[500];

    room[0] = (char)depth;
    MPI_Barrier(MPI_COMM_WORLD);
    if (depth == 0)
        longjmp(here, 7);
    jump(depth - 1);
    room[1] = room[0];
}

/* Out of deep calls, with other ranks on other stacks in between. */
static int jumps()
{
    int got = setjmp(here);

    if (got == 0)
        jump(10);
    MPI_Barrier(MPI_COMM_WORLD);
    return got == 7;
}

static NOINLINE int use_pages(size_t frame_bytes)
{
    volatile char *room = (volatile char *)alloca(frame_bytes);
    int sum = 0;

    for (size_t i = 0; i < frame_bytes; i += 1 << 20)
        room[i] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < frame_bytes; i += 1 << 20)
        sum += room[i];
    return sum;
}

static int survive(const std::string &how, int n_ranks)
{
    if (how == "handler")
        return own_handler();
    if (how == "others-handle")
        return others_handle(n_ranks);
    if (how == "signal-stack")
        return own_signal_stack();
    if (how == "coroutines")
        return coroutines(n_ranks);
    if (how == "jumps")
        return jumps();
    if (how == "100-mib")
        return use_pages(100 << 20) == 100;
    return 1;
}

int main(int argc, char **argv)
{
    std::string how = argc > 1 ? argv[1] : "";
    int n_ranks, is_well, level = how.find("thread-in-call") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;

    MPI_Init_thread(&argc, &argv, level, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    if (rank == n_ranks - 1)
        crash(how);
    is_well = survive(how, n_ranks);
    MPI_Allreduce(MPI_IN_PLACE, &is_well, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        std::puts(is_well ? "all is well" : "something is wrong");
    MPI_Finalize();
    if (how == "crash-at-end" && rank == n_ranks - 1)
        recurse(0);
    return 0;
}
