/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_methods: ways in which the GPUs of one process exchange large blocks and combine vectors, all with
 * all: by copy engines and by kernels, submission until the CPU knows, without MPI.
 *
 *      nvcc -std=c++17 -O2 -fmad=false -arch=sm_90 -I src bench/gpu/exchange_methods.cu -o exchange_methods -lcuda
 *      ./exchange_methods [GPUS,GPUS,... [MIB,MIB,... [PART OF A NAME,PART OF A NAME,...]]]
 *
 * A size is that of the whole vector, as in bench/gpu/collectives. A row has, per size: microseconds if one
 * thread submits all; if each GPU has a thread. "wrong" marks a method with a wrong result. The results are
 * in src/ampi/coll/device/device_moves.c.
 */
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "exchange.cuh"

#define CHECK_BYTES ((size_t)3 << 20) /* of the vectors with which results are checked */

/* ---- Methods: an owner's share of an operation on vectors of n_bytes ---- */

struct method {
    std::string name;
    char result; /* the operation: a: allgather, t: alltoall, s: reduce_scatter, r: allreduce, b: bcast; -: nothing to check */
    std::function<void(int owner, size_t n_bytes)> submit;
};
static std::vector<method> methods;

static size_t block_of(size_t n_bytes)
{
    return n_bytes / n_gpus / 512 * 512;
}
/* A piece of a block. */
struct range {
    size_t from, n;
};
static range piece_of(size_t n_bytes, int p, int n_pieces)
{
    size_t unit = n_bytes / 512, from = unit * p / n_pieces * 512, to = p + 1 == n_pieces ? n_bytes : unit * (p + 1) / n_pieces * 512;

    return {from, to - from};
}
static void copy(cudaStream_t s, char *to, const char *from, size_t n_bytes)
{
    if (n_bytes)
        CHECK(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDefault, s));
}
static char *source_of(char kind, int s, int d, size_t block)
{
    return in[s] + (kind == 't' ? d * block : 0);
}

enum way { PUSH_BY_SOURCE, PULL_BY_DESTINATION, PUSH_BY_DESTINATION }; /* who submits; the destination's streams may be the sources' GPUs' */

/* Copy engines. per_pair: a stream for each pair; else one per owner (PUSH_BY_DESTINATION has one per source anyway). */
static void add_copies(char kind, way how, bool is_staggered, bool per_pair, int n_pieces)
{
    static const char *const ways[] = {"push, source submits", "pull", "push, destination submits"};
    std::string name = std::string(kind == 't' ? "alltoall" : "allgather") + ": copies, " + ways[how] + (is_staggered ? ", staggered" : ", 0 1 2 3") +
                       (per_pair ? ", stream per pair" : ", one stream") + (n_pieces > 1 ? ", pieces " + std::to_string(n_pieces) : "");

    methods.push_back({name, kind, [=](int o, size_t n_bytes) {
        size_t block = block_of(n_bytes);
        copy(stream(o, o, STREAMS - 1), out[o] + o * block, source_of(kind, o, o, block), block);
        for (int p = 0; p < n_pieces; p++)
            for (int k = 0, n = 0; k < n_gpus; k++) {
                int peer = is_staggered ? next_of(o, k) : k;
                int s = how == PUSH_BY_SOURCE ? o : peer, d = how == PUSH_BY_SOURCE ? peer : o;
                range r = piece_of(block, p, n_pieces);
                if (peer == o)
                    continue;
                copy(stream(o, how == PUSH_BY_DESTINATION ? s : o, per_pair && how != PUSH_BY_DESTINATION ? n % (STREAMS - 1) : 0),
                     out[d] + s * block + r.from, source_of(kind, s, d, block) + r.from, r.n);
                n++;
            }
    }});
}

/* The destination submits to streams of the sources', one copy after the other. */
static void add_chained(char kind, int n_pieces)
{
    std::string name = std::string(kind == 't' ? "alltoall" : "allgather") + ": copies, push, destination submits, staggered, one after the other" +
                       (n_pieces > 1 ? ", pieces " + std::to_string(n_pieces) : "");

    methods.push_back({name, kind, [=](int o, size_t n_bytes) {
        size_t block = block_of(n_bytes);
        cudaEvent_t last = nullptr;
        copy(stream(o, o, STREAMS - 1), out[o] + o * block, source_of(kind, o, o, block), block);
        for (int p = 0; p < n_pieces; p++)
            for (int k = 1; k < n_gpus; k++) {
                int s = next_of(o, k);
                range r = piece_of(block, p, n_pieces);
                cudaStream_t own = stream(o, s, 0);
                if (last)
                    after(own, last);
                copy(own, out[o] + s * block + r.from, source_of(kind, s, o, block) + r.from, r.n);
                last = mark(o, s, own);
            }
    }});
}

static void add_kernel(char kind, bool is_push, bool is_staggered, bool is_split, int flight, int blocks)
{
    std::string name = std::string(kind == 't' ? "alltoall" : "allgather") + ": kernel, " + (is_push ? "push" : "pull") + (is_staggered ? ", staggered" : ", 0 1 2 3") +
                       (is_split ? ", all peers at once" : ", one by one") + ", flight " + std::to_string(flight) + ", " + std::to_string(blocks) + " blocks";

    methods.push_back({name, kind, [=](int o, size_t n_bytes) {
        size_t block = block_of(n_bytes);
        copy_list a = {0, is_split, block / 16};
        for (int k = 0; k < n_gpus; k++) {
            int peer = is_staggered ? next_of(o, k + 1) : k, s = is_push ? o : peer, d = is_push ? peer : o;
            a.to[a.n] = (uint64_t)(out[d] + s * block);
            a.from[a.n++] = (uint64_t)source_of(kind, s, d, block);
        }
        auto fn = flight == 1 ? copy_kernel<1> : flight == 4 ? copy_kernel<4> : copy_kernel<8>;
        fn<<<blocks / n_gpus * n_gpus, 512, 0, stream(o, o, 0)>>>(a);
        check_launch();
    }});
}
/* Each GPU reads its block once and writes it to all. */
static void add_kernel_spread(bool is_staggered, int flight, int blocks)
{
    methods.push_back({std::string("allgather: kernel, reads once, writes to all") + (is_staggered ? ", staggered" : ", 0 1 2 3") + ", flight " +
                           std::to_string(flight) + ", " + std::to_string(blocks) + " blocks",
                       'a', [=](int o, size_t n_bytes) {
        size_t block = block_of(n_bytes);
        std::vector<char *> to;
        for (int k = 0; k < n_gpus; k++)
            to.push_back(out[is_staggered ? next_of(o, k + 1) : k] + o * block);
        launch(o, stream(o, o, 0), {PLAIN, flight, blocks}, {in[o]}, to, block);
    }});
}

/* ---- Reductions ---- */

static std::vector<char *> all_at(char **which, size_t skip)
{
    std::vector<char *> list;

    for (int g = 0; g < n_gpus; g++)
        list.push_back(which[g] + skip);
    return list;
}
static std::string text_of(variant v)
{
    static const char *const shapes[] = {"", "all loads first and rotated, ", "tiles rotated, "};

    return std::string(shapes[v.kind]) + "flight " + std::to_string(v.flight) + ", " + std::to_string(v.blocks) + " blocks";
}
/* One kernel per GPU: reads its slice of all, writes it to itself or to all. */
static void add_reduce(char kind, variant v, bool is_staggered)
{
    methods.push_back({std::string(kind == 's' ? "reduce_scatter" : "allreduce") + ": kernel, " + text_of(v) + (is_staggered ? ", outputs staggered" : ""), kind,
                       [=](int o, size_t n_bytes) {
        size_t block = block_of(n_bytes);
        std::vector<char *> to;
        for (int k = 0; k < n_gpus; k++)
            if (kind == 'r')
                to.push_back(out[is_staggered ? next_of(o, k + 1) : k] + o * block);
        if (kind == 's')
            to.push_back(out[o]);
        launch(o, stream(o, o, 0), v, all_at(in, o * block), to, block);
    }});
}
/* The same in two kernels: the second one reads what the first has combined, and writes it to the others. */
static void add_two_kernels(variant first, variant second)
{
    methods.push_back({"allreduce: two kernels, " + text_of(first) + ", then " + text_of(second), 'r', [=](int o, size_t n_bytes) {
        size_t block = block_of(n_bytes);
        char *own = out[o] + o * block;
        std::vector<char *> to;
        for (int k = 1; k < n_gpus; k++)
            to.push_back(out[next_of(o, k)] + o * block);
        launch(o, stream(o, o, 0), first, all_at(in, o * block), {own}, block);
        launch(o, stream(o, o, 0), second, {own}, to, block);
    }});
}
/* Contributions come by copy engines into scratch memory, and are combined there; results go on by copy engines. gather: by what they come: p: pushed, l:
 * pulled, k: read by the kernel itself. spread: c: copies, one stream; m: copies, a stream for each; k: the kernel writes to all. */
static void add_pieces(char kind, char gather, char spread, int n_pieces, variant v)
{
    std::string name = std::string(kind == 's' ? "reduce_scatter" : "allreduce") + ": in by " + (gather == 'p' ? "pushed copies" : gather == 'l' ? "pulled copies" : "kernel") +
                       (kind == 's'     ? ""
                        : spread == 'c' ? ", out by copies"
                        : spread == 'm' ? ", out by copies, stream for each"
                                        : ", out by kernel") +
                       ", pieces " + std::to_string(n_pieces) + (gather == 'k' || spread == 'k' ? ", " + text_of(v) : "");

    methods.push_back({name, kind, [=](int o, size_t n_bytes) {
        size_t block = block_of(n_bytes);
        cudaStream_t work = stream(o, o, 0);
        for (int p = 0; p < n_pieces; p++) {
            range r = piece_of(block, p, n_pieces);
            std::vector<char *> from = all_at(in, o * block + r.from), to;
            char *own = out[o] + (kind == 'r' ? o * block : 0) + r.from;
            for (int k = 1; k < n_gpus && gather != 'k'; k++) {
                int s = next_of(o, k);
                cudaStream_t way = gather == 'p' ? stream(o, s, 1) : stream(o, o, 1);
                from[s] = scratch[o] + s * block + r.from;
                copy(way, from[s], in[s] + o * block + r.from, r.n);
                if (gather == 'p')
                    after(work, mark(o, s, way));
            }
            if (gather == 'l')
                after(work, mark(o, o, stream(o, o, 1)));
            for (int k = 1; k < n_gpus && kind == 'r' && spread == 'k'; k++)
                to.push_back(out[next_of(o, k)] + o * block + r.from);
            to.push_back(own);
            launch(o, work, v, from, to, r.n);
            if (kind == 's' || spread == 'k')
                continue;
            cudaEvent_t done = mark(o, o, work);
            for (int k = 1; k < n_gpus; k++) {
                cudaStream_t way = stream(o, o, spread == 'c' ? 2 : k % STREAMS == 0 ? 2 : k);
                if (k == 1 || spread == 'm')
                    after(way, done);
                copy(way, out[next_of(o, k)] + o * block + r.from, own, r.n);
            }
        }
    }});
}

/* ---- Bcast: GPU 0 is the root ---- */

static range slice_of(size_t n_bytes, int o) /* of a GPU that is not the root */
{
    return piece_of(n_bytes, o - 1, n_gpus - 1);
}
static char *target_of(int g, size_t at)
{
    return out[g] + at;
}
static void add_bcasts()
{
    methods.push_back({"bcast: copies from the root, one stream", 'b', [=](int o, size_t n_bytes) {
        for (int k = 1; k < n_gpus && o == 0; k++)
            copy(stream(0, 0, 0), out[k], in[0], n_bytes);
    }});
    methods.push_back({"bcast: copies from the root, each receiver's stream", 'b', [=](int o, size_t n_bytes) {
        if (o > 0)
            copy(stream(o, 0, 0), out[o], in[0], n_bytes);
    }});
    for (int blocks : {32, 66, 132, 264})
        for (int flight : {1, 2, 4, 8})
            methods.push_back({"bcast: kernels read a slice and write it to all, flight " + std::to_string(flight) + ", " + std::to_string(blocks) + " blocks", 'b',
                               [=](int o, size_t n_bytes) {
                range r = slice_of(n_bytes, o ? o : 1);
                std::vector<char *> to;
                for (int k = 0; k < n_gpus; k++)
                    if (next_of(o, k) != 0)
                        to.push_back(target_of(next_of(o, k), r.from));
                if (o > 0)
                    launch(o, stream(o, o, 0), {PLAIN, flight, blocks}, {in[0] + r.from}, to, r.n);
            }});
    for (int pieces : {1, 2, 4, 8, 16})
        for (int per_pair : {0, 1})
            methods.push_back({std::string("bcast: scattered and passed on by copies, pieces ") + std::to_string(pieces) + (per_pair ? ", stream per pair" : ""), 'b',
                               [=](int o, size_t n_bytes) {
                range all = slice_of(n_bytes, o ? o : 1);
                for (int p = 0; p < pieces && o > 0; p++) {
                    range r = piece_of(all.n, p, pieces);
                    cudaStream_t from_root = stream(o, 0, 0);
                    copy(from_root, out[o] + all.from + r.from, in[0] + all.from + r.from, r.n);
                    cudaEvent_t there = mark(o, 0, from_root);
                    for (int k = 1, n = 0; k < n_gpus; k++) {
                        int d = next_of(o, k);
                        if (d == 0)
                            continue;
                        cudaStream_t on = stream(o, o, per_pair ? n % STREAMS : 0);
                        if (n == 0 || per_pair)
                            after(on, there);
                        copy(on, out[d] + all.from + r.from, out[o] + all.from + r.from, r.n);
                        n++;
                    }
                }
            }});
    for (int pieces : {8, 16, 32})
        methods.push_back({"bcast: a chain, pieces " + std::to_string(pieces) + " (one thread)", 'b', [=](int o, size_t n_bytes) {
            for (int p = 0; p < pieces && o == 0; p++) {
                range r = piece_of(n_bytes, p, pieces);
                cudaEvent_t there = nullptr;
                for (int g = 0; g + 1 < n_gpus; g++) {
                    cudaStream_t on = stream(0, g, 0);
                    if (there)
                        after(on, there);
                    copy(on, out[g + 1] + r.from, (g ? out[g] : in[0]) + r.from, r.n);
                    there = mark(0, g, on);
                }
            }
        }});
}

/* ---- Single copies, alone and beside each other ---- */

static void add_basics()
{
    methods.push_back({"a copy of a block to the next GPU, alone", '-', [](int o, size_t n) {
        if (o == 0)
            copy(stream(0, 0, 0), out[1], in[0], block_of(n));
    }});
    methods.push_back({"a copy of a block, all to the next", '-', [](int o, size_t n) { copy(stream(o, o, 0), out[next_of(o, 1)], in[o], block_of(n)); }});
    methods.push_back({"a copy of a block, all to the next, pulled", '-', [](int o, size_t n) { copy(stream(o, o, 0), out[o], in[next_of(o, 1)], block_of(n)); }});
    methods.push_back({"copies of a block from one GPU to all others at once", '-', [](int o, size_t n) {
        if (o > 0)
            copy(stream(o, 0, 0), out[o], in[0], block_of(n));
    }});
    methods.push_back({"copies of a block from all others to one GPU", '-', [](int o, size_t n) {
        if (o > 0)
            copy(stream(o, o, 0), out[0] + o * block_of(n), in[o], block_of(n));
    }});
    methods.push_back({"a copy of the own block within each GPU", '-', [](int o, size_t n) { copy(stream(o, o, 0), out[o], in[o], block_of(n)); }});
    methods.push_back({"two copies of half a block to the next, two streams, all", '-', [](int o, size_t n) {
        size_t half = block_of(n) / 2;
        for (int k = 0; k < 2; k++)
            copy(stream(o, o, k), out[next_of(o, 1)] + k * half, in[o] + k * half, half);
    }});
}

static void add_all()
{
    add_basics();
    for (char kind : {'t', 'a'}) {
        for (way how : {PUSH_BY_SOURCE, PULL_BY_DESTINATION, PUSH_BY_DESTINATION})
            for (bool is_staggered : {false, true}) {
                add_copies(kind, how, is_staggered, false, 1);
                if (how != PUSH_BY_DESTINATION)
                    add_copies(kind, how, is_staggered, true, 1);
            }
        for (int pieces : {2, 4, 8})
            add_copies(kind, PUSH_BY_SOURCE, true, false, pieces);
        add_copies(kind, PULL_BY_DESTINATION, true, false, 4);
        for (int pieces : {1, 2, 4})
            add_chained(kind, pieces);
        for (bool is_push : {true, false}) {
            add_kernel(kind, is_push, false, true, 4, 132);
            add_kernel(kind, is_push, false, false, 4, 132);
            for (int blocks : {24, 48, 96, 132, 264, 528}) {
                add_kernel(kind, is_push, true, true, 4, blocks);
                add_kernel(kind, is_push, true, false, 4, blocks);
            }
            add_kernel(kind, is_push, true, true, 8, 132);
            add_kernel(kind, is_push, true, true, 1, 264);
        }
    }
    for (int blocks : {32, 66, 132, 264}) {
        add_kernel_spread(true, 4, blocks);
        add_kernel_spread(false, 4, blocks);
    }
    for (int blocks : {66, 132, 264})
        for (int flight : {1, 2, 4})
            add_two_kernels({PLAIN, 1, 66}, {PLAIN, flight, blocks});
    for (char kind : {'s', 'r'}) {
        for (int blocks : {16, 32, 66, 132, 264, 528}) {
            for (int flight : {1, 2, 4})
                add_reduce(kind, {PLAIN, flight, blocks}, false);
            if (kind == 'r')
                add_reduce(kind, {PLAIN, 4, blocks}, true);
            for (int flight : {1, 2, 4})
                add_reduce(kind, {ROTATED, flight, blocks}, true);
            add_reduce(kind, {TILED, 2, blocks}, true);
        }
        for (int pieces : {1, 2, 4, 8})
            for (char gather : {'p', 'l', 'k'})
                for (char spread : {'c', 'm', 'k'}) {
                    if ((kind == 's' && (spread != 'c' || gather == 'k')) || (gather == 'k' && spread == 'k'))
                        continue;
                    add_pieces(kind, gather, spread, pieces, {PLAIN, 4, 132});
                    if (gather == 'k' || spread == 'k')
                        add_pieces(kind, gather, spread, pieces, {PLAIN, 4, 32});
                }
    }
    add_bcasts();
}

/* ---- Measuring ---- */

static const method *current;
static size_t current_bytes;
static std::atomic<int> generation, n_done;

static void thread_main(int o)
{
    for (int seen = 0;;) {
        while (generation.load() == seen)
            ;
        seen = generation.load();
        if (seen < 0)
            return;
        if (o < n_gpus) {
            current->submit(o, current_bytes);
            wait_owner(o);
        }
        n_done++;
    }
}

static double run_us(const method &m, size_t n_bytes, int n_threads, double *submitted_us)
{
    double start;

    if (n_threads == 1) {
        start = now_us();
        for (int o = 0; o < n_gpus; o++)
            m.submit(o, n_bytes);
        *submitted_us = now_us() - start;
        for (int o = 0; o < n_gpus; o++)
            wait_owner(o);
        return now_us() - start;
    }
    current = &m;
    current_bytes = n_bytes;
    n_done = 0;
    start = now_us();
    generation++;
    while (n_done.load() < n_threads)
        ;
    return now_us() - start;
}

static double median_us(const method &m, size_t n_bytes, int n_threads, int times, double *submitted_us)
{
    std::vector<double> all, submitted;

    for (int i = 0; i < times + 2; i++) {
        double us = 0, total = run_us(m, n_bytes, n_threads, &us);
        if (i >= 2) {
            all.push_back(total);
            submitted.push_back(us);
        }
    }
    std::sort(all.begin(), all.end());
    std::sort(submitted.begin(), submitted.end());
    *submitted_us = submitted[submitted.size() / 2];
    return all[all.size() / 2];
}

/* in[g]'s block b is full of 16 g + b. */
static bool is_right(const method &m)
{
    size_t block = block_of(CHECK_BYTES);
    std::vector<float> host(block / 4);
    double none;

    if (m.result == '-')
        return true;
    for (int g = 0; g < n_gpus; g++) {
        CHECK(cudaSetDevice(g));
        for (int b = 0; b < n_gpus; b++) {
            std::fill(host.begin(), host.end(), (float)(16 * g + b));
            CHECK(cudaMemcpy(in[g] + b * block, host.data(), block, cudaMemcpyDefault));
        }
        CHECK(cudaMemset(out[g], 255, n_gpus * block));
        CHECK(cudaDeviceSynchronize());
    }
    run_us(m, n_gpus * block, 1, &none);
    for (int g = m.result == 'b'; g < n_gpus; g++)
        for (int b = 0; b < (m.result == 's' ? 1 : n_gpus); b++) {
            float expected = 0;
            for (int s = 0; s < n_gpus; s++)
                expected += (float)(16 * s + (m.result == 's' ? g : b));
            expected = m.result == 't' ? (float)(16 * b + g) : m.result == 'a' ? (float)(16 * b) : m.result == 'b' ? (float)b : expected;
            CHECK(cudaMemcpy(host.data(), out[g] + b * block, block, cudaMemcpyDefault));
            for (float value : host)
                if (value != expected)
                    return false;
        }
    return true;
}

/* Is one of these words, with commas between them, in the name? */
static bool is_wanted(const std::string &name, const char *words)
{
    for (std::string left = words; !left.empty();) {
        size_t end = std::min(left.find(','), left.size());
        if (name.find(left.substr(0, end)) != std::string::npos)
            return true;
        left = end < left.size() ? left.substr(end + 1) : "";
    }
    return false;
}

static std::vector<int> numbers(const char *list)
{
    std::vector<int> all;

    for (const char *at = list; at; at = strchr(at, ','))
        all.push_back(atoi(at += *at == ','));
    return all;
}

int main(int argc, char **argv)
{
    int n_devices = 0;
    std::vector<std::thread> threads;
    std::vector<int> counts, sizes = numbers(argc > 2 ? argv[2] : "1,4,16,64,256");
    size_t most = (size_t)*std::max_element(sizes.begin(), sizes.end()) << 20;
    double began = now_us();

    CHECK(cudaGetDeviceCount(&n_devices));
    n_devices = std::min(n_devices, GPUS_MAX);
    counts = numbers(argc > 1 ? argv[1] : std::to_string(n_devices).c_str());
    for (int g = 0; g < n_devices; g++) {
        CHECK(cudaSetDevice(g));
        for (int peer = 0; peer < n_devices; peer++)
            if (peer != g)
                CHECK(cudaDeviceEnablePeerAccess(peer, 0));
        for (char **p : {&in[g], &out[g], &scratch[g]}) {
            CHECK(cudaMalloc(p, most + ((size_t)4 << 20)));
            CHECK(cudaMemset(*p, 0, most));
        }
        CHECK(cudaDeviceSynchronize());
    }
    add_all();
    for (int o = 0; o < n_devices; o++)
        threads.emplace_back(thread_main, o);
    for (int n : counts) {
        n_gpus = n;
        printf("# %d GPUs, us: one thread submits (submission of it; the largest size), a thread per GPU; MiB:", n);
        for (int size : sizes)
            printf(" %d", size);
        printf("\n");
        for (const method &m : methods) {
            double submitted_us = 0, us;
            if (argc > 3 && !is_wanted(m.name, argv[3]))
                continue;
            bool right = is_right(m);
            for (int n_threads : {1, n_devices}) {
                for (int size : sizes) {
                    double none;
                    us = median_us(m, (size_t)size << 20, n_threads, size > 64 ? 5 : 9, n_threads == 1 ? &submitted_us : &none);
                    printf("%5.0f ", us);
                }
                if (n_threads == 1)
                    printf("(%3.0f) ", submitted_us);
            }
            printf("%s%s\n", m.name.c_str(), right ? "" : " WRONG");
            fflush(stdout);
        }
    }
    printf("# %.1f s\n", (now_us() - began) * 1e-6);
    generation = -1;
    for (std::thread &t : threads)
        t.join();
    return 0;
}
