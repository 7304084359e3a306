/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tells each process of a job on one node that it is alone on its node. Loaded with LD_PRELOAD, in front of libpmix: it
 * changes the answers of PMIx_Get on which processes share a node, and gives each process another host name. With
 * UCX_TLS=tcp,self the processes then behave as on several nodes, without a launcher for several nodes, whose jobs take
 * several times as long.
 */
#include <dlfcn.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

typedef pmix_status_t (*get_fn)(const pmix_proc_t *proc, const char *key, const pmix_info_t *info,
                                size_t n_info, pmix_value_t **value_out);

/* This process in its job. libmpi takes the variable out of the environment later. */
static pmix_rank_t self;

__attribute__((constructor)) static void remember_self(void)
{
    const char *rank = getenv("PMIX_RANK");

    self = rank ? (pmix_rank_t)strtoul(rank, NULL, 10) : 0;
}

/* libpmix is not in the global scope: the library loads it late. */
static get_fn find_real(void)
{
    void *libpmix = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
    get_fn real = NULL;

    if (libpmix)
        *(void **)&real = dlsym(libpmix, "PMIx_Get");
    if (real)
        return real;
    fprintf(stderr, "libapart.so: the process has no libpmix.so.2\n");
    abort();
}

static int is_about_this_node(const pmix_value_t *value, pmix_data_type_t type, const char *key,
                              const char *name)
{
    return value->type == type && strcmp(key, name) == 0;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char *key, const pmix_info_t *info, size_t n_info,
                       pmix_value_t **value_out)
{
    pmix_status_t status = find_real()(proc, key, info, n_info, value_out);
    pmix_value_t *value = status == PMIX_SUCCESS ? *value_out : NULL;
    char alone[16];

    if (!value || !key)
        return status;
    if (is_about_this_node(value, PMIX_UINT32, key, PMIX_LOCAL_SIZE))
        value->data.uint32 = 1;
    else if (is_about_this_node(value, PMIX_UINT16, key, PMIX_LOCAL_RANK))
        value->data.uint16 = 0;
    else if (is_about_this_node(value, PMIX_PROC_RANK, key, PMIX_LOCALLDR))
        value->data.rank = self;
    else if (is_about_this_node(value, PMIX_STRING, key, PMIX_LOCAL_PEERS)) {
        snprintf(alone, sizeof alone, "%u", self);
        free(value->data.string);
        value->data.string = strdup(alone);
    }
    return status;
}

int gethostname(char *name_out, size_t size)
{
    struct utsname system;

    uname(&system);
    snprintf(name_out, size, "%s-%u", system.nodename, self);
    return 0;
}
