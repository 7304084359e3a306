/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind.h: replacements of the C library's functions; copy/libc_state.h has their per-rank state. Private to src/image.
 */
#ifndef IMAGE_REBIND_H
#define IMAGE_REBIND_H

#include "image/copy/libc_state.h"

#include <signal.h>
#include <dlfcn.h>
#include <grp.h>
#include <mntent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <pthread.h>
#include <sched.h>
#include <search.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <mqueue.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <uchar.h>
#include <unwind.h>

/* Excludes the rank's other threads. Does nothing if it has none. */
void image_libc_lock(struct image_libc *libc);
void image_libc_unlock(struct image_libc *libc);

/* Frees the generators (rebind_random.c), buffers (rebind_buffers.c) and records (rebind_databases.c). */
void image_random_destroy(struct image_random *random);
void image_buffers_destroy(struct image_buffers *buffers);
void image_databases_destroy(struct image_databases *databases);

/* ---- rebind_env.c, rebind_time.c, rebind_stack.c ---- */

/* Records the initial environment of ranks. Once, before the first copy. */
void image_env_open(void);

/* Sets the rank's environ, timezone and related variables to those of the process. */
void image_env_init(struct image_libc *libc);
void image_zone_init(struct image_libc *libc);

/* Sets the rank's __libc_stack_end, initially and on the rank's ULT. */
void image_stack_init(struct image_libc *libc);
void image_stack_begin(struct image_libc *libc);

/* The rank's environment. */
char **image_env_of(struct image_libc *libc);
char *image_env_get(struct image_libc *libc, const char *name);

/* localtime_r for a call from `caller`. */
struct tm *image_zone_localtime(const time_t *when, struct tm *tm, const void *caller);

/* Keeps other ranks from exchanging libc's time zone. */
void image_zone_lock(void);
void image_zone_unlock(void);

/* ---- rebind_wait.c ---- */

/* How many handlers of signals the rank has run: all, and those that were set without SA_RESTART. */
struct image_handled {
    unsigned n_handled, n_interrupts;
};
struct image_handled image_handled_now(void);

/* A rank's wait for a condition that it has to poll. */
struct image_wait {
    struct image_handled handled; /* before the first pause */
    const char *call;             /* for the message after a minute; NULL: none */
    int fd;                       /* for that message */
    uint64_t limit_ns;            /* upper limit of the next pause; 0: no limit */
    uint64_t paused_ns;
    unsigned n_pauses;
    bool is_reported;
};

/* True if the caller may wait this way. Otherwise it is a thread or a forked process, which blocks. */
bool image_can_wait(void);

/* Lets other ranks run for a while. Switches. */
void image_wait_pause(struct image_wait *wait);

/* True, with errno EINTR, if a handler of the rank has run since the first pause. may_restart: one with SA_RESTART does not end
 * the wait. Never switches. */
bool image_wait_is_interrupted(const struct image_wait *wait, bool may_restart);

/* True if the C library's function on a descriptor returns by itself: the descriptor is nonblocking, or a socket with a time
 * limit. option: SO_RCVTIMEO or SO_SNDTIMEO. Never switches. */
bool image_has_limit(int fd, int option);

/* The same until the descriptor is ready for events (POLLIN or POLLOUT), unless the call on it has a limit of its own.
 * call: its name, for a message. May switch. */
void image_wait_until_ready(int fd, short events, const char *call);

/* wait4 for one child; other ranks run meanwhile. usage may be NULL. */
pid_t image_wait_for_child(pid_t pid, int *status, int options, struct rusage *usage);

/* Starts a thread that belongs to no rank and gets no signals; its stack is small. Returns an error number. Never switches. */
int image_start_helper(pthread_t *thread_out, void *(*function)(void *arg), void *arg);

/* The result of function(arg), which blocks: a thread calls it, and other ranks run meanwhile. ECANCELED: the rank's main thread
 * was cancelled, which has cancelled the function. If no thread can be started, the caller blocks. Switches. */
int image_wait_on_thread(int (*function)(void *arg), void *arg);

/* ---- rebind_buffers.c ---- */

/* Returns the result of a function such as dlopen; if it is NULL, keeps the error for the rank's dlerror. Never switches. */
void *image_load_error_keep(void *result);

/* ---- rebind_exit.c ---- */

/* Ends the rank of the caller, as _exit ends a process. */
void image_end(struct image_libc *libc, int status) BASE_NORETURN;

/* ---- rebind_thread_exit.c, rebind_locks.c ---- */

/* Ends the calling rank if its main thread was cancelled; true if it would. */
void image_cancel_point(void);
bool image_cancel_is_due(void);

/* The rank's main thread waits in the C library for this condition variable (NULL: no longer): cancelling it wakes it. */
void image_cancel_watch(pthread_cond_t *condition);

/* Releases the rank's file locks. */
void image_locks_release(struct image_libc *libc);

/* Bracket a fork, in the parent and in the child. In the child the second one also drops all locks: that
 * process has none. */
void image_locks_hold(void);
void image_locks_let_go(void);
void image_locks_forget(void);

/* ---- rebind_pid.c ---- */

/* The number that getpid returns in the rank. Never switches; may be called in a signal handler. */
pid_t image_pid_of(struct image_libc *libc);

/* True if this is the number of the process or of the caller's rank. */
bool image_pid_is_own(pid_t number);

/* fcntl with F_SETOWN. */
int image_pid_set_owner(int fd, pid_t number);

/* ---- rebind_keys.c ---- */

/* One pass over the thread's values: calls the destructors of non-NULL values. Returns false if there were
 * none. */
bool image_keys_destroy_values(struct image_thread *thread);

void image_keys_free_values(struct image_thread *thread);
void image_keys_free(struct image_libc *libc);

/* ---- rebind_getopt.c ---- */

struct option;
#define IMAGE_GETOPT_LONG_ONLY 1u /* getopt_long_only */
#define IMAGE_GETOPT_POSIX 2u     /* never permutes */

/* getopt on the given state; longopts may be NULL. */
int image_getopt_r(int argc, char *const *argv, const char *optstring, const struct option *longopts,
                   int *longind, unsigned flags, struct image_getopt *state);

/* ---- rebind_affinity.c ---- */

int image_libc_sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set);
int image_libc_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set_out);
int image_libc_pthread_setaffinity(pthread_t thread, size_t bytes, const cpu_set_t *set);
int image_libc_pthread_getaffinity(pthread_t thread, size_t bytes, cpu_set_t *set_out);

/* ---- The replacements by file; the table in rebind.c describes each ---- */

int image_libc_key_create(pthread_key_t *key, void (*destructor)(void *));
int image_libc_key_delete(pthread_key_t key);
void *image_libc_getspecific(pthread_key_t key);
int image_libc_setspecific(pthread_key_t key, const void *value);
int image_libc_tss_create(tss_t *key, tss_dtor_t destructor);
void image_libc_tss_delete(tss_t key);
int image_libc_tss_set(tss_t key, void *value);

void image_libc_exit(int status) BASE_NORETURN;
void image_libc_quick_exit(int status) BASE_NORETURN;
void image_libc__exit(int status) BASE_NORETURN;
long image_libc_syscall(long number, long a, long b, long c, long d, long e, long f);
void image_libc_abort(void) BASE_NORETURN;
void image_libc_assert_fail(const char *condition, const char *file, unsigned line,
                            const char *function) BASE_NORETURN;
int image_libc_atexit(void (*fn)(void));
int image_libc_on_exit(void (*fn)(int, void *), void *arg);
int image_libc_at_quick_exit(void (*fn)(void));
int image_libc_sigaltstack(const stack_t *wanted, stack_t *old_out);
/* Calls the function on the rank's alternate stack; on the present one if there is none, or if it is that one. */
void image_altstack_call(void (*function)(void *), void *arg);
int image_libc_sigaction(int number, const struct sigaction *wanted, struct sigaction *old_out);
typedef void (*image_signal_fn)(int number);
image_signal_fn image_libc_signal(int number, image_signal_fn handler);
image_signal_fn image_libc_sysv_signal(int number, image_signal_fn handler);

/* At the rank's end: its handlers are not called any more. */
void image_signals_forget(struct image_libc *libc);
int image_libc_cxa_atexit(void (*fn)(void *), void *arg, void *dso);
int image_libc_cxa_at_quick_exit(void (*fn)(void *), void *dso);
int image_libc_cxa_thread_atexit(void (*fn)(void *), void *arg, void *dso);
void image_libc_cxa_finalize(void *dso);
void image_libc_err(int status, const char *fmt, ...) BASE_NORETURN;
void image_libc_errx(int status, const char *fmt, ...) BASE_NORETURN;
void image_libc_verr(int status, const char *fmt, va_list args) BASE_NORETURN;
void image_libc_verrx(int status, const char *fmt, va_list args) BASE_NORETURN;
void image_libc_error(int status, int error_number, const char *fmt, ...);

int image_libc_setenv(const char *name, const char *value, int is_replacing);
int image_libc_unsetenv(const char *name);
int image_libc_putenv(char *assignment);
int image_libc_clearenv(void);
char *image_libc_getenv(const char *name);
char *image_libc_secure_getenv(const char *name);

/* ---- rebind_mmap.c ---- */

void *image_libc_mmap(void *address, size_t n_bytes, int protection, int flags, int fd, off_t offset);
int image_libc_munmap(void *address, size_t n_bytes);

int image_libc_register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);
int image_libc_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
pid_t image_libc_getpid(void);
pid_t image_libc_getppid(void);
int image_libc_kill(pid_t number, int signal_number);
int image_libc_sigqueue(pid_t number, int signal_number, const union sigval value);
int image_libc_setpgid(pid_t number, pid_t group);
int image_libc_tgkill(pid_t number, pid_t thread, int signal_number);
int image_libc_pidfd_open(pid_t number, unsigned flags);
int image_libc_clock_getcpuclockid(pid_t number, clockid_t *clock_out);
pid_t image_libc_fork(void);
pid_t image_libc__Fork(void);
/* The environment for a program that the code at caller's address starts: env, or a copy with an entry more
 * (image_rebind_client.child_entry), which image_child_env_drop frees. entry: IMAGE_CHILD_ENTRY_MAX bytes. A child of vfork may
 * call both: they take no lock. Keeps errno. */
enum { IMAGE_CHILD_ENTRY_MAX = 64 };
char *const *image_child_env(char *const *env, char *entry, const void *caller);
void image_child_env_drop(char *const *env, char *const *made);
int image_libc_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const *argv, char *const *env);
int image_libc_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const *argv, char *const *env);
pid_t image_libc_wait(int *status);
pid_t image_libc_waitpid(pid_t pid, int *status, int options);
int image_libc_waitid(idtype_t kind, id_t id, siginfo_t *result_out, int options);
pid_t image_libc_wait3(int *status, int options, struct rusage *usage);
pid_t image_libc_wait4(pid_t pid, int *status, int options, struct rusage *usage);

void image_libc_pthread_exit(void *value) BASE_NORETURN;
void image_libc_thrd_exit(int result) BASE_NORETURN;
void image_libc_register_cancel(__pthread_unwind_buf_t *buffer);
void image_libc_unregister_cancel(__pthread_unwind_buf_t *buffer);
void image_libc_register_cancel_defer(__pthread_unwind_buf_t *buffer);
void image_libc_unregister_cancel_restore(__pthread_unwind_buf_t *buffer);
void image_libc_unwind_next(__pthread_unwind_buf_t *buffer) BASE_NORETURN;
void image_libc_testcancel(void);
int image_libc_cancel(pthread_t target);
int image_libc_setcancelstate(int state, int *old);
int image_libc_setcanceltype(int type, int *old);
int image_libc_join(pthread_t thread, void **value_out);
int image_libc_tryjoin(pthread_t thread, void **value_out);
int image_libc_clockjoin(pthread_t thread, void **value_out, clockid_t clock, const struct timespec *end);
int image_libc_timedjoin(pthread_t thread, void **value_out, const struct timespec *end);
int image_libc_pthread_kill(pthread_t target, int number);
int image_libc_pthread_sigqueue(pthread_t target, int number, const union sigval value);
int image_libc_getcpuclockid(pthread_t target, clockid_t *clock_out);
int image_libc_thrd_join(thrd_t thread, int *result_out);
void image_libc_gomp_critical_start(void);
void image_libc_gomp_critical_end(void);

int image_libc_fcntl(int fd, int cmd, ...);
int image_libc_lockf(int fd, int cmd, off_t len);
int image_libc_flock(int fd, int operation);
/* The rank sends descriptor fd to this file; other descriptors than 1 and 2 do not matter. Reports, once per process, that two
 * ranks have sent one to different files. Never switches. */
void image_libc_note_redirection(int fd, const struct stat *file);
int image_libc_close(int fd);
int image_libc_fclose(FILE *stream);
int image_libc_dup2(int fd, int new_fd);
int image_libc_dup3(int fd, int new_fd, int flags);

/* What the fortified functions call if a buffer is too small. */
void __chk_fail(void) BASE_NORETURN;

ssize_t image_libc_read(int fd, void *buffer, size_t size_bytes);
ssize_t image_libc_read_chk(int fd, void *buffer, size_t size_bytes, size_t buffer_bytes);
ssize_t image_libc_readv(int fd, const struct iovec *parts, int n_parts);
ssize_t image_libc_recv(int fd, void *buffer, size_t size_bytes, int flags);
ssize_t image_libc_recv_chk(int fd, void *buffer, size_t size_bytes, size_t buffer_bytes, int flags);
ssize_t image_libc_recvfrom(int fd, void *buffer, size_t size_bytes, int flags, struct sockaddr *address,
                            socklen_t *address_len);
ssize_t image_libc_recvfrom_chk(int fd, void *buffer, size_t size_bytes, size_t buffer_bytes, int flags,
                                struct sockaddr *address, socklen_t *address_len);
ssize_t image_libc_recvmsg(int fd, struct msghdr *message, int flags);
int image_libc_recvmmsg(int fd, struct mmsghdr *messages, unsigned n_messages, int flags,
                        struct timespec *timeout);
int image_libc_accept(int fd, struct sockaddr *address, socklen_t *address_len);
int image_libc_accept4(int fd, struct sockaddr *address, socklen_t *address_len, int flags);
int image_libc_eventfd_read(int fd, eventfd_t *value_out);
int image_libc_eventfd_write(int fd, eventfd_t value);
int image_libc_fileno(FILE *stream);
ssize_t image_libc_write(int fd, const void *bytes, size_t size_bytes);
ssize_t image_libc_writev(int fd, const struct iovec *parts, int n_parts);
ssize_t image_libc_send(int fd, const void *bytes, size_t size_bytes, int flags);
ssize_t image_libc_sendto(int fd, const void *bytes, size_t size_bytes, int flags,
                          const struct sockaddr *address, socklen_t address_len);
ssize_t image_libc_sendmsg(int fd, const struct msghdr *message, int flags);
int image_libc_sendmmsg(int fd, struct mmsghdr *messages, unsigned n_messages, int flags);

int image_libc_poll_chk(struct pollfd *fds, nfds_t nfds, int timeout_ms, size_t fds_bytes);
int image_libc_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout, const sigset_t *mask);
int image_libc_ppoll_chk(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
                         const sigset_t *mask, size_t fds_bytes);
int image_libc_pselect(int nfds, fd_set *readable, fd_set *writable, fd_set *exceptional,
                       const struct timespec *timeout, const sigset_t *mask);
int image_libc_epoll_wait(int epoll_fd, struct epoll_event *events, int max_events, int timeout_ms);
int image_libc_epoll_pwait(int epoll_fd, struct epoll_event *events, int max_events, int timeout_ms,
                           const sigset_t *mask);
int image_libc_epoll_pwait2(int epoll_fd, struct epoll_event *events, int max_events,
                            const struct timespec *timeout, const sigset_t *mask);

int image_libc_open(const char *path, int flags, ...);
int image_libc_open_2(const char *path, int flags);
int image_libc_openat(int folder, const char *path, int flags, ...);
int image_libc_openat_2(int folder, const char *path, int flags);
int image_libc_creat(const char *path, mode_t mode);
FILE *image_libc_fopen(const char *path, const char *mode);
FILE *image_libc_freopen(const char *path, const char *mode, FILE *stream);
int image_libc_connect(int fd, const struct sockaddr *address, socklen_t address_len);

struct sembuf;
ssize_t image_libc_msgrcv(int queue, void *message, size_t size_bytes, long type, int flags);
int image_libc_msgsnd(int queue, const void *message, size_t size_bytes, int flags);
int image_libc_semop(int set, struct sembuf *operations, size_t n_operations);
ssize_t image_libc_mq_receive(mqd_t queue, char *message, size_t size_bytes, unsigned *priority_out);
int image_libc_mq_send(mqd_t queue, const char *message, size_t size_bytes, unsigned priority);

int image_libc_execv(const char *path, char *const *argv);
int image_libc_execvp(const char *file, char *const *argv);
int image_libc_execve(const char *path, char *const *argv, char *const *env);
int image_libc_execvpe(const char *file, char *const *argv, char *const *env);
int image_libc_fexecve(int fd, char *const *argv, char *const *env);
int image_libc_execle(const char *path, const char *first, ...);
int image_libc_execl(const char *path, const char *first, ...);
int image_libc_execlp(const char *file, const char *first, ...);
int image_libc_system(const char *command);
FILE *image_libc_popen(const char *command, const char *mode);
int image_libc_pclose(FILE *file);

void image_libc_tzset(void);
struct tm *image_libc_localtime_r(const time_t *when, struct tm *tm);
char *image_libc_ctime_r(const time_t *when, char *text);
time_t image_libc_mktime(struct tm *tm);
size_t image_libc_strftime(char *text, size_t size_bytes, const char *fmt, const struct tm *tm);

int image_libc_getopt(int argc, char *const *argv, const char *optstring);
int image_libc_posix_getopt(int argc, char *const *argv, const char *optstring);
int image_libc_getopt_long(int argc, char *const *argv, const char *optstring, const struct option *longopts,
                           int *longind);
int image_libc_getopt_long_only(int argc, char *const *argv, const char *optstring,
                                const struct option *longopts, int *longind);

int image_libc_rand(void);
long image_libc_random(void);
void image_libc_srandom(unsigned seed);
char *image_libc_initstate(unsigned seed, char *state, size_t size_bytes);
char *image_libc_setstate(char *state);
double image_libc_drand48(void);
double image_libc_erand48(unsigned short xsubi[3]);
long image_libc_lrand48(void);
long image_libc_nrand48(unsigned short xsubi[3]);
long image_libc_mrand48(void);
long image_libc_jrand48(unsigned short xsubi[3]);
void image_libc_srand48(long seed);
unsigned short *image_libc_seed48(unsigned short seed[3]);
void image_libc_lcong48(unsigned short param[7]);

unsigned image_libc_sleep(unsigned seconds);
int image_libc_usleep(useconds_t duration_us);
int image_libc_nanosleep(const struct timespec *duration, struct timespec *remaining);
int image_libc_clock_nanosleep(clockid_t clock, int flags, const struct timespec *when,
                               struct timespec *remaining);
int image_libc_thrd_sleep(const struct timespec *duration, struct timespec *remaining);
int image_libc_select(int nfds, fd_set *readable, fd_set *writable, fd_set *exceptional,
                      struct timeval *timeout);
int image_libc_poll(struct pollfd *fds, nfds_t nfds, int timeout_ms);
int image_libc_sched_yield(void);
void image_libc_thrd_yield(void);

char *image_libc_strtok(char *text, const char *delimiters);
struct tm *image_libc_localtime(const time_t *when);
struct tm *image_libc_gmtime(const time_t *when);
char *image_libc_asctime(const struct tm *tm);
char *image_libc_ctime(const time_t *when);
int image_libc_hcreate(size_t n_entries);
void image_libc_hdestroy(void);
ENTRY *image_libc_hsearch(ENTRY item, ACTION action);
char *image_libc_dlerror(void);
char *image_libc_inet_ntoa(struct in_addr address);
char *image_libc_strerror(int number);
char *image_libc_strsignal(int number);
char *image_libc_tmpnam(char *file);
char *image_libc_ttyname(int fd);
char *image_libc_getlogin(void);
size_t image_libc_mbrtowc(wchar_t *wide, const char *text, size_t n_bytes, mbstate_t *state);
size_t image_libc_mbrlen(const char *text, size_t n_bytes, mbstate_t *state);
size_t image_libc_mbrtoc16(char16_t *wide, const char *text, size_t n_bytes, mbstate_t *state);
size_t image_libc_mbrtoc32(char32_t *wide, const char *text, size_t n_bytes, mbstate_t *state);
int image_libc_mbtowc(wchar_t *wide, const char *text, size_t n_bytes);
int image_libc_mblen(const char *text, size_t n_bytes);

struct passwd *image_libc_getpwnam(const char *name);
struct passwd *image_libc_getpwuid(uid_t uid);
struct passwd *image_libc_getpwent(void);
void image_libc_setpwent(void);
void image_libc_endpwent(void);
struct group *image_libc_getgrnam(const char *name);
struct group *image_libc_getgrgid(gid_t gid);
struct group *image_libc_getgrent(void);
void image_libc_setgrent(void);
void image_libc_endgrent(void);
struct hostent *image_libc_gethostbyname(const char *name);
struct hostent *image_libc_gethostbyname2(const char *name, int family);
struct hostent *image_libc_gethostbyaddr(const void *addr, socklen_t addr_bytes, int family);
struct servent *image_libc_getservbyname(const char *name, const char *protocol);
struct servent *image_libc_getservbyport(int port, const char *protocol);
struct protoent *image_libc_getprotobyname(const char *name);
struct protoent *image_libc_getprotobynumber(int number);
struct mntent *image_libc_getmntent(FILE *stream);

int image_libc_mutexattr_setprotocol(pthread_mutexattr_t *attributes, int protocol);
int image_libc_mutex_lock(pthread_mutex_t *mutex);
int image_libc_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *end);
int image_libc_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *end);
int image_libc_rwlock_rdlock(pthread_rwlock_t *lock);
int image_libc_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *end);
int image_libc_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *end);
int image_libc_rwlock_wrlock(pthread_rwlock_t *lock);
int image_libc_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *end);
int image_libc_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *end);
int image_libc_sem_wait(sem_t *semaphore);
int image_libc_sem_timedwait(sem_t *semaphore, const struct timespec *end);
int image_libc_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *end);
int image_libc_spin_lock(pthread_spinlock_t *lock);
int image_libc_mtx_lock(mtx_t *mutex);
int image_libc_mtx_timedlock(mtx_t *mutex, const struct timespec *end);
int image_libc_cnd_wait(cnd_t *condition, mtx_t *mutex);
int image_libc_cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *end);
/* The same as libc's functions do: true if the time has come, or the arguments are wrong. */
bool image_is_over(clockid_t clock, const struct timespec *end);
int image_libc_barrier_wait(pthread_barrier_t *barrier);
int image_libc_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int image_libc_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end);
int image_libc_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                              const struct timespec *end);

image_cxx_handler_fn image_libc_set_terminate(image_cxx_handler_fn handler);
image_cxx_handler_fn image_libc_set_new_handler(image_cxx_handler_fn handler);
image_cxx_handler_fn image_libc_set_unexpected(image_cxx_handler_fn handler);
image_cxx_handler_fn image_libc_get_terminate(void);
image_cxx_handler_fn image_libc_get_new_handler(void);
image_cxx_handler_fn image_libc_get_unexpected(void);

int image_libc_getattr(pthread_t thread, pthread_attr_t *attr_out);

double image_libc_lgamma(double x);
float image_libc_lgammaf(float x);
long double image_libc_lgammal(long double x);

void *image_libc_dlopen(const char *path, int mode);
int image_libc_dlclose(void *handle);
void *image_libc_dlsym(void *handle, const char *name);
void *image_libc_dlvsym(void *handle, const char *name, const char *version);
int image_libc_dladdr(const void *addr, Dl_info *info);
int image_libc_dladdr1(const void *addr, Dl_info *info, void **extra, int flags);
int image_libc_dlinfo(void *handle, int request, void *answer);
char **image_libc_backtrace_symbols(void *const *addrs, int n);
void image_libc_backtrace_symbols_fd(void *const *addrs, int n, int fd);
bool image_ios_sync_with_stdio(bool is_synced);

#endif
