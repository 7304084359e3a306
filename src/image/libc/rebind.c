/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind.c: the table of the C library's names that resolve to a replacement in a rank's code.
 *
 * Relocation consults the table (reloc.c), only for references from the program and its private libraries
 * to names that neither of them defines. Shared libraries and this library itself keep libc's functions. On
 * an OS thread that runs no rank, the replacements behave like libc's functions.
 */
#include "image/libc/rebind.h"

#include "image/copy/instantiate.h"
#include "image/copy/lazy_tls.h"
#include "image/copy/private_libraries.h"
#include "image/copy/threads.h"

#include <string.h>

#define FUNCTION(name, replacement, why)     \
    {                                        \
        name, (void *)(replacement), -1, why \
    }
#define VARIABLE(name, field, why) \
    {                              \
        name, NULL, field, why     \
    }

static const struct image_rebinding libc_table[] = {
    /* The rank's end (rebind_exit.c) */
    FUNCTION("exit", image_libc_exit, "ends the rank, not the process"),
    FUNCTION("_exit", image_libc__exit, "ends the rank, not the process"),
    FUNCTION("_Exit", image_libc__exit, "ends the rank, not the process"),
    FUNCTION("syscall", image_libc_syscall, "exit_group ends the rank, not the process"),
    FUNCTION("quick_exit", image_libc_quick_exit, "ends the rank, not the process"),
    FUNCTION("abort", image_libc_abort, "aborts the job and names the rank"),
    FUNCTION("__assert_fail", image_libc_assert_fail, "aborts the job and names the rank"),
    FUNCTION("err", image_libc_err, "calls exit"),
    FUNCTION("errx", image_libc_errx, "calls exit"),
    FUNCTION("verr", image_libc_verr, "calls exit"),
    FUNCTION("verrx", image_libc_verrx, "calls exit"),
    FUNCTION("error", image_libc_error, "calls exit"),
    FUNCTION("atexit", image_libc_atexit, "called at the rank's end"),
    FUNCTION("on_exit", image_libc_on_exit, "called at the rank's end"),
    FUNCTION("at_quick_exit", image_libc_at_quick_exit, "called at the rank's end"),
    FUNCTION("__cxa_atexit", image_libc_cxa_atexit, "destroys the rank's static objects"),
    FUNCTION("__cxa_at_quick_exit", image_libc_cxa_at_quick_exit, "called at the rank's end"),
    FUNCTION("__cxa_finalize", image_libc_cxa_finalize, "a copy's handlers are in its own list"),
    FUNCTION("__cxa_thread_atexit_impl", image_libc_cxa_thread_atexit,
             "a rank's thread_local objects die with it"),
    FUNCTION("__cxa_thread_atexit", image_libc_cxa_thread_atexit,
             "a rank's thread_local objects die with it"),

    /* The end of the rank's main thread (rebind_thread_exit.c) */
    FUNCTION("pthread_exit", image_libc_pthread_exit, "ends the rank's ULT, not the PE's thread"),
    FUNCTION("thrd_exit", image_libc_thrd_exit, "ends the rank's ULT, not the PE's thread"),
    FUNCTION("pthread_cancel", image_libc_cancel, "the main thread is a ULT"),
    FUNCTION("pthread_testcancel", image_libc_testcancel, "the main thread is a ULT"),
    FUNCTION("pthread_setcancelstate", image_libc_setcancelstate, "the main thread is a ULT"),
    FUNCTION("pthread_setcanceltype", image_libc_setcanceltype, "the main thread is a ULT"),
    FUNCTION("pthread_kill", image_libc_pthread_kill, "the main thread is a ULT"),
    FUNCTION("pthread_sigqueue", image_libc_pthread_sigqueue, "the main thread is a ULT"),
    FUNCTION("pthread_getcpuclockid", image_libc_getcpuclockid, "the main thread is a ULT"),
    FUNCTION("pthread_join", image_libc_join, "other ranks run meanwhile"),
    FUNCTION("pthread_tryjoin_np", image_libc_tryjoin, "the main thread is a ULT"),
    FUNCTION("pthread_timedjoin_np", image_libc_timedjoin, "other ranks run meanwhile"),
    FUNCTION("pthread_clockjoin_np", image_libc_clockjoin, "other ranks run meanwhile"),
    FUNCTION("thrd_join", image_libc_thrd_join, "other ranks run meanwhile"),
    FUNCTION("__pthread_register_cancel", image_libc_register_cancel, "cleanup handlers per ULT"),
    FUNCTION("__pthread_unregister_cancel", image_libc_unregister_cancel, "cleanup handlers per ULT"),
    FUNCTION("__pthread_register_cancel_defer", image_libc_register_cancel_defer, "cleanup handlers per ULT"),
    FUNCTION("__pthread_unregister_cancel_restore", image_libc_unregister_cancel_restore,
             "cleanup handlers per ULT"),
    FUNCTION("__pthread_unwind_next", image_libc_unwind_next, "cleanup handlers per ULT"),

    /* The rank's number (rebind_pid.c) */
    FUNCTION("getpid", image_libc_getpid, "ranks name files by it"),
    FUNCTION("__getpid", image_libc_getpid, "ranks name files by it"),
    FUNCTION("getppid", image_libc_getppid, "a child's parent is the rank"),
    FUNCTION("kill", image_libc_kill,
             "the process's first thread gets the signal, not the rank's sleeping one"),
    FUNCTION("sigqueue", image_libc_sigqueue,
             "the process's first thread gets the signal, not the rank's sleeping one"),
    FUNCTION("setpgid", image_libc_setpgid, "the number of a rank is not a process's"),
    FUNCTION("__setpgid", image_libc_setpgid, "the number of a rank is not a process's"),
    FUNCTION("tgkill", image_libc_tgkill, "the number of a rank is not a process's"),
    FUNCTION("pidfd_open", image_libc_pidfd_open, "the number of a rank is not a process's"),
    FUNCTION("clock_getcpuclockid", image_libc_clock_getcpuclockid,
             "the number of a rank is not a process's"),

    /* Fixed addresses (rebind_mmap.c) */
    FUNCTION("mmap", image_libc_mmap, "ranks share addresses"),
    FUNCTION("mmap64", image_libc_mmap, "ranks share addresses"),
    FUNCTION("munmap", image_libc_munmap, "ranks share addresses"),

    /* Processes (rebind_process.c) */
    FUNCTION("fork", image_libc_fork, "the child is the rank's alone"),
    FUNCTION("__fork", image_libc_fork, "the child is the rank's alone"),
    FUNCTION("_Fork", image_libc__Fork, "the child is the rank's alone"),
    FUNCTION("posix_spawn", image_libc_posix_spawn, "the child is the rank's alone"),
    FUNCTION("posix_spawnp", image_libc_posix_spawnp, "the child is the rank's alone"),
    FUNCTION("wait", image_libc_wait, "the rank's children; other ranks run meanwhile"),
    FUNCTION("__wait", image_libc_wait, "the rank's children; other ranks run meanwhile"),
    FUNCTION("waitpid", image_libc_waitpid, "the rank's children; other ranks run meanwhile"),
    FUNCTION("__waitpid", image_libc_waitpid, "the rank's children; other ranks run meanwhile"),
    FUNCTION("wait3", image_libc_wait3, "the rank's children; other ranks run meanwhile"),
    FUNCTION("wait4", image_libc_wait4, "the rank's children; other ranks run meanwhile"),
    FUNCTION("waitid", image_libc_waitid, "the rank's children; other ranks run meanwhile"),
    FUNCTION("pthread_atfork", image_libc_atfork, "handlers of the rank that forks"),
    FUNCTION("__register_atfork", image_libc_register_atfork, "handlers of the rank that forks"),

    /* Keys of thread-specific data (rebind_keys.c) */
    FUNCTION("pthread_key_create", image_libc_key_create, "each rank has as many keys as a process"),
    FUNCTION("__pthread_key_create", image_libc_key_create, "each rank has as many keys as a process"),
    FUNCTION("pthread_key_delete", image_libc_key_delete, "a key of the rank"),
    FUNCTION("pthread_getspecific", image_libc_getspecific, "a key of the rank"),
    FUNCTION("pthread_setspecific", image_libc_setspecific, "a key of the rank"),
    FUNCTION("tss_create", image_libc_tss_create, "each rank has as many keys as a process"),
    FUNCTION("tss_delete", image_libc_tss_delete, "a key of the rank"),
    FUNCTION("tss_get", image_libc_getspecific, "a key of the rank"),
    FUNCTION("tss_set", image_libc_tss_set, "a key of the rank"),

    /* Handlers of faults (rebind_signal.c) */
    FUNCTION("sigaltstack", image_libc_sigaltstack, "a fault's handler runs on the rank's own stack"),
    FUNCTION("sigaction", image_libc_sigaction, "the handler of a rank's fault is the rank's own"),
    FUNCTION("signal", image_libc_signal, "the handler of a rank's fault is the rank's own"),
    FUNCTION("bsd_signal", image_libc_signal, "another name of signal"),
    FUNCTION("ssignal", image_libc_signal, "another name of signal"),
    FUNCTION("__sysv_signal", image_libc_sysv_signal, "signal's name in ISO C programs"),
    FUNCTION("sysv_signal", image_libc_sysv_signal, "signal's name in ISO C programs"),

    /* getopt (rebind_getopt.c) */
    FUNCTION("getopt", image_libc_getopt, "scans the rank's arguments with the rank's state"),
    FUNCTION("__posix_getopt", image_libc_posix_getopt, "getopt's name in POSIX programs"),
    FUNCTION("getopt_long", image_libc_getopt_long, "scans the rank's arguments with the rank's state"),
    FUNCTION("getopt_long_only", image_libc_getopt_long_only,
             "scans the rank's arguments with the rank's state"),
    VARIABLE("optarg", IMAGE_OPTARG, "getopt's answer"),
    VARIABLE("optind", IMAGE_OPTIND, "getopt's position"),
    VARIABLE("opterr", IMAGE_OPTERR, "whether getopt prints errors"),
    VARIABLE("optopt", IMAGE_OPTOPT, "getopt's answer"),

    /* Random numbers (rebind_random.c) */
    FUNCTION("rand", image_libc_rand, "a sequence per rank"),
    FUNCTION("srand", image_libc_srandom, "a sequence per rank"),
    FUNCTION("random", image_libc_random, "a sequence per rank"),
    FUNCTION("srandom", image_libc_srandom, "a sequence per rank"),
    FUNCTION("initstate", image_libc_initstate, "a sequence per rank"),
    FUNCTION("setstate", image_libc_setstate, "a sequence per rank"),
    FUNCTION("drand48", image_libc_drand48, "a sequence per rank"),
    FUNCTION("erand48", image_libc_erand48, "lcong48 sets its multiplier"),
    FUNCTION("lrand48", image_libc_lrand48, "a sequence per rank"),
    FUNCTION("nrand48", image_libc_nrand48, "lcong48 sets its multiplier"),
    FUNCTION("mrand48", image_libc_mrand48, "a sequence per rank"),
    FUNCTION("jrand48", image_libc_jrand48, "lcong48 sets its multiplier"),
    FUNCTION("srand48", image_libc_srand48, "a sequence per rank"),
    FUNCTION("seed48", image_libc_seed48, "a sequence per rank"),
    FUNCTION("lcong48", image_libc_lcong48, "a sequence per rank"),

    /* Yielding the processor (rebind_sleep.c) */
    FUNCTION("sleep", image_libc_sleep, "other ranks run meanwhile"),
    FUNCTION("usleep", image_libc_usleep, "other ranks run meanwhile"),
    FUNCTION("nanosleep", image_libc_nanosleep, "other ranks run meanwhile"),
    FUNCTION("__nanosleep", image_libc_nanosleep, "other ranks run meanwhile"),
    FUNCTION("clock_nanosleep", image_libc_clock_nanosleep, "other ranks run meanwhile"),
    FUNCTION("thrd_sleep", image_libc_thrd_sleep, "other ranks run meanwhile"),
    FUNCTION("sched_yield", image_libc_sched_yield, "other ranks run meanwhile"),
    FUNCTION("__sched_yield", image_libc_sched_yield, "other ranks run meanwhile"),
    FUNCTION("pthread_yield", image_libc_sched_yield, "other ranks run meanwhile"),
    FUNCTION("thrd_yield", image_libc_thrd_yield, "other ranks run meanwhile"),

    /* Pinning to CPUs (rebind_affinity.c) */
    FUNCTION("sched_setaffinity", image_libc_sched_setaffinity, "the thread is the PE's, not the rank's"),
    FUNCTION("sched_getaffinity", image_libc_sched_getaffinity,
             "returns the affinity that the rank has asked for"),
    FUNCTION("pthread_setaffinity_np", image_libc_pthread_setaffinity,
             "the thread is the PE's, not the rank's"),
    FUNCTION("pthread_getaffinity_np", image_libc_pthread_getaffinity,
             "returns the affinity that the rank has asked for"),

    /* Waiting for files that are not on disk (rebind_io.c) */
    FUNCTION("read", image_libc_read, "other ranks run meanwhile"),
    FUNCTION("__read", image_libc_read, "other ranks run meanwhile"),
    FUNCTION("__read_chk", image_libc_read_chk, "other ranks run meanwhile"),
    FUNCTION("readv", image_libc_readv, "other ranks run meanwhile"),
    FUNCTION("recv", image_libc_recv, "other ranks run meanwhile"),
    FUNCTION("__recv_chk", image_libc_recv_chk, "other ranks run meanwhile"),
    FUNCTION("recvfrom", image_libc_recvfrom, "other ranks run meanwhile"),
    FUNCTION("__recvfrom_chk", image_libc_recvfrom_chk, "other ranks run meanwhile"),
    FUNCTION("recvmsg", image_libc_recvmsg, "other ranks run meanwhile"),
    FUNCTION("recvmmsg", image_libc_recvmmsg, "other ranks run meanwhile"),
    FUNCTION("accept", image_libc_accept, "other ranks run meanwhile"),
    FUNCTION("accept4", image_libc_accept4, "other ranks run meanwhile"),
    FUNCTION("eventfd_read", image_libc_eventfd_read, "other ranks run meanwhile"),
    FUNCTION("eventfd_write", image_libc_eventfd_write, "other ranks run meanwhile"),
    FUNCTION("fileno", image_libc_fileno, "streams of --tag-output stand for descriptors 1 and 2"),
    FUNCTION("fileno_unlocked", image_libc_fileno, "streams of --tag-output stand for descriptors 1 and 2"),
    FUNCTION("write", image_libc_write, "other ranks run meanwhile"),
    FUNCTION("__write", image_libc_write, "other ranks run meanwhile"),
    FUNCTION("writev", image_libc_writev, "other ranks run meanwhile"),
    FUNCTION("send", image_libc_send, "other ranks run meanwhile"),
    FUNCTION("__send", image_libc_send, "other ranks run meanwhile"),
    FUNCTION("sendto", image_libc_sendto, "other ranks run meanwhile"),
    FUNCTION("sendmsg", image_libc_sendmsg, "other ranks run meanwhile"),
    FUNCTION("sendmmsg", image_libc_sendmmsg, "other ranks run meanwhile"),

    /* The same for several of them (rebind_poll.c) */
    FUNCTION("select", image_libc_select, "other ranks run meanwhile"),
    FUNCTION("__select", image_libc_select, "other ranks run meanwhile"),
    FUNCTION("pselect", image_libc_pselect, "other ranks run meanwhile"),
    FUNCTION("poll", image_libc_poll, "other ranks run meanwhile"),
    FUNCTION("__poll", image_libc_poll, "other ranks run meanwhile"),
    FUNCTION("__poll_chk", image_libc_poll_chk, "other ranks run meanwhile"),
    FUNCTION("ppoll", image_libc_ppoll, "other ranks run meanwhile"),
    FUNCTION("__ppoll_chk", image_libc_ppoll_chk, "other ranks run meanwhile"),
    FUNCTION("epoll_wait", image_libc_epoll_wait, "other ranks run meanwhile"),
    FUNCTION("epoll_pwait", image_libc_epoll_pwait, "other ranks run meanwhile"),
#if __GLIBC_PREREQ(2, 35)
    FUNCTION("epoll_pwait2", image_libc_epoll_pwait2, "other ranks run meanwhile"),
#endif

    /* Waiting for the other end of a FIFO or a connection (rebind_open.c) */
    FUNCTION("open", image_libc_open, "other ranks run meanwhile"),
    FUNCTION("open64", image_libc_open, "other ranks run meanwhile"),
    FUNCTION("__open", image_libc_open, "other ranks run meanwhile"),
    FUNCTION("__open64", image_libc_open, "other ranks run meanwhile"),
    FUNCTION("__open_2", image_libc_open_2, "other ranks run meanwhile"),
    FUNCTION("__open64_2", image_libc_open_2, "other ranks run meanwhile"),
    FUNCTION("openat", image_libc_openat, "other ranks run meanwhile"),
    FUNCTION("openat64", image_libc_openat, "other ranks run meanwhile"),
    FUNCTION("__openat_2", image_libc_openat_2, "other ranks run meanwhile"),
    FUNCTION("__openat64_2", image_libc_openat_2, "other ranks run meanwhile"),
    FUNCTION("creat", image_libc_creat, "other ranks run meanwhile"),
    FUNCTION("creat64", image_libc_creat, "other ranks run meanwhile"),
    FUNCTION("fopen", image_libc_fopen, "other ranks run meanwhile"),
    FUNCTION("fopen64", image_libc_fopen, "other ranks run meanwhile"),
    FUNCTION("_IO_fopen", image_libc_fopen, "other ranks run meanwhile"),
    FUNCTION("freopen", image_libc_freopen, "other ranks run meanwhile"),
    FUNCTION("freopen64", image_libc_freopen, "other ranks run meanwhile"),
    FUNCTION("connect", image_libc_connect, "other ranks run meanwhile"),
    FUNCTION("__connect", image_libc_connect, "other ranks run meanwhile"),

    /* Message queues and semaphores of the system (rebind_ipc.c) */
    FUNCTION("msgrcv", image_libc_msgrcv, "other ranks run meanwhile"),
    FUNCTION("msgsnd", image_libc_msgsnd, "other ranks run meanwhile"),
    FUNCTION("semop", image_libc_semop, "other ranks run meanwhile"),
    FUNCTION("mq_receive", image_libc_mq_receive, "other ranks run meanwhile"),
    FUNCTION("mq_send", image_libc_mq_send, "other ranks run meanwhile"),

    /* Waiting for objects that processes share (rebind_sync.c) */
    FUNCTION("pthread_mutexattr_setprotocol", image_libc_mutexattr_setprotocol,
             "the owner is not always the thread that the kernel knows"),
    FUNCTION("pthread_mutex_lock", image_libc_mutex_lock, "other ranks run meanwhile"),
    FUNCTION("__pthread_mutex_lock", image_libc_mutex_lock, "other ranks run meanwhile"),
    FUNCTION("pthread_mutex_timedlock", image_libc_mutex_timedlock, "other ranks run meanwhile"),
    FUNCTION("pthread_mutex_clocklock", image_libc_mutex_clocklock, "other ranks run meanwhile"),
    FUNCTION("pthread_rwlock_rdlock", image_libc_rwlock_rdlock, "other ranks run meanwhile"),
    FUNCTION("__pthread_rwlock_rdlock", image_libc_rwlock_rdlock, "other ranks run meanwhile"),
    FUNCTION("pthread_rwlock_timedrdlock", image_libc_rwlock_timedrdlock, "other ranks run meanwhile"),
    FUNCTION("pthread_rwlock_clockrdlock", image_libc_rwlock_clockrdlock, "other ranks run meanwhile"),
    FUNCTION("pthread_rwlock_wrlock", image_libc_rwlock_wrlock, "other ranks run meanwhile"),
    FUNCTION("__pthread_rwlock_wrlock", image_libc_rwlock_wrlock, "other ranks run meanwhile"),
    FUNCTION("pthread_rwlock_timedwrlock", image_libc_rwlock_timedwrlock, "other ranks run meanwhile"),
    FUNCTION("pthread_rwlock_clockwrlock", image_libc_rwlock_clockwrlock, "other ranks run meanwhile"),
    FUNCTION("sem_wait", image_libc_sem_wait, "other ranks run meanwhile"),
    FUNCTION("sem_timedwait", image_libc_sem_timedwait, "other ranks run meanwhile"),
    FUNCTION("sem_clockwait", image_libc_sem_clockwait, "other ranks run meanwhile"),
    FUNCTION("pthread_barrier_wait", image_libc_barrier_wait, "other ranks run meanwhile"),
    FUNCTION("pthread_spin_lock", image_libc_spin_lock, "other ranks run meanwhile"),
    FUNCTION("mtx_lock", image_libc_mtx_lock, "other ranks run meanwhile"),
    FUNCTION("mtx_timedlock", image_libc_mtx_timedlock, "other ranks run meanwhile"),
    FUNCTION("cnd_wait", image_libc_cnd_wait, "other ranks run meanwhile"),
    FUNCTION("cnd_timedwait", image_libc_cnd_timedwait, "other ranks run meanwhile"),
    FUNCTION("pthread_cond_wait", image_libc_cond_wait, "other ranks run meanwhile"),
    FUNCTION("pthread_cond_timedwait", image_libc_cond_timedwait, "other ranks run meanwhile"),
    FUNCTION("pthread_cond_clockwait", image_libc_cond_clockwait, "other ranks run meanwhile"),

    /* Locks of files (rebind_locks.c) */
    FUNCTION("fcntl", image_libc_fcntl, "POSIX locks are the rank's"),
    FUNCTION("__fcntl", image_libc_fcntl, "POSIX locks are the rank's"),
    FUNCTION("fcntl64", image_libc_fcntl, "POSIX locks are the rank's"),
    FUNCTION("lockf", image_libc_lockf, "POSIX locks are the rank's"),
    FUNCTION("lockf64", image_libc_lockf, "POSIX locks are the rank's"),
    FUNCTION("flock", image_libc_flock, "other ranks run meanwhile"),
    FUNCTION("close", image_libc_close, "releases the rank's locks of the file"),
    FUNCTION("__close", image_libc_close, "releases the rank's locks of the file"),
    FUNCTION("fclose", image_libc_fclose, "releases the rank's locks of the file"),
    FUNCTION("_IO_fclose", image_libc_fclose, "releases the rank's locks of the file"),
    FUNCTION("dup2", image_libc_dup2, "releases the rank's locks of the file that it closes"),
    FUNCTION("__dup2", image_libc_dup2, "releases the rank's locks of the file that it closes"),
    FUNCTION("dup3", image_libc_dup3, "releases the rank's locks of the file that it closes"),

    /* The main thread's stack (rebind_stack.c) */
    FUNCTION("pthread_getattr_np", image_libc_getattr, "the main thread's stack is a ULT's"),
    VARIABLE("__libc_stack_end", IMAGE_STACK_END, "the main thread's stack is a ULT's"),

    /* Static storage of libc (rebind_buffers.c) */
    FUNCTION("strtok", image_libc_strtok, "keeps the rank's position"),
    FUNCTION("localtime", image_libc_localtime, "returns the rank's buffer; PEs run in parallel"),
    FUNCTION("gmtime", image_libc_gmtime, "returns the rank's buffer; PEs run in parallel"),
    FUNCTION("asctime", image_libc_asctime, "returns the rank's buffer; PEs run in parallel"),
    FUNCTION("ctime", image_libc_ctime, "returns the rank's buffer; PEs run in parallel"),
    FUNCTION("hcreate", image_libc_hcreate, "the hash table is the rank's"),
    FUNCTION("hdestroy", image_libc_hdestroy, "the hash table is the rank's"),
    FUNCTION("hsearch", image_libc_hsearch, "the hash table is the rank's"),
    FUNCTION("inet_ntoa", image_libc_inet_ntoa, "returns the rank's storage"),
    FUNCTION("strerror", image_libc_strerror, "returns the rank's storage"),
    FUNCTION("strsignal", image_libc_strsignal, "returns the rank's storage"),
    FUNCTION("tmpnam", image_libc_tmpnam, "returns the rank's storage"),
    FUNCTION("ttyname", image_libc_ttyname, "returns the rank's storage"),
    FUNCTION("getlogin", image_libc_getlogin, "returns the rank's storage"),
    FUNCTION("mbrtowc", image_libc_mbrtowc, "a character's first bytes may be the rank's"),
    FUNCTION("mbrlen", image_libc_mbrlen, "a character's first bytes may be the rank's"),
    FUNCTION("__mbrlen", image_libc_mbrlen, "a character's first bytes may be the rank's"),
    FUNCTION("mbrtoc16", image_libc_mbrtoc16, "a character's first bytes may be the rank's"),
    FUNCTION("mbrtoc32", image_libc_mbrtoc32, "a character's first bytes may be the rank's"),
    FUNCTION("mbtowc", image_libc_mbtowc, "a character's first bytes may be the rank's"),
    FUNCTION("mblen", image_libc_mblen, "a character's first bytes may be the rank's"),

    /* The same for users, hosts and others (rebind_databases.c) */
    FUNCTION("getpwnam", image_libc_getpwnam, "returns the rank's storage"),
    FUNCTION("getpwuid", image_libc_getpwuid, "returns the rank's storage"),
    FUNCTION("getgrnam", image_libc_getgrnam, "returns the rank's storage"),
    FUNCTION("getgrgid", image_libc_getgrgid, "returns the rank's storage"),
    FUNCTION("gethostbyname", image_libc_gethostbyname, "returns the rank's storage"),
    FUNCTION("gethostbyname2", image_libc_gethostbyname2, "returns the rank's storage"),
    FUNCTION("gethostbyaddr", image_libc_gethostbyaddr, "returns the rank's storage"),
    FUNCTION("getservbyname", image_libc_getservbyname, "returns the rank's storage"),
    FUNCTION("getservbyport", image_libc_getservbyport, "returns the rank's storage"),
    FUNCTION("getprotobyname", image_libc_getprotobyname, "returns the rank's storage"),
    FUNCTION("getprotobynumber", image_libc_getprotobynumber, "returns the rank's storage"),
    FUNCTION("getmntent", image_libc_getmntent, "returns the rank's storage"),
    FUNCTION("getpwent", image_libc_getpwent, "keeps the rank's position"),
    FUNCTION("setpwent", image_libc_setpwent, "keeps the rank's position"),
    FUNCTION("endpwent", image_libc_endpwent, "keeps the rank's position"),
    FUNCTION("getgrent", image_libc_getgrent, "keeps the rank's position"),
    FUNCTION("setgrent", image_libc_setgrent, "keeps the rank's position"),
    FUNCTION("endgrent", image_libc_endgrent, "keeps the rank's position"),

    /* The sign of a logarithm of the gamma function (rebind_lgamma.c) */
    FUNCTION("lgamma", image_libc_lgamma, "stores the sign for the rank"),
    FUNCTION("gamma", image_libc_lgamma, "stores the sign for the rank"),
    FUNCTION("lgammaf", image_libc_lgammaf, "stores the sign for the rank"),
    FUNCTION("gammaf", image_libc_lgammaf, "stores the sign for the rank"),
    FUNCTION("lgammal", image_libc_lgammal, "stores the sign for the rank"),
    FUNCTION("gammal", image_libc_lgammal, "stores the sign for the rank"),
    VARIABLE("signgam", IMAGE_SIGNGAM, "the sign of the rank's lgamma"),
    VARIABLE("__signgam", IMAGE_SIGNGAM, "the sign of the rank's lgamma"),

    /* Data of ld.so and libstdc++ about the program (rebind_dlopen.c, rebind_symbols.c) */
    FUNCTION("dlopen", image_libc_dlopen, "a plugin's variables are the rank's own"),
    FUNCTION("dlerror", image_libc_dlerror, "other ranks of the PE may have failed since"),
    FUNCTION("dlclose", image_libc_dlclose, "other ranks may have opened the same library"),
    FUNCTION("dlsym", image_libc_dlsym, "returns addresses in the rank's copy"),
    FUNCTION("__tls_get_addr", image_tls_get_addr,
             "per-rank thread_local variables of libraries (lazy_tls.c)"),
    FUNCTION("dlvsym", image_libc_dlvsym, "returns addresses in the rank's copy"),
    FUNCTION("dladdr", image_libc_dladdr, "knows addresses in the rank's copy"),
    FUNCTION("dladdr1", image_libc_dladdr1, "knows addresses in the rank's copy"),
    FUNCTION("dlinfo", image_libc_dlinfo, "returns the modules of the rank's copy"),
    FUNCTION("backtrace_symbols", image_libc_backtrace_symbols, "knows addresses in the rank's copy"),
    FUNCTION("backtrace_symbols_fd", image_libc_backtrace_symbols_fd, "knows addresses in the rank's copy"),
    FUNCTION("_ZNSt8ios_base15sync_with_stdioEb", image_ios_sync_with_stdio,
             "would replace the buffers that the other ranks' std::cout writes to"),

    /* Handlers of the C++ runtime (rebind_handlers.c) */
    FUNCTION("_ZSt13set_terminatePFvvE", image_libc_set_terminate, "a handler per rank"),
    FUNCTION("_ZSt15set_new_handlerPFvvE", image_libc_set_new_handler, "a handler per rank"),
    FUNCTION("_ZSt14set_unexpectedPFvvE", image_libc_set_unexpected, "a handler per rank"),
    FUNCTION("_ZSt13get_terminatev", image_libc_get_terminate, "a handler per rank"),
    FUNCTION("_ZSt15get_new_handlerv", image_libc_get_new_handler, "a handler per rank"),
    FUNCTION("_ZSt14get_unexpectedv", image_libc_get_unexpected, "a handler per rank"),

    /* The environment (rebind_env.c, rebind_exec.c) and the time zone, which is part of it (rebind_time.c) */
    FUNCTION("getenv", image_libc_getenv, "the rank's environment"),
    FUNCTION("secure_getenv", image_libc_secure_getenv, "the rank's environment"),
    FUNCTION("setenv", image_libc_setenv, "the rank's environment"),
    FUNCTION("unsetenv", image_libc_unsetenv, "the rank's environment"),
    FUNCTION("putenv", image_libc_putenv, "the rank's environment"),
    FUNCTION("clearenv", image_libc_clearenv, "the rank's environment"),
    VARIABLE("environ", IMAGE_ENVIRON, "the rank's environment"),
    VARIABLE("__environ", IMAGE_ENVIRON, "the rank's environment"),
    VARIABLE("_environ", IMAGE_ENVIRON, "the rank's environment"),
    FUNCTION("execv", image_libc_execv, "replaces the rank, not the process; passes on its environment"),
    FUNCTION("execvp", image_libc_execvp, "replaces the rank, not the process; passes on its environment"),
    FUNCTION("execl", image_libc_execl, "replaces the rank, not the process; passes on its environment"),
    FUNCTION("execlp", image_libc_execlp, "replaces the rank, not the process; passes on its environment"),
    FUNCTION("execve", image_libc_execve, "replaces the rank, not the process; passes on its environment"),
    FUNCTION("execvpe", image_libc_execvpe, "replaces the rank, not the process; passes on its environment"),
    FUNCTION("execle", image_libc_execle, "replaces the rank, not the process; passes on its environment"),
    FUNCTION("fexecve", image_libc_fexecve, "replaces the rank, not the process; passes on its environment"),
    FUNCTION("system", image_libc_system, "passes on the rank's environment; other ranks run meanwhile"),
    FUNCTION("popen", image_libc_popen, "passes on the rank's environment"),
    FUNCTION("_IO_popen", image_libc_popen, "passes on the rank's environment"),
    FUNCTION("pclose", image_libc_pclose, "waits for popen's child; other ranks run meanwhile"),
    FUNCTION("tzset", image_libc_tzset, "the rank's TZ"),
    FUNCTION("localtime_r", image_libc_localtime_r, "the rank's TZ"),
    FUNCTION("ctime_r", image_libc_ctime_r, "the rank's TZ"),
    FUNCTION("mktime", image_libc_mktime, "the rank's TZ"),
    FUNCTION("timelocal", image_libc_mktime, "the rank's TZ"),
    FUNCTION("strftime", image_libc_strftime, "the rank's TZ"),
    VARIABLE("timezone", IMAGE_TIMEZONE, "the rank's TZ"),
    VARIABLE("__timezone", IMAGE_TIMEZONE, "the rank's TZ"),
    VARIABLE("daylight", IMAGE_DAYLIGHT, "the rank's TZ"),
    VARIABLE("__daylight", IMAGE_DAYLIGHT, "the rank's TZ"),
    VARIABLE("tzname", IMAGE_TZNAME, "the rank's TZ"),
    VARIABLE("__tzname", IMAGE_TZNAME, "the rank's TZ"),
};

/* Of libraries that a rank may have a copy of (rebind_openmp.c): whichever defines them. */
static const struct image_rebinding library_table[] = {
    FUNCTION("GOMP_critical_start", image_libc_gomp_critical_start, "critical sections per rank"),
    FUNCTION("GOMP_critical_end", image_libc_gomp_critical_end, "critical sections per rank"),
};

/* Tables of the layers above. */
static struct {
    const struct image_rebinding *table;
    size_t count;
} more_tables[8];
static size_t n_more_tables;

void image_rebind_add(const struct image_rebinding *table, size_t count)
{
    BASE_ASSERT(n_more_tables < BASE_COUNT(more_tables));
    more_tables[n_more_tables].table = table;
    more_tables[n_more_tables++].count = count;
}

static const struct image_rebinding *find_in(const struct image_rebinding *table, size_t count,
                                             const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static const struct image_rebinding *find(const char *name)
{
    const struct image_rebinding *found = find_in(libc_table, BASE_COUNT(libc_table), name);

    if (!found)
        found = find_in(library_table, BASE_COUNT(library_table), name);
    for (size_t i = 0; i < n_more_tables; i++) {
        const struct image_rebinding *other = find_in(more_tables[i].table, more_tables[i].count, name);

        if (other)
            found = other;
    }
    return found;
}

static const struct image_rebinding *find_for(const char *name, const void *definition)
{
    const struct image_rebinding *found = definition ? find(name) : NULL;
    Dl_info info, own;

    if (!found || found < libc_table || found >= libc_table + BASE_COUNT(libc_table))
        return found;
    if (!dladdr(definition, &info) || image_is_runtime_library(info.dli_fname))
        return found;
    /* This library defines some, too (copy/precedence.c). */
    return dladdr((const void *)libc_table, &own) && own.dli_fbase == info.dli_fbase ? found : NULL;
}

static void init(struct image_libc *libc)
{
    *(int *)libc->variables[IMAGE_OPTIND] = 1;
    *(int *)libc->variables[IMAGE_OPTERR] = 1;
    *(int *)libc->variables[IMAGE_OPTOPT] = '?';
    pthread_mutex_init(&libc->lock, NULL);
    pthread_mutex_init(&libc->critical, NULL);
    image_env_init(libc);
    image_zone_init(libc);
    image_stack_init(libc);
}

void image_libc_lock(struct image_libc *libc)
{
    if (atomic_load_explicit(&libc->has_threads, memory_order_relaxed))
        pthread_mutex_lock(&libc->lock);
}

void image_libc_unlock(struct image_libc *libc)
{
    if (atomic_load_explicit(&libc->has_threads, memory_order_relaxed))
        pthread_mutex_unlock(&libc->lock);
}

/* Threads of the rank that have not ended continue, as they do until the end of a process; memory they may
 * use stays. */
static void fini(struct image_libc *libc)
{
    image_locks_release(libc);
    image_signals_forget(libc);
    if (atomic_load(&libc->has_threads))
        return;
    image_random_destroy(libc->random);
    image_buffers_destroy(libc->buffers);
    image_databases_destroy(libc->databases);
    libc->random = NULL;
    libc->buffers = NULL;
    libc->databases = NULL;
    free(libc->at_exit.items);
    free(libc->at_quick_exit.items);
    free(libc->fork_handlers);
    free(libc->children);
    libc->fork_handlers = NULL;
    libc->children = NULL;
    libc->n_fork_handlers = libc->n_children = 0;
    free(libc->fault_actions);
    libc->fault_actions = NULL;
    free(libc->affinity);
    libc->affinity = NULL;
    libc->at_exit = libc->at_quick_exit = (struct image_handlers){0};
    image_thread_fini(&libc->main_thread);
    image_keys_free(libc);
}

const struct image_libc_room image_libc_room = {.find = find,
                                                .find_for = find_for,
                                                .open = image_env_open,
                                                .init = init,
                                                .begin = image_stack_begin,
                                                .fini = fini,
                                                .environment = image_env_of,
                                                .destroy_values = image_keys_destroy_values,
                                                .free_values = image_keys_free_values,
                                                .join = image_libc_join};
