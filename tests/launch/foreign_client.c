/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An attacker for the test of mpirun --procs: a PMIx client that claims the user id in CLAIM_UID, whatever
 * its own is, and that tries to end the job. Exits with 0 if it was let in, 3 if it was refused.
 *
 *   silent HOST PORT   only connects, says "connected", and then waits for the end of its input
 */
#include <pmix.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* libpmix asks these for what it tells the server. */
EXPORT uid_t geteuid(void)
{
    const char *claim = getenv("CLAIM_UID");
    return claim ? (uid_t)atoi(claim) : getuid();
}

EXPORT gid_t getegid(void)
{
    return (gid_t)geteuid();
}

static int be_silent(const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, host, &address.sin_addr);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        return 3;
    puts("connected");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    pmix_status_t status;
    pmix_proc_t self;
    if (argc > 3 && strcmp(argv[1], "silent") == 0)
        return be_silent(argv[2], atoi(argv[3]));
    status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "PMIx_Init: %s\n", PMIx_Error_string(status));
        return 3;
    }
    PMIx_Abort(66, "by a foreign process", NULL, 0);
    return 0;
}
