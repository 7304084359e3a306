/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: what the C library returned to a rank in storage of its own (users, hosts, texts, errors of dlopen, signgam, the first
 * byte of a character) stays although others call the same functions with other arguments.
 */
#include "image_test.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <grp.h>
#include <locale.h>
#include <math.h>
#include <netdb.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

static int number; /* of this rank: a descriptor, which ranks share */

/* One for the ranks with an even number, another one for the others. */
#define ONE_OF(even, odd) (number % 2 ? (odd) : (even))

static void look_up_users(void)
{
    const char *name = ONE_OF("root", "daemon");
    uid_t uid = ONE_OF(0, 1);
    struct passwd *by_name = getpwnam(name), *by_uid = getpwuid(uid);
    struct group *group = getgrnam(name), *by_gid = getgrgid(uid);

    let_others_run();
    CHECK(strcmp(by_name->pw_name, name) == 0 && by_uid->pw_uid == uid);
    CHECK(strcmp(group->gr_name, name) == 0 && by_gid->gr_gid == uid);
    CHECK(getpwnam("nobody with this name") == NULL);
}

/* Root is the first one. */
static void list_users(void)
{
    char second_user[100], second_group[100];
    int n_users = 2;

    CHECK(getpwent()->pw_uid == 0 && getgrent()->gr_gid == 0);
    snprintf(second_user, sizeof second_user, "%s", getpwent()->pw_name);
    snprintf(second_group, sizeof second_group, "%s", getgrent()->gr_name);
    setpwent();
    setgrent();
    CHECK(getpwent()->pw_uid == 0 && getgrent()->gr_gid == 0);
    let_others_run();
    CHECK(strcmp(getpwent()->pw_name, second_user) == 0 && strcmp(getgrent()->gr_name, second_group) == 0);
    while (getpwent())
        n_users++;
    CHECK(n_users > 2);
    endpwent();
    endgrent();
}

static void look_up_hosts(void)
{
    struct hostent *host = gethostbyname(ONE_OF("127.0.0.2", "127.0.0.3"));
    struct in_addr address = {htonl(0x0a000000u + (unsigned)number)};
    char *text = inet_ntoa(address), expected[20];

    let_others_run();
    CHECK(host->h_addr_list[0][3] == ONE_OF(2, 3));
    snprintf(expected, sizeof expected, "10.0.0.%d", number);
    CHECK(strcmp(text, expected) == 0);
}

static void look_up_texts(void)
{
    char *error = strerror(10000 + number), *signal = strsignal(100 + number);
    char expected[20];

    let_others_run();
    snprintf(expected, sizeof expected, " %d", 10000 + number);
    CHECK(strstr(error, expected));
    snprintf(expected, sizeof expected, " %d", 100 + number);
    CHECK(strstr(signal, expected));
    CHECK(strcmp(strerror(0), "Success") == 0);
}

static void fail_to_load(void)
{
    char *error;

    CHECK(dlopen(ONE_OF("/nowhere/even.so", "/nowhere/odd.so"), RTLD_NOW) == NULL);
    let_others_run();
    error = dlerror();
    CHECK(error && strstr(error, ONE_OF("/even", "/odd")) && dlerror() == NULL);
    CHECK(dlsym(RTLD_DEFAULT, ONE_OF("no_even", "no_odd")) == NULL);
    let_others_run();
    error = dlerror();
    CHECK(error && strstr(error, ONE_OF("no_even", "no_odd")) && dlerror() == NULL);
}

static void take_sign(void)
{
    volatile double x = ONE_OF(0.5, -0.5);

    for (int form = 0; form < 3; form++) {
        signgam = 0;
        CHECK(!isnan(form == 0 ? lgamma(x) : form == 1 ? (double)lgammaf((float)x) : (double)lgammal(x)));
        let_others_run();
        CHECK(signgam == ONE_OF(1, -1));
    }
}

/* An even rank gives the first byte of a character. */
static void take_bytes(void)
{
    wchar_t wide = 0;

    if (number % 2 == 0)
        CHECK(mbrtowc(&wide, "\xc3", 1, NULL) == (size_t)-2 && mbrlen("\xc3", 1, NULL) == (size_t)-2);
    let_others_run();
    if (number % 2)
        CHECK(mbrtowc(&wide, "a", 1, NULL) == 1 && mbrlen("a", 1, NULL) == 1 && mbtowc(&wide, "a", 1) == 1);
    let_others_run();
    if (number % 2 == 0)
        CHECK(mbrtowc(&wide, "\xa4", 1, NULL) == 1 && wide == 0xe4 && mblen("\xc3\xa4", 2) == 2);
}

int main(void)
{
    number = dup(1);
    CHECK(setlocale(LC_CTYPE, "C.UTF-8"));
    look_up_users();
    list_users();
    look_up_hosts();
    look_up_texts();
    fail_to_load();
    take_sign();
    take_bytes();
    puts("ok");
    return 0;
}
