/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pack_methods: ways for kernels to pack and unpack irregular layouts, and many faces of boxes, on one GPU.
 * Medians of 15 runs, in GB/s of packed data beside a copy of the same 64 MiB, and in us for the faces.
 *
 * usage: pack_methods
 * build: nvcc -std=c++17 -O3 -arch=sm_90 -I src [-DGPU_JOBS_PIECE=N -DGPU_JOBS_UNITS=N -DGPU_ODD_CHUNK=N] pack_methods.cu
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "gpu/kernels/job_kernels.h"
#include "gpu/kernels/odd_kernel.h"

#define OK(call)                                                                   \
    do {                                                                           \
        cudaError_t error_ = (call);                                               \
        if (error_ != cudaSuccess) {                                               \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));        \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

GPU_KERNEL(jobs_kernel, struct gpu_kernel_jobs, jobs_body)
GPU_KERNEL(box_kernel, struct gpu_kernel_box, pack_box_body)
GPU_KERNEL(odd_kernel, struct gpu_kernel_odd, pack_odd_body)
GPU_KERNEL(program_kernel, struct gpu_kernel_pack, pack_program_body)

static const size_t PACKED = (size_t)64 << 20;
static char *strided, *packed, *other;

static double median_us(const std::function<void()> &run)
{
    std::vector<double> times;
    cudaEvent_t begin, end;

    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    for (int i = -3; i < 15; i++) {
        float ms;
        OK(cudaEventRecord(begin));
        run();
        OK(cudaEventRecord(end));
        OK(cudaEventSynchronize(end));
        OK(cudaEventElapsedTime(&ms, begin, end));
        if (i >= 0)
            times.push_back(ms * 1e3);
    }
    OK(cudaGetLastError());
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static double copy_us;

static void report(const char *name, size_t n_bytes, const std::function<void()> &run)
{
    double us = median_us(run);

    printf("%-44s %9.1f us %8.0f GB/s %6.1f %% of a copy\n", name, us, n_bytes / us / 1e3, 100 * copy_us / us);
    fflush(stdout);
}

static struct gpu_divisor divisor_by(uint64_t by)
{
    struct gpu_divisor d = {(uint32_t)by, 0, 0};
    unsigned bits = 0;

    if (by == 1)
        return d;
    while (((uint64_t)1 << bits) < by)
        bits++;
    d.mul = (uint32_t)((((uint64_t)1 << (31 + bits)) + by - 1) / by);
    d.shift = bits - 1;
    return d;
}

static unsigned blocks_for(size_t n_warps)
{
    return (unsigned)std::min<size_t>((n_warps + 7) / 8, 4096);
}

template <typename T>
static uint64_t upload(const std::vector<T> &words)
{
    void *memory;

    OK(cudaMalloc(&memory, words.size() * sizeof(T)));
    OK(cudaMemcpy(memory, words.data(), words.size() * sizeof(T), cudaMemcpyHostToDevice));
    return (uint64_t)memory;
}

/* One job: a table of offsets in loops over elements, to or from consecutive memory. */
static struct gpu_kernel_jobs table_jobs(uint64_t offsets, uint32_t unit, uint32_t per_body, int64_t extent,
                                         uint32_t n_units, bool is_pack)
{
    struct gpu_kernel_jobs jobs = {};
    struct gpu_kernel_shape shape = {};
    struct gpu_kernel_places places = {offsets, divisor_by(1), (int32_t)unit};
    struct gpu_kernel_job job = {(uint64_t)(is_pack ? packed : strided), (uint64_t)(is_pack ? strided : packed),
                                 0, n_units, 0, GPU_JOBS_WORDS - GPU_SHAPE_WORDS};

    shape.unit = unit;
    shape.n_dims = 1;
    shape.body = divisor_by(per_body);
    (is_pack ? shape.from : shape.to) = places;
    (is_pack ? shape.from_stride : shape.to_stride)[0] = extent;
    (is_pack ? shape.to_stride : shape.from_stride)[0] = (int64_t)per_body * unit;
    memcpy(jobs.words, &job, sizeof job);
    memcpy(&jobs.words[GPU_JOBS_WORDS - GPU_SHAPE_WORDS], &shape, sizeof shape);
    jobs.n_jobs = 1;
    jobs.n_pieces = (n_units + GPU_JOBS_PIECE - 1) / GPU_JOBS_PIECE;
    return jobs;
}

static void run_jobs(const struct gpu_kernel_jobs &jobs, unsigned most = 4096)
{
    jobs_kernel<<<std::min(blocks_for(jobs.n_pieces), most), 256>>>(jobs);
}

/* ---- Doubles at irregular places ---- */

static void measure_index()
{
    uint32_t n = (uint32_t)(PACKED / 8), state = 1;
    std::vector<int32_t> places(n);
    std::vector<int64_t> words(BASE_NODE_WORDS + n);
    struct base_node *node = (struct base_node *)words.data();
    uint64_t table, program;

    *node = base_node{BASE_NODE_OFFSETS, (int64_t)PACKED, (int64_t)n, 0, 8};
    for (uint32_t i = 0; i < n; i++) {
        state = state * 1103515245u + 12345u;
        places[i] = (int32_t)(2 * i + (state >> 16) % 2);
        node->table[i] = (int64_t)places[i] * 8;
    }
    table = upload(places);
    program = upload(words);
    for (int is_pack = 1; is_pack >= 0; is_pack--) {
        struct gpu_kernel_jobs jobs = table_jobs(table, 8, n, 0, n, is_pack);
        static struct gpu_kernel_pack pack = {};
        char name[64];
        pack.base = (uint64_t)strided;
        pack.flat = (uint64_t)packed;
        pack.n = n;
        pack.unit = 8;
        pack.is_pack = (uint32_t)is_pack;
        pack.size_bytes = (int64_t)PACKED;
        pack.program = program;
        pack.n_words = (int64_t)words.size();
        snprintf(name, sizeof name, "index, %s: program", is_pack ? "pack" : "unpack");
        report(name, PACKED, [&] { program_kernel<<<4096, 256>>>(pack); });
        for (unsigned most : {1056u, 4096u, 65536u}) {
            snprintf(name, sizeof name, "index, %s: table, %u blocks", is_pack ? "pack" : "unpack", most);
            report(name, PACKED, [&] { run_jobs(jobs, most); });
        }
    }
}

/* ---- Every second double: a box ---- */

static void measure_vector()
{
    uint32_t n = (uint32_t)(PACKED / 8);
    struct gpu_kernel_box box = {};

    for (int is_pack = 1; is_pack >= 0; is_pack--) {
        struct gpu_kernel_jobs jobs = table_jobs(0, 8, 1, 16, n, is_pack);
        box.base = (uint64_t)strided;
        box.flat = (uint64_t)packed;
        box.n = n;
        box.unit = 8;
        box.n_dims = 1;
        box.is_pack = (uint8_t)is_pack;
        box.block = divisor_by(1);
        box.stride[0] = 16;
        report(is_pack ? "vec8, pack: box" : "vec8, unpack: box", PACKED, [&] { box_kernel<<<4096, 256>>>(box); });
        report(is_pack ? "vec8, pack: jobs" : "vec8, unpack: jobs", PACKED, [&] { run_jobs(jobs); });
    }
}

/* ---- {double, hole, double, double}: a body of three 8-byte blocks ---- */

static void measure_struct8()
{
    uint32_t n = (uint32_t)(PACKED / 24);
    uint64_t table = upload(std::vector<int32_t>{0, 2, 3});

    for (int is_pack = 1; is_pack >= 0; is_pack--) {
        struct gpu_kernel_jobs jobs = table_jobs(table, 8, 3, 40, 3 * n, is_pack);
        report(is_pack ? "struct of doubles, pack: table" : "struct of doubles, unpack: table", (size_t)n * 24,
               [&] { run_jobs(jobs); });
    }
}

/* ---- {char, double, int}: odd blocks ---- */

/* Ends the program if two kernels leave different bytes. */
static void compare(const char *name, char *memory, size_t n_bytes, const std::function<void()> &one,
                    const std::function<void()> &two)
{
    std::vector<char> first(n_bytes), second(n_bytes);

    OK(cudaMemset(memory, 0x55, n_bytes));
    one();
    OK(cudaMemcpy(first.data(), memory, n_bytes, cudaMemcpyDeviceToHost));
    OK(cudaMemset(memory, 0x55, n_bytes));
    two();
    OK(cudaMemcpy(second.data(), memory, n_bytes, cudaMemcpyDeviceToHost));
    if (first != second) {
        printf("%s: WRONG\n", name);
        exit(1);
    }
}

static void measure_odd()
{
    uint32_t n = (uint32_t)(PACKED / 13) / 16 * 16;
    size_t n_bytes = (size_t)n * 13;
    std::vector<int32_t> bytes;
    static struct gpu_kernel_pack pack = {};
    struct base_node *node = (struct base_node *)pack.words;
    struct base_node_entry *entries = (struct base_node_entry *)node->table;
    struct gpu_kernel_odd odd = {};
    uint64_t table;

    bytes.push_back(0);
    for (int i = 0; i < 12; i++)
        bytes.push_back(8 + i);
    table = upload(bytes);
    *node = base_node{BASE_NODE_BLOCKS, 13, 3, 0, 0};
    entries[0] = {0, 1, 0};
    entries[1] = {8, 8, 1};
    entries[2] = {16, 4, 9};
    odd.base = pack.base = (uint64_t)strided;
    odd.flat = pack.flat = (uint64_t)packed;
    pack.n = n_bytes;
    pack.unit = 1;
    pack.size_bytes = 13;
    pack.extent_bytes = 24;
    pack.n_words = BASE_NODE_WORDS + 9;
    odd.n = (uint32_t)n_bytes;
    odd.n_dims = 1;
    odd.size = divisor_by(13);
    odd.n_blocks = divisor_by(3);
    odd.stride[0] = 24;
    odd.blocks = upload(std::vector<uint64_t>{gpu_odd_word(0, 0), gpu_odd_word(1, 8), gpu_odd_word(9, 16), gpu_odd_word(13, 0)});
    for (int is_pack = 1; is_pack >= 0; is_pack--) {
        struct gpu_kernel_jobs jobs = table_jobs(table, 1, 13, 24, (uint32_t)n_bytes, is_pack);
        char name[64];
        pack.is_pack = odd.is_pack = (uint32_t)is_pack;
        snprintf(name, sizeof name, "struct, %s: program", is_pack ? "pack" : "unpack");
        if (is_pack) {
            std::vector<char> random((size_t)n * 24);
            for (char &byte : random)
                byte = (char)(rand() >> 8);
            OK(cudaMemcpy(strided, random.data(), random.size(), cudaMemcpyHostToDevice));
        }
        compare("shared memory", is_pack ? packed : strided, is_pack ? n_bytes : (size_t)n * 24,
                [&] { program_kernel<<<4096, 256>>>(pack); }, [&] { odd_kernel<<<1056, 256>>>(odd); });
        compare("table of bytes", is_pack ? packed : strided, is_pack ? n_bytes : (size_t)n * 24,
                [&] { program_kernel<<<4096, 256>>>(pack); }, [&] { run_jobs(jobs); });
        report(name, n_bytes, [&] { program_kernel<<<4096, 256>>>(pack); });
        snprintf(name, sizeof name, "struct, %s: table of bytes", is_pack ? "pack" : "unpack");
        report(name, n_bytes, [&] { run_jobs(jobs); });
        for (unsigned most : {1056u, 2112u, 4096u}) {
            snprintf(name, sizeof name, "struct, %s: shared memory, %u blocks", is_pack ? "pack" : "unpack", most);
            report(name, n_bytes, [&] { odd_kernel<<<most, 256>>>(odd); });
        }
    }
}

/* ---- The six faces of 16 boxes of doubles, from layout to layout ---- */

static void measure_faces(int edge, int n_boxes)
{
    static struct gpu_kernel_jobs jobs = {}, one[96];
    struct gpu_kernel_shape shapes[3] = {};
    int64_t row = (int64_t)(edge + 2) * 8, plane = row * (edge + 2);
    size_t n_bytes = (size_t)n_boxes * 6 * edge * edge * 8;
    char name[64];
    int n_jobs = 0;

    jobs = {};
    for (int d = 0; d < 3; d++) {
        struct gpu_kernel_shape &s = shapes[d];
        s.unit = 8;
        s.n_dims = d == 0 ? 2 : d == 1 ? 1 : 1;
        s.body = divisor_by((uint64_t)(d == 0 ? 1 : edge));
        s.to_stride[0] = s.from_stride[0] = d == 0 ? row : d == 1 ? plane : row;
        s.dim[0] = divisor_by((uint64_t)edge);
        s.to_stride[1] = s.from_stride[1] = plane;
        memcpy(&jobs.words[GPU_JOBS_WORDS - (d + 1) * GPU_SHAPE_WORDS], &s, sizeof s);
    }
    for (int box = 0; box < n_boxes; box++)
        for (int face = 0; face < 6; face++, n_jobs++) {
            int64_t first = face / 2 == 0 ? 8 : face / 2 == 1 ? row : plane;
            uint64_t base = (uint64_t)strided + (uint64_t)box * (uint64_t)(plane * (edge + 2));
            struct gpu_kernel_job job = {base, base + (uint64_t)first, 0, (uint32_t)(edge * edge), jobs.n_pieces,
                                         (uint32_t)(GPU_JOBS_WORDS - (face / 2 + 1) * GPU_SHAPE_WORDS)};
            memcpy(&jobs.words[n_jobs * GPU_JOB_WORDS], &job, sizeof job);
            jobs.n_pieces += (job.n + GPU_JOBS_PIECE - 1) / GPU_JOBS_PIECE;
            one[n_jobs] = jobs;
            one[n_jobs].n_jobs = 1;
            job.piece = 0;
            one[n_jobs].n_pieces = (job.n + GPU_JOBS_PIECE - 1) / GPU_JOBS_PIECE;
            memcpy(one[n_jobs].words, &job, sizeof job);
            memcpy(&one[n_jobs].words[GPU_JOBS_WORDS - 3 * GPU_SHAPE_WORDS], &jobs.words[GPU_JOBS_WORDS - 3 * GPU_SHAPE_WORDS],
                   3 * sizeof(struct gpu_kernel_shape));
        }
    jobs.n_jobs = (uint32_t)n_jobs;
    for (unsigned most : {132u, 264u, 528u, 1056u, 4096u}) {
        snprintf(name, sizeof name, "%d boxes of %d^3, faces: one launch, %u blocks", n_boxes, edge, most);
        report(name, n_bytes, [&] { run_jobs(jobs, most); });
    }
    snprintf(name, sizeof name, "%d boxes of %d^3, faces: a launch each", n_boxes, edge);
    report(name, n_bytes, [&] {
        for (int i = 0; i < n_jobs; i++)
            run_jobs(one[i]);
    });
}

int main()
{
    OK(cudaMalloc(&strided, 4 * PACKED));
    OK(cudaMalloc(&packed, PACKED + 4096));
    OK(cudaMalloc(&other, PACKED + 4096));
    printf("pieces of %d units, %d at a time; chunks of %d bytes, many bodies from %d\n", GPU_JOBS_PIECE, GPU_JOBS_UNITS,
           GPU_ODD_CHUNK, GPU_ODD_MANY);
    copy_us = median_us([] { OK(cudaMemcpyAsync(other, packed, PACKED, cudaMemcpyDeviceToDevice)); });
    report("copy", PACKED, [] { OK(cudaMemcpyAsync(other, packed, PACKED, cudaMemcpyDeviceToDevice)); });
    measure_vector();
    measure_index();
    measure_struct8();
    measure_odd();
    measure_faces(96, 16);
    measure_faces(64, 8);
    return 0;
}
