/* SPDX-License-Identifier: BSD-3-Clause
 *
 * record.c: see record.h.
 *
 * The file: a page with a header, then pages of one rank each. A rank's entries are in the order of its calls, but a
 * receive is entered when it has its message, with its number among the rank's receives with wildcards. Pages are
 * mapped, so that an entry costs no system call, and is in the file however the run ends. A job of several processes
 * has one file for each, with the number of the process behind the name.
 *
 * In a replay, a receive with wildcards becomes one from the recorded source with the recorded tag. As messages of a
 * source with one tag keep their order, each receive gets its message. A receive without a message in the record gets
 * none: its source matches no rank.
 */
#include "ampi/p2p/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "base/log.h"

#define PAGE_BYTES 4096
#define ENTRIES_PER_PAGE 255

/* A record can lack this many receives of a rank that were never matched. */
#define PENDING_MAX (1u << 20)

enum entry_kind {
    NONE,
    RECEIVED,   /* number: of the receive; a: source, b: tag */
    PROBED,     /* a: source, b: tag */
    NOTHING,    /* number: of polls in succession that found nothing */
    SUCCESS,    /* a poll that found all it asked for */
    ONE,        /* a: index, of MPI_Waitany or MPI_Testany */
    SOME,       /* number: of indices of MPI_Waitsome or MPI_Testsome; as many of the next kind follow */
    SOME_INDEX, /* a: index */
    LAST_KIND = SOME_INDEX
};

struct entry {
    uint32_t kind; /* enum entry_kind */
    uint32_t number;
    int32_t a, b;
};

struct header {
    char magic[16];
    uint32_t n_ranks; /* of the job */
    uint32_t proc_id;
    uint32_t n_procs;
    _Atomic uint32_t n_pages; /* including this one */
    uint32_t is_complete;     /* the run has ended normally; else ranks run freely behind the record's end */
    uint32_t zero;
};

struct page {
    uint32_t rank;   /* world rank */
    uint32_t n_used; /* entries */
    uint32_t number; /* of the page among those of the rank */
    uint32_t zero;
    struct entry entries[ENTRIES_PER_PAGE];
};
_Static_assert(sizeof(struct page) == PAGE_BYTES, "a page");

static const char magic[16] = "heddle record 1";

/* What a rank has recorded, or replays. */
struct rank_record {
    struct page *page;      /* recording: the last one; NULL: none yet */
    uint32_t n_pages;       /* recording */
    uint32_t n_receives;    /* with wildcards, so far */
    struct entry *polls;    /* replay: all entries but receives */
    struct entry *receives; /* replay: by number; a hole has the kind NONE */
    uint32_t n_polls, n_recorded_receives;
    uint32_t at;     /* replay: the next entry of polls */
    uint32_t n_done; /* replay: of a NOTHING, the number of polls that were answered */
};

static struct rank_record *records; /* by index of the rank in this process */
static int record_fd;
static char record_path[4096];
static struct header *header;

static struct rank_record *record_of(const struct ampi_rank *rank)
{
    ptrdiff_t index = rank - ampi_job.ranks;

    return index < ampi_job.n_local ? &records[index] : NULL; /* not of spawned ranks */
}

static void set_path(const char *path)
{
    if (ampi_job.n_procs > 1)
        snprintf(record_path, sizeof record_path, "%s.%d", path, ampi_job.proc_id);
    else
        snprintf(record_path, sizeof record_path, "%s", path);
    records = base_calloc((size_t)ampi_job.n_local, sizeof *records, "a record");
}

/* ---- Recording ---- */

static BASE_COLD void cannot_write(void) BASE_NORETURN;
static void cannot_write(void)
{
    base_fatal(1, "+schedule record: cannot write %s: %s", record_path, strerror(errno));
}

/* Adds a page to the file. */
static void *map_page(uint32_t number)
{
    static const struct page empty;
    off_t at = (off_t)number * PAGE_BYTES;
    void *page;

    if (pwrite(record_fd, &empty, sizeof empty, at) != sizeof empty)
        cannot_write();
    page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, record_fd, at);
    if (page == MAP_FAILED)
        cannot_write();
    return page;
}

void ampi_record_begin(const char *path)
{
    set_path(path);
    record_fd = open(record_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (record_fd < 0)
        cannot_write();
    header = map_page(0);
    memcpy(header->magic, magic, sizeof magic);
    header->n_ranks = (uint32_t)ampi_job.n_ranks;
    header->proc_id = (uint32_t)ampi_job.proc_id;
    header->n_procs = (uint32_t)ampi_job.n_procs;
    atomic_store(&header->n_pages, 1);
}

void ampi_record_end(void)
{
    header->is_complete = true;
}

static void add_page(const struct ampi_rank *rank, struct rank_record *record)
{
    if (record->page)
        munmap(record->page, PAGE_BYTES);
    record->page = map_page(atomic_fetch_add(&header->n_pages, 1));
    record->page->number = record->n_pages++;
    record->page->rank = (uint32_t)rank->world_rank;
}

static void add(const struct ampi_rank *rank, struct entry entry)
{
    struct rank_record *record = record_of(rank);

    if (!record)
        return;
    if (!record->page || record->page->n_used == ENTRIES_PER_PAGE)
        add_page(rank, record);
    record->page->entries[record->page->n_used] = entry;
    __atomic_store_n(&record->page->n_used, record->page->n_used + 1, __ATOMIC_RELEASE);
}

int ampi_record_receive(const struct ampi_rank *rank)
{
    struct rank_record *record = record_of(rank);

    return record ? (int)record->n_receives++ : -1;
}

void ampi_record_received(const struct ampi_rank *rank, int number, int source, int tag)
{
    add(rank, (struct entry){RECEIVED, (uint32_t)number, source, tag});
}

void ampi_record_probed(const struct ampi_rank *rank, int source, int tag)
{
    add(rank, (struct entry){PROBED, 0, source, tag});
}

void ampi_record_polled(const struct ampi_rank *rank, bool has_found)
{
    const struct rank_record *record = record_of(rank);
    struct page *page = record ? record->page : NULL;

    if (!has_found && page && page->n_used > 0 && page->entries[page->n_used - 1].kind == NOTHING &&
        page->entries[page->n_used - 1].number < UINT32_MAX)
        page->entries[page->n_used - 1].number++;
    else
        add(rank, (struct entry){has_found ? SUCCESS : NOTHING, 1, 0, 0});
}

void ampi_record_found(const struct ampi_rank *rank, int index)
{
    add(rank, (struct entry){ONE, 0, index, 0});
}

void ampi_record_found_some(const struct ampi_rank *rank, const int *indices, int n)
{
    add(rank, (struct entry){SOME, (uint32_t)n, 0, 0});
    for (int i = 0; i < n; i++)
        add(rank, (struct entry){SOME_INDEX, 0, indices[i], 0});
}

/* ---- Reading ---- */

static BASE_COLD void refuse(const char *why) BASE_NORETURN;
static void refuse(const char *why)
{
    base_fatal(2, "+schedule replay: %s %s", record_path, why);
}

static struct page *read_pages(size_t *n_pages_out)
{
    struct stat file;
    int fd = open(record_path, O_RDONLY | O_CLOEXEC);
    char *bytes;
    size_t n_pages;

    if (fd < 0 || fstat(fd, &file) != 0)
        base_fatal(2, "+schedule replay: cannot read %s: %s", record_path, strerror(errno));
    if (!S_ISREG(file.st_mode) || file.st_size < PAGE_BYTES || file.st_size % PAGE_BYTES != 0)
        refuse("is truncated, or not a record of +schedule record");
    n_pages = (size_t)file.st_size / PAGE_BYTES;
    bytes = base_malloc(n_pages * PAGE_BYTES, "a record");
    for (size_t done = 0; done < n_pages * PAGE_BYTES;) {
        ssize_t n = pread(fd, bytes + done, n_pages * PAGE_BYTES - done, (off_t)done);
        if (n <= 0)
            refuse("cannot be read to its end");
        done += (size_t)n;
    }
    close(fd);
    header = (struct header *)bytes;
    if (memcmp(header->magic, magic, sizeof magic) != 0 || header->zero || header->is_complete > 1)
        refuse("is not a record of +schedule record");
    if (header->n_ranks != (uint32_t)ampi_job.n_ranks || header->n_procs != (uint32_t)ampi_job.n_procs ||
        header->proc_id != (uint32_t)ampi_job.proc_id)
        base_fatal(2, "+schedule replay: %s is of a run of %u ranks in %u processes; use as many",
                   record_path, header->n_ranks, header->n_procs);
    if (header->n_pages != n_pages)
        refuse("is truncated");
    *n_pages_out = n_pages - 1;
    return (struct page *)bytes + 1;
}

static void take_receive(struct rank_record *record, const struct entry *entry)
{
    if (entry->number >= record->n_recorded_receives || record->receives[entry->number].kind)
        refuse("is damaged: a receive has a wrong number");
    if (entry->a < 0 || entry->b < 0)
        refuse("is damaged: a receive has a wrong source or tag");
    record->receives[entry->number] = *entry;
}

/* For kinds that stand for calls: the indices of a SOME follow it, and no index is alone. */
static void check_polls(const struct rank_record *record)
{
    for (uint32_t i = 0; i < record->n_polls; i++) {
        const struct entry *entry = &record->polls[i];
        uint32_t n = entry->kind == SOME ? entry->number : 0;
        bool is_cut = entry->kind == SOME_INDEX || (entry->kind == NOTHING && entry->number == 0) ||
                      ((entry->kind == PROBED || entry->kind == ONE) && entry->a < 0);
        if (is_cut)
            refuse("is damaged: an entry has a wrong value");
        for (uint32_t k = 0; k < n; k++)
            if (i + 1 + k >= record->n_polls) /* the run ended while it was written */
                break;
            else if (record->polls[i + 1 + k].kind != SOME_INDEX || record->polls[i + 1 + k].a < 0)
                refuse("is damaged: the indices of MPI_Waitsome are missing");
        i += n < record->n_polls - i - 1 ? n : record->n_polls - i - 1;
    }
}

static void read_page(const struct page *page)
{
    struct rank_record *record;
    int index = (int)page->rank - ampi_job.first_rank;

    if (index < 0 || index >= ampi_job.n_local)
        refuse("is damaged: a page is of a rank that does not exist");
    record = &records[index];
    if (page->number != record->n_pages || page->n_used > ENTRIES_PER_PAGE || page->zero)
        refuse("is damaged: the pages of a rank are not complete");
    record->n_pages++;
    for (uint32_t i = 0; i < page->n_used; i++) {
        const struct entry *entry = &page->entries[i];
        if (entry->kind == NONE || entry->kind > LAST_KIND)
            refuse("is damaged: an entry is not valid");
        if (entry->kind == RECEIVED)
            take_receive(record, entry);
        else
            record->polls[record->n_polls++] = *entry;
    }
}

/* Receives may have gaps between their numbers, but not more of them than entries can explain: a pending one leaves a gap. */
static void make_room(const struct page *pages, size_t n_pages)
{
    for (size_t i = 0; i < n_pages; i++) {
        int index = (int)pages[i].rank - ampi_job.first_rank;
        for (uint32_t k = 0;
             index >= 0 && index < ampi_job.n_local && k < pages[i].n_used && k < ENTRIES_PER_PAGE; k++) {
            const struct entry *entry = &pages[i].entries[k];
            records[index].n_polls++;
            if (entry->kind == RECEIVED && entry->number < n_pages * ENTRIES_PER_PAGE + PENDING_MAX &&
                entry->number >= records[index].n_recorded_receives)
                records[index].n_recorded_receives = entry->number + 1;
        }
    }
    for (int i = 0; i < ampi_job.n_local; i++) {
        records[i].polls = base_calloc(records[i].n_polls + 1, sizeof(struct entry), "a record");
        records[i].receives =
            base_calloc(records[i].n_recorded_receives + 1, sizeof(struct entry), "a record");
        records[i].n_polls = 0;
    }
}

void ampi_replay_begin(const char *path)
{
    struct page *pages;
    size_t n_pages;

    set_path(path);
    pages = read_pages(&n_pages);
    make_room(pages, n_pages);
    for (size_t i = 0; i < n_pages; i++)
        read_page(&pages[i]);
    for (int i = 0; i < ampi_job.n_local; i++)
        check_polls(&records[i]);
}

/* ---- Replaying ---- */

static void describe_entry(const struct entry *entry, char *text, size_t size_bytes)
{
    static const char *const forms[] = {
        [NONE] = "no more calls",
        [RECEIVED] = "a receive of a message from rank %d with tag %d",
        [PROBED] = "a probe that found a message from rank %d with tag %d",
        [NOTHING] = "a test or probe that found nothing",
        [SUCCESS] = "a test that found all complete",
        [ONE] = "MPI_Waitany or MPI_Testany with index %d",
        [SOME] = "MPI_Waitsome or MPI_Testsome",
        [SOME_INDEX] = "MPI_Waitsome or MPI_Testsome with index %d",
    };

    snprintf(text, size_bytes, forms[entry->kind], entry->a, entry->b);
}

static BASE_COLD void depart(const struct ampi_rank *rank, const struct entry *entry,
                             const char *here) BASE_NORETURN;
static void depart(const struct ampi_rank *rank, const struct entry *entry, const char *here)
{
    char text[100];

    describe_entry(entry, text, sizeof text);
    ampi_report(rank, "the run departs from the record %s: the record has %s, but this call is %s",
                record_path, text, here);
    ampi_job_abort(1);
    abort();
}

/* The recorded run was ended before this point: from here on the rank runs freely. */
static bool is_beyond(const struct rank_record *record)
{
    return !record || (record->at >= record->n_polls && !header->is_complete);
}

/* The next entry, which must be of this kind. */
static const struct entry *next_entry(const struct ampi_rank *rank, struct rank_record *record,
                                      enum entry_kind kind, const char *here)
{
    static const struct entry none;
    const struct entry *entry = record->at < record->n_polls ? &record->polls[record->at] : &none;

    if (entry->kind != (uint32_t)kind)
        depart(rank, entry, here);
    return entry;
}

/* The entry's message can be one for a receive or probe with these arguments, which replaces its wildcards. */
static void take_message(const struct ampi_comm *comm, const struct entry *entry, const char *call,
                         int *source, int *tag)
{
    char here[100];

    if (entry->a >= comm->peer->n_ranks || (*source != MPI_ANY_SOURCE && *source != entry->a) ||
        (*tag != MPI_ANY_TAG && *tag != entry->b)) {
        snprintf(here, sizeof here, "%s rank %d with tag %d (-1: any) on a communicator of size %d", call,
                 *source == MPI_ANY_SOURCE ? -1 : *source, *tag == MPI_ANY_TAG ? -1 : *tag,
                 comm->peer->n_ranks);
        depart(comm->owner, entry, here);
    }
    *source = entry->a;
    *tag = entry->b;
}

int ampi_replay_receive(const struct ampi_comm *comm, int *source, int *tag)
{
    struct rank_record *record = record_of(comm->owner);
    const struct entry *entry;
    uint32_t number;

    if (!record)
        return -1;
    number = record->n_receives++;
    entry = number < record->n_recorded_receives ? &record->receives[number] : NULL;
    if (!entry && !header->is_complete)
        return (int)number;
    if (!entry || entry->kind == NONE) {
        *source = AMPI_SCHEDULE_NOBODY;
        return (int)number;
    }
    take_message(comm, entry, "a receive from", source, tag);
    return (int)number;
}

enum ampi_poll ampi_replay_poll(const struct ampi_rank *rank)
{
    const struct rank_record *record = record_of(rank);

    if (is_beyond(record))
        return AMPI_POLL_ANY;
    if (record->at == record->n_polls)
        next_entry(rank, record_of(rank), SUCCESS, "a test or probe");
    return record->polls[record->at].kind == NOTHING ? AMPI_POLL_NOTHING : AMPI_POLL_SUCCESS;
}

void ampi_replay_polled(const struct ampi_rank *rank, bool has_found)
{
    struct rank_record *record = record_of(rank);

    if (is_beyond(record))
        return;
    if (has_found)
        next_entry(rank, record, SUCCESS, "a test");
    else if (++record->n_done < record->polls[record->at].number)
        return;
    record->n_done = 0;
    record->at++;
}

void ampi_replay_probed(const struct ampi_rank *rank)
{
    struct rank_record *record = record_of(rank);

    if (!is_beyond(record))
        record->at++;
}

void ampi_replay_probe(const struct ampi_comm *comm, int *source, int *tag)
{
    struct rank_record *record = record_of(comm->owner);

    if (!is_beyond(record))
        take_message(comm, next_entry(comm->owner, record, PROBED, "a probe"), "a probe for", source, tag);
}

/* Waits for one of the requests, which must exist. */
static void await(const struct ampi_rank *rank, struct ampi_request *const *requests, int n_requests,
                  const struct entry *entry)
{
    int index = entry->a;

    if (index >= n_requests || !requests[index] || requests[index]->state == AMPI_REQUEST_INACTIVE)
        depart(rank, entry, "for requests among which that one is not pending");
    ampi_request_await(requests[index]);
}

int ampi_replay_first(const struct ampi_rank *rank, struct ampi_request *const *requests, int n_requests)
{
    struct rank_record *record = record_of(rank);
    const struct entry *entry;

    if (is_beyond(record))
        return 0;
    entry = next_entry(rank, record, ONE, "MPI_Waitany or MPI_Testany");
    record->at++;
    await(rank, requests, n_requests, entry);
    return entry->a;
}

void ampi_replay_some(const struct ampi_rank *rank, struct ampi_request *const *requests, int n_requests,
                      bool *is_meant)
{
    struct rank_record *record = record_of(rank);
    const struct entry *entry;

    memset(is_meant, is_beyond(record), (size_t)n_requests);
    if (is_beyond(record))
        return;
    entry = next_entry(rank, record, SOME, "MPI_Waitsome or MPI_Testsome");
    record->at++;
    for (uint32_t i = 0; i < entry->number && !is_beyond(record); i++) {
        const struct entry *found = next_entry(rank, record, SOME_INDEX, "MPI_Waitsome or MPI_Testsome");
        record->at++;
        await(rank, requests, n_requests, found);
        is_meant[found->a] = true;
    }
}
