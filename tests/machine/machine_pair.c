/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes use the machine (src/machine_ucx/machine.h) directly, without MPI:
 *
 *      mpirun --procs 2 machine_pair MACHINE.so TEST [COUNT]
 *
 * TEST is one of those listed at the end.
 *
 * If the test fails, it exits with 1 and prints the reason.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "machine_ucx/machine.h"

/* A message that has not come after this long will not come. */
#define PATIENCE_MS 100000

#define LARGE_BYTES ((size_t)3 << 20)

static void *library; /* the machine's */
static const struct machine *machine;
static struct machine_place place;

static void fail(const char *what, long number)
{
    fprintf(stderr, "process %d: %s (%ld)\n", place.proc_id, what, number);
    machine->abort(1, what);
    _exit(1);
}

/* ---- The machine's calls of UCX ---- */

/* UCX was armed, or that was tried, since it was last polled; a message was sent. */
static bool is_armed, is_sent;

/* The library calls these instead of UCX's functions. UCX must not be armed twice without a poll in between, because the
 * first attempt may take the note that a message has come; nor after an operation that the next poll may continue. */
ucs_status_t ucp_worker_arm(ucp_worker_h worker)
{
    ucs_status_t (*arm)(ucp_worker_h) = (ucs_status_t(*)(ucp_worker_h))dlsym(library, "ucp_worker_arm");

    if (is_armed)
        fail("UCX is armed twice without a poll in between", 0);
    if (is_sent)
        fail("UCX is armed after a message without a poll in between", 0);
    is_armed = true;
    return arm(worker);
}

unsigned ucp_worker_progress(ucp_worker_h worker)
{
    unsigned (*progress)(ucp_worker_h) = (unsigned (*)(ucp_worker_h))dlsym(library, "ucp_worker_progress");

    is_armed = is_sent = false;
    return progress(worker);
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                 const void *buffer, size_t count, const ucp_request_param_t *param)
{
    ucs_status_ptr_t (*send)(ucp_ep_h, unsigned, const void *, size_t, const void *, size_t,
                             const ucp_request_param_t *) =
        (ucs_status_ptr_t(*)(ucp_ep_h, unsigned, const void *, size_t, const void *, size_t,
                             const ucp_request_param_t *))dlsym(library, "ucp_am_send_nbx");

    is_sent = true;
    return send(ep, id, header, header_length, buffer, count, param);
}

/* ---- What comes ---- */

static struct {
    uint64_t n_handled;
    uint64_t sum_of_numbers;
    struct machine_data *kept; /* NULL: nothing is kept */
    bool is_mixed;             /* data is from mixed_bytes */
    bool is_away;              /* data has to be fetched */
    struct machine_data away;
} got;

struct header {
    uint64_t number;
    uint64_t unused[4];
};

/* Largest mixed message. */
#define MIXED_BYTES_MAX 7000

/* Sizes of the mixed messages, a function of their number; each is full of its last 7 bits. Some are the largest
 * that fits into a ring's cell, and others next to limits. */
static size_t mixed_bytes(long i)
{
    static const size_t edges[] = {264, 272, 320, 1024, 2048, 4096};

    if (i % 32 == 1)
        return edges[i / 32 % 6] + (size_t)(i / 192 % 3) - 1;
    return (size_t)(i * 7919 % (i % 16 == 0 ? MIXED_BYTES_MAX : 300));
}

static void check_mixed(long number, const struct machine_data *data)
{
    const unsigned char *bytes = data->bytes;

    if (data->n_bytes != mixed_bytes(number))
        fail("a message has a wrong size", number);
    for (size_t i = 0; i < data->n_bytes; i++)
        if (bytes[i] != (number & 127))
            fail("a message has wrong data", number);
}

static bool handle(int pe_id, const void *bytes, size_t header_bytes, const struct machine_data *data)
{
    struct header header;

    if (pe_id != 0 || header_bytes != sizeof header)
        fail("a wrong port or header", (long)header_bytes);
    memcpy(&header, bytes, sizeof header);
    got.sum_of_numbers += header.number;
    got.n_handled++;
    if (!data->bytes && data->n_bytes) {
        got.is_away = true;
        got.away = *data;
        return true;
    }
    if (got.is_mixed)
        check_mixed((long)header.number, data);
    if (!got.kept)
        return false;
    got.kept[header.number] = *data;
    if (data->can_keep)
        return true;
    got.kept[header.number].bytes = memcpy(malloc(data->n_bytes), data->bytes, data->n_bytes);
    return false;
}

/* One poll, and sleep if the machine says that nothing is there. */
static void poll_or_sleep(void)
{
    struct pollfd fd = {.fd = machine->fd(0), .events = POLLIN};

    machine->poll(0);
    if (fd.fd >= 0 && machine->arm(0) && poll(&fd, 1, PATIENCE_MS) == 0)
        fail("slept although messages are on their way; so many had come:", (long)got.n_handled);
}

static void wait_for(uint64_t n_messages)
{
    while (got.n_handled < n_messages)
        poll_or_sleep();
    if (got.n_handled != n_messages || got.sum_of_numbers != n_messages * (n_messages - 1) / 2)
        fail("a message came twice", (long)got.n_handled);
}

/* ---- What leaves ---- */

static uint64_t n_sent, n_done, n_pending;

static void done(void *arg, int result)
{
    if (result != MACHINE_DONE)
        fail("a send failed", result);
    n_done++;
    free(arg);
}

static void send_message(const void *data, size_t n_bytes)
{
    struct header *header = calloc(1, sizeof *header);
    int result;

    header->number = n_sent++;
    result = machine->send(0, 1 - place.proc_id, 0, header, sizeof *header, data, n_bytes, MACHINE_HOST, done,
                           header);
    if (result == MACHINE_PENDING)
        n_pending++;
    else if (result == MACHINE_DONE)
        free(header);
    else
        fail("a message cannot be sent", result);
}

static void wait_for_sends(void)
{
    while (n_done < n_pending)
        machine->poll(0);
}

/* ---- The tests ---- */

/* Process 0 sends; process 1, which never sends, sleeps on the port's descriptor whenever arm lets it, and is
 * woken for every message. */
static void test_one_way(long count)
{
    for (long i = 0; i < count && place.proc_id == 0; i++) {
        send_message(&i, sizeof i);
        while (n_pending - n_done > 100)
            machine->poll(0);
        if (i % 1000 == 999)
            usleep(100); /* let the other one fall asleep */
    }
    if (place.proc_id == 1)
        wait_for((uint64_t)count);
}

/* Both sleep until the other's message is there. */
static void test_in_turn(long count)
{
    for (long i = 0; i < count; i++) {
        if (place.proc_id == i % 2)
            send_message(&i, sizeof i);
        else
            wait_for(got.n_handled + 1);
    }
}

/* While messages have come through rings recently, a poll may leave out UCX; but not if it is needed for sleeping. Some
 * messages are too long for a ring. */
static void test_arm(long count)
{
    static char data[1000];

    for (long i = 0; i < count; i++) {
        if (place.proc_id == i % 2)
            send_message(data, i % 3 == 0 ? sizeof data : 8);
        else
            wait_for((uint64_t)i / 2 + 1);
        for (int n_armed = 0; n_armed < 10; machine->poll(0))
            n_armed += machine->arm(0);
    }
}

/* Fails: the machine is armed twice. */
static void test_arm_twice(long count)
{
    test_arm(count);
    while (!machine->arm(0))
        machine->poll(0);
    if (place.proc_id == 0)
        machine->arm(0);
}

/* Sizes and bytes of the messages that are kept: a function of their number. */
static size_t kept_bytes(long i)
{
    return 1 + (size_t)(i * 7919 % 6000);
}

/* Process 1 keeps what data it may until the last message is there; it is right then. */
static void test_keep(long count)
{
    static unsigned char data[8192];

    for (long i = 0; i < count && place.proc_id == 0; i++) {
        memset(data, (int)(i % 251), kept_bytes(i));
        send_message(data, kept_bytes(i));
        wait_for_sends();
    }
    if (place.proc_id == 0)
        return;
    got.kept = calloc((size_t)count, sizeof *got.kept);
    wait_for((uint64_t)count);
    for (long i = 0; i < count; i++) {
        const unsigned char *bytes = got.kept[i].bytes;
        if (got.kept[i].n_bytes != kept_bytes(i) || bytes[0] != i % 251 ||
            bytes[kept_bytes(i) - 1] != i % 251)
            fail("kept data has changed", i);
        if (got.kept[i].can_keep)
            machine->release(0, got.kept[i].token);
    }
}

static bool is_fetched;

static void fetched(void *arg, int result)
{
    (void)arg;
    is_fetched = true;
    if (result != MACHINE_DONE)
        fail("a fetch failed", result);
}

/* Large data is fetched, and the send is done then. */
static void test_large(long count)
{
    unsigned char *data = malloc(LARGE_BYTES);

    for (long i = 0; i < count; i++) {
        memset(data, place.proc_id == 0 ? (int)i + 1 : 0, LARGE_BYTES);
        if (place.proc_id == 0) {
            send_message(data, LARGE_BYTES);
            while (n_done < n_pending)
                poll_or_sleep();
            continue;
        }
        wait_for((uint64_t)i + 1);
        if (!got.is_away || got.away.n_bytes != LARGE_BYTES)
            fail("large data came with its header, or in another size", (long)got.away.n_bytes);
        got.is_away = is_fetched = false;
        if (machine->fetch(0, 0, got.away.token, data, LARGE_BYTES, MACHINE_HOST, fetched, NULL) ==
            MACHINE_PENDING)
            while (!is_fetched)
                poll_or_sleep();
        for (size_t at = 0; at < LARGE_BYTES; at += 1023)
            if (data[at] != (unsigned char)(i + 1))
                fail("fetched data is wrong", (long)at);
    }
    free(data);
}

/* Sizes that take different ways; both sides send. Each message comes once, with its data. */
static void test_mixed(long count)
{
    unsigned char *data = malloc((size_t)MIXED_BYTES_MAX * 64);

    got.is_mixed = true;
    for (long i = 0; i < count; i++) {
        unsigned char *at = data + i % 64 * MIXED_BYTES_MAX;
        memset(at, (int)(i & 127), mixed_bytes(i));
        send_message(at, mixed_bytes(i));
        if (i % 64 == 63) { /* the other one reads in the meantime, or not */
            wait_for_sends();
            while (i % 1024 == 1023 && got.n_handled < (uint64_t)i + 1)
                poll_or_sleep();
        }
    }
    wait_for((uint64_t)count);
    wait_for_sends();
    free(data);
}

/* True if memory of the other process is mapped here. */
static bool has_rings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool is_found = false;

    while (maps && fgets(line, sizeof line, maps))
        is_found |= strstr(line, "memfd:heddle rings") != NULL;
    if (maps)
        fclose(maps);
    return is_found;
}

/* Messages within this node go through shared memory. */
static void test_with_rings(long count)
{
    test_in_turn(count);
    if (!has_rings())
        fail("messages do not go through shared memory", 0);
}

static void test_without_rings(long count)
{
    test_in_turn(count);
    if (has_rings())
        fail("there is shared memory, although it was not to be", 0);
}

/* ---- Access to memory ---- */

#define MEMORY_BYTES ((size_t)1 << 20)
static unsigned char memory[MEMORY_BYTES];

/* Process 1's description of its memory; its key follows. */
struct announced {
    uint64_t address;
    uint64_t key_bytes;
};

static void announce(void)
{
    struct announced announced = {(uintptr_t)memory, 0};
    static unsigned char message[4096];
    size_t key_bytes = 0;
    void *key = NULL, *exposed = machine->rma->expose(memory, MEMORY_BYTES, &key, &key_bytes);

    announced.key_bytes = key_bytes;
    memcpy(message, &announced, sizeof announced);
    if (exposed)
        memcpy(message + sizeof announced, key, key_bytes);
    send_message(message, sizeof message);
    wait_for_sends();
    wait_for(1); /* the other one has finished */
    for (size_t i = 0; i < MEMORY_BYTES; i++)
        if (memory[i] != (i % 3 == 0 ? (unsigned char)i : 7))
            fail("what was put is not in the memory", (long)i);
    if (exposed)
        machine->rma->conceal(exposed);
    free(key);
}

/* Waits until an access is over; another operation than a fetch, but it is told in the same way. */
static void await_access(int result)
{
    while (result == MACHINE_PENDING && !is_fetched)
        poll_or_sleep();
    if (result != MACHINE_PENDING && result != MACHINE_DONE)
        fail("an access cannot begin", result);
    is_fetched = false;
}

/* Process 0 reads all memory, changes each third byte, and writes it back. */
static void access_by_key(uint64_t address, void *key)
{
    unsigned char *copy = malloc(MEMORY_BYTES);

    await_access(machine->rma->get(0, 1, 0, key, copy, address, MEMORY_BYTES, fetched, NULL));
    for (size_t i = 0; i < MEMORY_BYTES; i += 3)
        copy[i] = (unsigned char)i;
    await_access(machine->rma->put(0, 1, 0, key, copy, address, 5, fetched, NULL));
    await_access(machine->rma->put(0, 1, 0, key, copy + 5, address + 5, MEMORY_BYTES - 5, fetched, NULL));
    await_access(machine->rma->flush(0, 1, 0, fetched, NULL));
    free(copy);
}

/* Copies in both directions, from and to pieces that end in different places. */
static void access_directly(uint64_t address)
{
    unsigned char *copy = malloc(MEMORY_BYTES);
    struct machine_piece whole = {address, MEMORY_BYTES},
                         parts[2] = {{(uintptr_t)copy, 1001}, {(uintptr_t)copy + 1001, MEMORY_BYTES - 1001}},
                         nowhere = {64, 8};
    size_t n_bytes = 0;

    if (machine->rma->copy(1, false, parts, 2, &whole, 1, &n_bytes) != MACHINE_DONE ||
        n_bytes != MEMORY_BYTES)
        fail("not all memory was read", (long)n_bytes);
    for (size_t i = 0; i < MEMORY_BYTES; i += 3)
        copy[i] = (unsigned char)i;
    if (machine->rma->copy(1, true, parts, 2, &whole, 1, &n_bytes) != MACHINE_DONE || n_bytes != MEMORY_BYTES)
        fail("not all memory was written", (long)n_bytes);
    if (machine->rma->copy(1, true, parts, 1, &nowhere, 1, &n_bytes) != MACHINE_FAILED)
        fail("memory that is not there was written", 0);
    free(copy);
}

static void test_access(enum machine_access expected)
{
    struct machine_data kept[1];
    struct announced announced;
    void *key = NULL;

    memset(memory, 7, sizeof memory);
    if (machine->rma->access(1 - place.proc_id) != expected)
        fail("not this kind of access:", (long)expected);
    if (place.proc_id == 1) {
        announce();
        return;
    }
    got.kept = kept;
    wait_for(1);
    memcpy(&announced, kept[0].bytes, sizeof announced);
    if (announced.key_bytes > 0)
        key = machine->rma->import_key(0, 1, 0, (const char *)kept[0].bytes + sizeof announced);
    if (expected == MACHINE_KEYED_ACCESS && !key)
        fail("there is no key, or it cannot be used", (long)announced.key_bytes);
    if (expected == MACHINE_KEYED_ACCESS)
        access_by_key(announced.address, key);
    else
        access_directly(announced.address);
    if (key)
        machine->rma->drop_key(key);
    send_message(&announced, sizeof announced);
}

/* The kernel copies. */
static void test_direct_access(long count)
{
    (void)count;
    test_access(MACHINE_DIRECT_ACCESS);
}

/* UCX puts and gets. */
static void test_keyed_access(long count)
{
    (void)count;
    test_access(MACHINE_KEYED_ACCESS);
}

static void test_no_access(long count)
{
    (void)count;
    if (machine->rma->access(1 - place.proc_id) != MACHINE_NO_ACCESS)
        fail("there is access, although it was not to be", 0);
}

static const struct {
    const char *name;
    void (*run)(long count);
} tests[] = {
    {"direct-access", test_direct_access},
    {"keyed-access", test_keyed_access},
    {"no-access", test_no_access},
    {"one-way", test_one_way},
    {"in-turn", test_in_turn},
    {"arm", test_arm},
    {"arm-twice", test_arm_twice},
    {"keep", test_keep},
    {"large", test_large},
    {"mixed", test_mixed},
    {"with-rings", test_with_rings},
    {"without-rings", test_without_rings},
};

int main(int argc, char **argv)
{
    static const struct machine_client client = {.handle = handle};
    const char *error = NULL;
    bool is_known = false;

    library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    machine = library ? dlsym(library, MACHINE_SYMBOL) : NULL;
    if (!machine) {
        fprintf(stderr, "usage: machine_pair MACHINE.so TEST [COUNT]; %s\n", library ? "" : dlerror());
        return 2;
    }
    if (!machine->attach(&place, &error) || !machine->open(1, &client, &error)) {
        fprintf(stderr, "the machine does not start: %s\n", error);
        return 1;
    }
    if (place.n_procs != 2)
        fail("two processes are needed, not", place.n_procs);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (strcmp(tests[i].name, argv[2]) == 0) {
            is_known = true;
            tests[i].run(argc > 3 ? atol(argv[3]) : 1000);
        }
    if (!is_known)
        fail("there is no such test", 0);
    wait_for_sends();
    machine->close(0);
    return 0;
}
