/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: each rank has an environment of its own: getenv, environ, the programs that it starts and its local
 * time see what the rank has set, and nothing else.
 */
#include "image_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static char name[24], value[16];

static const char *find_in_environ(const char *wanted)
{
    size_t len = strlen(wanted);

    for (char **entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, wanted, len) == 0 && (*entry)[len] == '=')
            return *entry + len + 1;
    return NULL;
}

static void check_value(const char *expected)
{
    const char *text = getenv(name), *other = find_in_environ(name);

    CHECK(text && strcmp(text, expected) == 0 && other && strcmp(other, expected) == 0);
}

static void check_set(void)
{
    static char assignment[64];

    CHECK(getenv("PATH") && !getenv("SHARED_NAME") && !getenv(""));
    snprintf(name, sizeof name, "NAME_%x", test_id());
    snprintf(value, sizeof value, "%x", test_id());
    CHECK(setenv(name, value, 0) == 0 && setenv("SHARED_NAME", value, 1) == 0);
    let_others_run();
    check_value(value);
    CHECK(strcmp(getenv("SHARED_NAME"), value) == 0);
    CHECK(setenv(name, "no", 0) == 0);
    check_value(value);
    CHECK(setenv(name, "", 1) == 0);
    check_value("");
    CHECK(setenv("A=B", "", 1) == -1 && setenv("", "", 1) == -1 && unsetenv("A=B") == -1);
    snprintf(assignment, sizeof assignment, "%s=put", name);
    CHECK(putenv(assignment) == 0);
    check_value("put");
    memcpy(assignment + strlen(name) + 1, "new", 4);
    check_value("new");
    CHECK(unsetenv(name) == 0 && !getenv(name) && !find_in_environ(name));
    CHECK(unsetenv(name) == 0);
    let_others_run();
    CHECK(setenv(name, value, 0) == 0);
    check_value(value);
}

static void check_children(void)
{
    char command[160], line[64] = "";
    char *const args[] = {"sh", "-c", command, NULL};
    FILE *file;
    pid_t pid;
    int status;

    snprintf(command, sizeof command, "test \"$%s\" = \"%s\" && test \"$SHARED_NAME\" = \"%s\"", name, value,
             value);
    CHECK(system(command) == 0 && system("exit 3") == W_EXITCODE(3, 0) && system(NULL) != 0);
    pid = fork();
    if (pid == 0) {
        execvp("sh", args);
        _exit(1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    for (int is_path = 0; is_path < 2; is_path++) {
        pid = fork();
        if (pid == 0) {
            if (is_path)
                execl("/bin/sh", "sh", "-c", command, NULL);
            else
                execlp("sh", "sh", "-c", command, NULL);
            _exit(1);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }

    file = popen("echo $SHARED_NAME; exit 5", "r");
    CHECK(file && fgets(line, sizeof line, file));
    line[strcspn(line, "\n")] = '\0';
    CHECK(strcmp(line, value) == 0 && pclose(file) == W_EXITCODE(5, 0));
    CHECK(!popen("true", "x") && !popen("true", "rw"));
    snprintf(command, sizeof command, "read line; test \"$line\" = \"%s\"", value);
    file = popen(command, "w");
    CHECK(file && fprintf(file, "%s\n", value) > 0 && pclose(file) == 0);
}

/* The zone is UTC minus some hours; another one in each of the first ten ranks. */
static void check_zone(void)
{
    int hours = 1 + (int)(test_id() >> 4) % 10;
    time_t noon = 12 * 3600;
    struct tm tm;
    char text[16];

    snprintf(text, sizeof text, "ZON%d", hours);
    CHECK(setenv("TZ", text, 1) == 0);
    tzset();
    for (int i = 0; i < 3; i++) {
        CHECK(timezone == hours * 3600 && strcmp(tzname[0], "ZON") == 0);
        CHECK(localtime(&noon)->tm_hour == 12 - hours);
        CHECK(localtime_r(&noon, &tm)->tm_hour == 12 - hours && mktime(&tm) == noon);
        let_others_run();
    }
    CHECK(unsetenv("TZ") == 0);
    tzset();
    let_others_run();
    CHECK(timezone == 0 && localtime(&noon)->tm_hour == 12);
}

static void *read_always(void *arg)
{
    atomic_int *is_done = arg;

    while (!*is_done)
        CHECK(strcmp(getenv("SHARED_NAME"), value) == 0);
    return NULL;
}

/* A thread reads while the rank's environment grows and shrinks. */
static void check_threads(void)
{
    atomic_int is_done = 0;
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, read_always, &is_done) == 0);
    for (int i = 0; i < 2000; i++) {
        char text[32];

        snprintf(text, sizeof text, "MANY_%d", i);
        CHECK(setenv(text, value, 1) == 0);
    }
    is_done = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(strcmp(getenv("MANY_1999"), value) == 0);
}

int main(int argc, char **argv, char **envp)
{
    char *empty[] = {"ONLY=this", NULL};

    CHECK(envp == environ);
    check_set();
    check_children();
    check_zone();
    if (argc == 1) /* without a copy of the program it is glibc that is asked, whose getenv takes no lock */
        check_threads();
    environ = empty;
    CHECK(strcmp(getenv("ONLY"), "this") == 0 && !getenv("PATH"));
    CHECK(setenv("MORE", "1", 1) == 0 && strcmp(getenv("ONLY"), "this") == 0);
    CHECK(clearenv() == 0 && !getenv("ONLY") && setenv(name, value, 1) == 0);
    check_value(value);
    puts("ok");
    return 0;
}
