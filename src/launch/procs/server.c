/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PMIx server of a job whose processes are all on this node: so a fence is complete as soon as libpmix
 * reports that all local processes have joined it, and all data that processes have put is already here.
 * The upcalls run on libpmix's thread; they set flags, ring the bell and return. Used by mpirun_procs.c and
 * end.c.
 *
 * The server is never finalized: PMIx_server_finalize of libpmix 4.2.2 occasionally hangs or crashes when a
 * client's connection has just been lost. It would only remove files in the job's folder, which is removed
 * anyway.
 *
 * Not offered (the clients get PMIX_ERR_NOT_SUPPORTED): publish and lookup, spawn, groups, queries,
 * allocation.
 */
#include "launch/procs/mpirun_procs.h"

#include "base/launched.h"

#include <pmix.h>
#include <pmix_server.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct {
    struct procs_job *job;    /* receives the upcalls' flags */
    int bell;                 /* eventfd */
    pthread_mutex_t lock;     /* for the two below */
    bool has_abort;           /* abort is set and not handled yet */
    struct procs_abort abort; /* the first PMIx_Abort */
} server = {.bell = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Waiting for libpmix's answers ---- */

struct answer {
    pthread_mutex_t lock;
    pthread_cond_t is_there_cond;
    bool is_there;
    pmix_status_t status;
};

static void give_answer(pmix_status_t status, void *arg)
{
    struct answer *answer = arg;
    pthread_mutex_lock(&answer->lock);
    answer->status = status;
    answer->is_there = true;
    pthread_cond_signal(&answer->is_there_cond);
    pthread_mutex_unlock(&answer->lock);
}

/* The status of a request: the value it returned at once, or the one that the callback delivers. */
static pmix_status_t wait_for_answer(struct answer *answer, pmix_status_t at_once)
{
    if (at_once == PMIX_OPERATION_SUCCEEDED)
        return PMIX_SUCCESS;
    if (at_once != PMIX_SUCCESS)
        return at_once;
    pthread_mutex_lock(&answer->lock);
    while (!answer->is_there)
        pthread_cond_wait(&answer->is_there_cond, &answer->lock);
    pthread_mutex_unlock(&answer->lock);
    return answer->status;
}

#define NO_ANSWER_YET                                                                \
    {                                                                                \
        .lock = PTHREAD_MUTEX_INITIALIZER, .is_there_cond = PTHREAD_COND_INITIALIZER \
    }

/* ---- Upcalls, on libpmix's thread ---- */

static void ring(void)
{
    if (eventfd_write(server.bell, 1) != 0)
        abort();
}

static struct procs_proc *find_proc(const pmix_proc_t *proc)
{
    if (strcmp(proc->nspace, server.job->name) != 0 || proc->rank >= (pmix_rank_t)server.job->max_procs)
        return NULL;
    return &server.job->procs[proc->rank];
}

/* Records the first abort. */
static void note_abort(const pmix_proc_t *proc, int code, const char *text)
{
    pthread_mutex_lock(&server.lock);
    if (!server.has_abort) {
        server.has_abort = true;
        server.abort.proc_id = find_proc(proc) ? (int)proc->rank : 0;
        server.abort.code = code;
        snprintf(server.abort.text, sizeof server.abort.text, "%s", text ? text : "");
    }
    pthread_mutex_unlock(&server.lock);
    ring();
}

static pmix_status_t client_connected(const pmix_proc_t *proc, void *object, pmix_info_t *info,
                                      size_t num_info, pmix_op_cbfunc_t done, void *done_arg)
{
    struct procs_proc *which = find_proc(proc);
    (void)object;
    (void)info;
    (void)num_info;
    (void)done;
    (void)done_arg;
    if (which == NULL)
        return PMIX_ERR_NOT_FOUND;
    if (!procs_peer_is_checked())
        note_abort(proc, 1,
                   "this libpmix does not use accept for connections, so their owners cannot be checked: it "
                   "cannot be used");
    which->is_finalized = false;
    which->is_connected = true;
    ring();
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                                      void *done_arg)
{
    struct procs_proc *which = find_proc(proc);
    (void)object;
    (void)done;
    (void)done_arg;
    if (which != NULL)
        which->is_finalized = true;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_aborts(const pmix_proc_t *proc, void *object, int status, const char *text,
                                   pmix_proc_t *procs, size_t num_procs, pmix_op_cbfunc_t done,
                                   void *done_arg)
{
    (void)object;
    (void)procs; /* whether one of them or all: a job with a failed process ends */
    (void)num_procs;
    note_abort(proc, status, text);
    done(PMIX_SUCCESS, done_arg);
    return PMIX_SUCCESS;
}

static void free_data(void *data)
{
    free(data);
}

static pmix_status_t fence(const pmix_proc_t *procs, size_t num_procs, const pmix_info_t *info,
                           size_t num_info, char *data, size_t len, pmix_modex_cbfunc_t done, void *done_arg)
{
    char *copy = NULL;
    (void)procs;
    (void)num_procs;
    (void)info;
    (void)num_info;
    if (len > 0) {
        copy = malloc(len);
        if (copy == NULL)
            return PMIX_ERR_NOMEM;
        memcpy(copy, data, len);
    }
    done(PMIX_SUCCESS, copy, len, done_arg, free_data, copy);
    return PMIX_SUCCESS;
}

/* Only called for processes of other nodes: there are none. */
static pmix_status_t fetch_remote(const pmix_proc_t *proc, const pmix_info_t *info, size_t num_info,
                                  pmix_modex_cbfunc_t done, void *done_arg)
{
    (void)proc;
    (void)info;
    (void)num_info;
    (void)done;
    (void)done_arg;
    return PMIX_ERR_NOT_FOUND;
}

static pmix_status_t connect_procs(const pmix_proc_t *procs, size_t num_procs, const pmix_info_t *info,
                                   size_t num_info, pmix_op_cbfunc_t done, void *done_arg)
{
    (void)procs;
    (void)num_procs;
    (void)info;
    (void)num_info;
    (void)done;
    (void)done_arg;
    return PMIX_OPERATION_SUCCEEDED;
}

/* libpmix itself delivers events between clients of this node. */
static pmix_status_t register_events(pmix_status_t *codes, size_t num_codes, const pmix_info_t *info,
                                     size_t num_info, pmix_op_cbfunc_t done, void *done_arg)
{
    (void)codes;
    (void)num_codes;
    (void)info;
    (void)num_info;
    (void)done;
    (void)done_arg;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t deregister_events(pmix_status_t *codes, size_t num_codes, pmix_op_cbfunc_t done,
                                       void *done_arg)
{
    (void)codes;
    (void)num_codes;
    (void)done;
    (void)done_arg;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                                  pmix_info_t *info, size_t num_info, pmix_op_cbfunc_t done, void *done_arg)
{
    (void)code;
    (void)source;
    (void)range;
    (void)info;
    (void)num_info;
    (void)done;
    (void)done_arg;
    return PMIX_OPERATION_SUCCEEDED;
}

/* A process announces that it tolerates failures. Not an upcall, but the server's own handler of these
 * events. */
static void handle_tolerance(size_t handler, pmix_status_t status, const pmix_proc_t *source,
                             pmix_info_t *info, size_t num_info, pmix_info_t *results, size_t num_results,
                             pmix_event_notification_cbfunc_fn_t done, void *done_arg)
{
    struct procs_proc *which = source ? find_proc(source) : NULL;
    (void)handler;
    (void)status;
    (void)info;
    (void)num_info;
    (void)results;
    (void)num_results;
    if (which != NULL)
        which->is_tolerant = true;
    if (done != NULL)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
}

static pmix_server_module_t upcalls = {
    .client_connected2 = client_connected,
    .client_finalized = client_finalized,
    .abort = client_aborts,
    .fence_nb = fence,
    .direct_modex = fetch_remote,
    .connect = connect_procs,
    .disconnect = connect_procs,
    .register_events = register_events,
    .deregister_events = deregister_events,
    .notify_event = notify_event,
};

/* ---- The job's data for the clients ---- */

/* A growing list of facts. */
struct facts {
    pmix_info_t *info;
    size_t num;
};

enum { MAX_FACTS = 24 };

static void facts_init(struct facts *facts, size_t max)
{
    PMIX_INFO_CREATE(facts->info, max);
    if (facts->info == NULL)
        launch_fail(1, "out of memory");
    facts->num = 0;
}

static void add_string(struct facts *facts, const char *key, const char *value)
{
    PMIX_INFO_LOAD(&facts->info[facts->num++], key, value, PMIX_STRING);
}

static void add_uint32(struct facts *facts, const char *key, uint32_t value)
{
    PMIX_INFO_LOAD(&facts->info[facts->num++], key, &value, PMIX_UINT32);
}

static void add_uint16(struct facts *facts, const char *key, uint16_t value)
{
    PMIX_INFO_LOAD(&facts->info[facts->num++], key, &value, PMIX_UINT16);
}

static void add_rank(struct facts *facts, const char *key, pmix_rank_t value)
{
    PMIX_INFO_LOAD(&facts->info[facts->num++], key, &value, PMIX_PROC_RANK);
}

/* A list of facts as one fact. */
static void add_facts(struct facts *facts, const char *key, struct facts *inner)
{
    pmix_data_array_t array = {.type = PMIX_INFO, .size = inner->num, .array = inner->info};
    PMIX_INFO_LOAD(&facts->info[facts->num++], key, &array, PMIX_DATA_ARRAY);
    PMIX_INFO_FREE(inner->info, MAX_FACTS);
}

/* "0,1,2,3"; malloc'ed. */
static char *list_procs(int num_procs)
{
    size_t cap = (size_t)num_procs * 12 + 1, len = 0;
    char *list = malloc(cap);
    if (list == NULL)
        launch_fail(1, "out of memory");
    list[0] = '\0';
    for (int i = 0; i < num_procs; i++)
        len += (size_t)snprintf(list + len, cap - len, "%s%d", i ? "," : "", i);
    return list;
}

static void add_process(struct facts *facts, const struct procs_job *job, int proc_id)
{
    const struct procs_program *program = procs_program_of(&job->options, proc_id);
    struct facts inner;
    facts_init(&inner, MAX_FACTS);
    add_rank(&inner, PMIX_RANK, (pmix_rank_t)proc_id);
    add_uint32(&inner, PMIX_APPNUM, (uint32_t)(program - job->options.programs));
    add_rank(&inner, PMIX_APPLDR, (pmix_rank_t)program->first_proc);
    add_rank(&inner, PMIX_GLOBAL_RANK, (pmix_rank_t)proc_id);
    add_rank(&inner, PMIX_APP_RANK, (pmix_rank_t)(proc_id - program->first_proc));
    add_uint16(&inner, PMIX_LOCAL_RANK, (uint16_t)proc_id);
    add_uint16(&inner, PMIX_NODE_RANK, (uint16_t)proc_id);
    add_uint32(&inner, PMIX_NODEID, 0);
    add_string(&inner, PMIX_HOSTNAME, job->host);
    add_uint32(&inner, PMIX_REINCARNATION, 0);
    add_facts(facts, PMIX_PROC_INFO_ARRAY, &inner);
}

static bool register_job(const struct procs_job *job)
{
    uint32_t num_procs = (uint32_t)job->options.num_procs;
    uint32_t num_programs = (uint32_t)job->options.num_programs;
    struct facts facts, inner;
    char *list = list_procs(job->options.num_procs), *node_map = NULL, *proc_map = NULL;
    if (PMIx_generate_regex(job->host, &node_map) != PMIX_SUCCESS ||
        PMIx_generate_ppn(list, &proc_map) != PMIX_SUCCESS)
        launch_fail(1, "out of memory");

    facts_init(&facts, MAX_FACTS + num_procs + num_programs);
    add_string(&facts, PMIX_JOBID, job->id);
    add_uint32(&facts, PMIX_UNIV_SIZE, num_procs);
    add_uint32(&facts, PMIX_JOB_SIZE, num_procs);
    add_uint32(&facts, PMIX_MAX_PROCS, num_procs);
    add_uint32(&facts, PMIX_JOB_NUM_APPS, num_programs);
    add_uint32(&facts, PMIX_NUM_NODES, 1);
    add_uint32(&facts, PMIX_LOCAL_SIZE, num_procs);
    add_uint32(&facts, PMIX_NODE_SIZE, num_procs);
    add_string(&facts, PMIX_LOCAL_PEERS, list);
    add_rank(&facts, PMIX_LOCALLDR, 0);
    PMIX_INFO_LOAD(&facts.info[facts.num++], PMIX_NODE_MAP, node_map, PMIX_REGEX);
    PMIX_INFO_LOAD(&facts.info[facts.num++], PMIX_PROC_MAP, proc_map, PMIX_REGEX);
    add_string(&facts, PMIX_TMPDIR, job->dir);
    add_string(&facts, PMIX_NSDIR, job->dir);

    for (uint32_t i = 0; i < num_programs; i++) {
        facts_init(&inner, MAX_FACTS);
        add_uint32(&inner, PMIX_APPNUM, i);
        add_uint32(&inner, PMIX_APP_SIZE, (uint32_t)job->options.programs[i].num_procs);
        add_rank(&inner, PMIX_APPLDR, (pmix_rank_t)job->options.programs[i].first_proc);
        add_facts(&facts, PMIX_APP_INFO_ARRAY, &inner);
    }

    facts_init(&inner, MAX_FACTS);
    add_uint32(&inner, PMIX_NODEID, 0);
    add_string(&inner, PMIX_HOSTNAME, job->host);
    add_uint32(&inner, PMIX_LOCAL_SIZE, num_procs);
    add_uint32(&inner, PMIX_NODE_SIZE, num_procs);
    add_string(&inner, PMIX_LOCAL_PEERS, list);
    add_rank(&inner, PMIX_LOCALLDR, 0);
    add_facts(&facts, PMIX_NODE_INFO_ARRAY, &inner);

    for (int i = 0; i < job->options.num_procs; i++)
        add_process(&facts, job, i);

    struct answer answer = NO_ANSWER_YET;
    pmix_nspace_t name;
    PMIX_LOAD_NSPACE(name, job->name);
    pmix_status_t status =
        wait_for_answer(&answer, PMIx_server_register_nspace(name, job->options.num_procs, facts.info,
                                                             facts.num, give_answer, &answer));
    PMIX_INFO_FREE(facts.info, MAX_FACTS + num_procs + num_programs);
    free(list);
    free(node_map);
    free(proc_map);
    if (status != PMIX_SUCCESS)
        launch_say("libpmix rejects the job: %s", PMIx_Error_string(status));
    return status == PMIX_SUCCESS;
}

bool procs_server_add(const struct procs_job *job, int proc_id)
{
    pmix_proc_t proc;
    struct answer answer = NO_ANSWER_YET;
    PMIX_LOAD_PROCID(&proc, job->name, (pmix_rank_t)proc_id);
    pmix_status_t status = wait_for_answer(
        &answer, PMIx_server_register_client(&proc, getuid(), getgid(), NULL, give_answer, &answer));
    if (status != PMIX_SUCCESS)
        launch_say("libpmix rejects process %d: %s", proc_id, PMIx_Error_string(status));
    return status == PMIX_SUCCESS;
}

static bool register_clients(const struct procs_job *job)
{
    for (int i = 0; i < job->options.num_procs; i++)
        if (!procs_server_add(job, i))
            return false;
    return true;
}

/* ---- Functions for mpirun_procs.c ---- */

/* libpmix describes the machine by libhwloc, which would also look for GPUs, X servers (by TCP) and PCI devices. No process
 * of the job needs these. The processes get the user's value. */
static pmix_status_t start_libpmix(struct facts *facts)
{
    static const char variable[] = "HWLOC_COMPONENTS";
    bool is_given = getenv(variable) != NULL;
    if (!is_given)
        setenv(variable, "-pci,-linux:pci,-linux:io,-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero", 1);
    pmix_status_t status = PMIx_server_init(&upcalls, facts->info, facts->num);
    if (!is_given)
        unsetenv(variable);
    return status;
}

bool procs_server_start(struct procs_job *job)
{
    struct facts facts;
    bool is_false = false;
    server.job = job;
    server.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    facts_init(&facts, MAX_FACTS);
    add_string(&facts, PMIX_SERVER_NSPACE, "heddle-mpirun");
    add_rank(&facts, PMIX_SERVER_RANK, 0);
    add_string(&facts, PMIX_SERVER_TMPDIR, job->dir);
    add_string(&facts, PMIX_SYSTEM_TMPDIR, job->dir);
    PMIX_INFO_LOAD(&facts.info[facts.num++], PMIX_SERVER_TOOL_SUPPORT, &is_false, PMIX_BOOL);
    pmix_status_t status = start_libpmix(&facts);
    PMIX_INFO_FREE(facts.info, MAX_FACTS);
    if (status != PMIX_SUCCESS) {
        launch_say("cannot start the PMIx server: %s", PMIx_Error_string(status));
        return false;
    }
    static pmix_status_t tolerance = BASE_LAUNCHED_TOLERATES_EVENT;
    PMIx_Register_event_handler(&tolerance, 1, NULL, 0, handle_tolerance, NULL, NULL);
    return register_job(job) && register_clients(job);
}

int procs_server_bell(void)
{
    return server.bell;
}

bool procs_server_hear(struct procs_abort *abort_out)
{
    eventfd_t count;
    eventfd_read(server.bell, &count);
    pthread_mutex_lock(&server.lock);
    bool has_abort = server.has_abort;
    if (has_abort)
        *abort_out = server.abort;
    server.has_abort = false;
    pthread_mutex_unlock(&server.lock);
    return has_abort;
}

bool procs_server_add_env(const struct procs_job *job, int proc_id, char ***env_inout)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, job->name, (pmix_rank_t)proc_id);
    return PMIx_server_setup_fork(&proc, env_inout) == PMIX_SUCCESS;
}

enum { LOSS_FACTS = 2 };

/* The facts must live until libpmix has delivered them. */
static void forget_facts(pmix_status_t status, void *arg)
{
    pmix_info_t *info = arg;
    (void)status;
    PMIX_INFO_FREE(info, LOSS_FACTS);
}

void procs_server_announce_loss(const struct procs_job *job, int proc_id, const char *why)
{
    pmix_proc_t proc;
    pmix_info_t *info;
    PMIX_LOAD_PROCID(&proc, job->name, (pmix_rank_t)proc_id);
    PMIX_INFO_CREATE(info, LOSS_FACTS);
    if (info == NULL)
        return;
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_AFFECTED_PROC, &proc, PMIX_PROC);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_TEXT_MESSAGE, why, PMIX_STRING);
    pmix_status_t status = PMIx_Notify_event(PMIX_ERR_PROC_ABORTED, &proc, PMIX_RANGE_SESSION, info,
                                             LOSS_FACTS, forget_facts, info);
    if (status != PMIX_SUCCESS)
        forget_facts(status, info);
}
