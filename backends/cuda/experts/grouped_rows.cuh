/* grouped_rows.cuh - c = a b[e] for the rows of each expert, on GPUs of compute capability 9.0: the
 * tiles of products/gemm_wgmma_tile.cuh over the list of grouped_jobs.cuh. Rows of a may be
 * gathered while they are loaded. */
#ifndef CUDA_GROUPED_ROWS_CUH
#define CUDA_GROUPED_ROWS_CUH

#include "grouped_jobs.cuh"
#include "moe_gate.cuh"

/* A matrix whose rows are written, and how its boxes of 64 rows are copied. */
struct out_rows {
    CUtensorMap map;
    char *data;
    int64_t stride; /* bytes */
    int width;      /* elements, a multiple of 8 */
};

/* How the matrices of experts lie: rows of columns of the result, k contiguous; rows of k; the same
 * two, where a tile has columns of the first half of all and those of the second half in turn, 8 by
 * 8 and 64 by 64. */
enum b_layout { B_LINES, B_ACROSS_K, B_HALVES, B_HALVES_ACROSS };

template <int LAYOUT> constexpr bool IS_ACROSS = LAYOUT == B_ACROSS_K || LAYOUT == B_HALVES_ACROSS;
template <int LAYOUT> constexpr bool HAS_HALVES = LAYOUT == B_HALVES || LAYOUT == B_HALVES_ACROSS;

/* What becomes of a tile's sums: of gates those of silu alone, or with all options; PAIRED:
 * gradients whose g and u are neighbours. */
enum results_kind {
    PLAIN,
    BIASED,
    GATES,
    ANY_GATES,
    GATE_GRADIENTS,
    ANY_GRADIENTS,
    PAIRED_GRADIENTS
};

struct grouped_rows {
    CUtensorMap a, b;
    job_list list;
    int *taken;         /* the list's counter for this launch */
    int columns, steps; /* tiles, along k */
    int half;           /* columns of a half, where there are halves */
    /* rows of a that are gathered: row i is row gather[i] / per of `from`, `stride` bytes apart, of
     * `bytes` */
    const char *from;
    const int64_t *gather; /* NULL: row i itself */
    unsigned per, most;    /* no row behind `most` is read */
    int64_t stride;
    int bytes;
    out_rows c[3];
    vector_span bias; /* [experts, bias_width], from column bias_first on; absent: none */
    int64_t bias_width, bias_first;
    gate_options gate; /* ANY_GATES, ANY_GRADIENTS, PAIRED_GRADIENTS */
    /* gradients: both halves, and what grouped_gates.cuh makes of them */
    CUtensorMap pre[2];
    const int64_t *slot;
    vector_span weights; /* by slot; absent: ones */
    float *scores;       /* [columns, rows]: sums of a tile's columns */
    int64_t rows;
};

#if HAS_WGMMA

/* A group's own barrier, for what else comes by copies of tiles. */
__device__ __forceinline__ uint32_t came_barrier(const product_memory &m, int group)
{
    return m.empty + 8 * (STAGES + group);
}

/* ---- jobs: a cluster takes one after the other by a counter, so that all are busy to the end. One
 * thread of the cluster takes the next while its blocks work on one, and sends it to both. ---- */

enum { TICKETS = 8 /* more than a block's loads can be ahead of its products */ };

__device__ __forceinline__ uint32_t ticket_barrier(const product_memory &m, int n)
{
    return m.empty + 8 * (STAGES + GROUPS + n % TICKETS);
}

__device__ __forceinline__ uint32_t ticket_place(const product_memory &m, int n)
{
    return m.empty + 8 * (STAGES + GROUPS + TICKETS) + 16 * (n % TICKETS);
}

/* announces: this thread does so for its block. */
__device__ __forceinline__ job read_ticket(const product_memory &m, int n, bool announces)
{
    job j;
    if (announces)
        arrive_and_expect(ticket_barrier(m, n), 16);
    wait_barrier(ticket_barrier(m, n), n / TICKETS & 1);
    asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(j.expert), "=r"(j.row), "=r"(j.rows), "=r"(j.column)
                 : "r"(ticket_place(m, n))
                 : "memory");
    return j;
}

/* The second of two columns that both blocks have at the same time is no job. */
__device__ __forceinline__ bool is_second(const job &j)
{
    return j.rows > 0 && is_alone(j) && j.column % CLUSTER != 0;
}

__device__ __forceinline__ void send_ticket(const grouped_rows &p, const product_memory &m, int n,
                                            int taken)
{
    const int clusters = (int)gridDim.x / CLUSTER;
    job j = job_of(p.list, p.columns, clusters + taken);
    while (is_second(j))
        j = job_of(p.list, p.columns, clusters + atomicAdd(p.taken, 1));
    for (int block = 0; block < CLUSTER; block++)
        send_16(ticket_place(m, n), make_int4(j.expert, j.row, j.rows, j.column),
                ticket_barrier(m, n), block);
}

/* each(job): those of this block, with the column that is its own. */
template <class EACH>
__device__ __forceinline__ void for_jobs(const grouped_rows &p, const product_memory &m,
                                         const EACH &each)
{
    const int block = cluster_rank();
    const bool announces = threadIdx.x == 0, leads = announces && block == 0;
    job j = job_of(p.list, p.columns, (int)blockIdx.x / CLUSTER);
    for (int n = 0; j.rows > 0; n++) {
        int taken = 0;
        if (leads)
            taken = atomicAdd(p.taken, 1);
        if (!is_second(j)) {
            j.column += is_alone(j) ? block : 0;
            each(j);
        }
        if (leads)
            send_ticket(p, m, n, taken);
        j = read_ticket(m, n, announces);
    }
}

/* ---- loads ---- */

/* SHARE columns of b, from so many tiles' halves on. */
template <int LAYOUT>
__device__ __forceinline__ void load_share(const grouped_rows &p, bool shared, uint32_t to,
                                           const job &j, int half, int k, uint32_t full)
{
    if constexpr (LAYOUT == B_HALVES) {
        const int line = j.expert * (p.half / 4) + (j.column * TILE_N + half * SHARE) / 16;
        if (shared)
            load_tile_to((1 << CLUSTER) - 1, to, &p.b, k, 0, 0, line, full);
        else
            load_tile(to, &p.b, k, 0, 0, line, full);
    } else if constexpr (LAYOUT == B_HALVES_ACROSS) {
        for (int i = 0; i < 2; i++)
            load_box(shared, to + i * BLOCK, &p.b,
                     i * p.half + (j.column * TILE_N + half * SHARE) / 2, k,
                     batch_place{0, 0, j.expert}, full);
    } else {
        load_lines<LAYOUT == B_ACROSS_K, SHARE>(shared, to, &p.b, j.column * TILE_N + half * SHARE,
                                                k, batch_place{0, 0, j.expert}, full);
    }
}

template <int LAYOUT>
__device__ __forceinline__ void load_b(const grouped_rows &p, const product_memory &m, int stage,
                                       const job &j, int block, int k)
{
    const uint32_t full = m.full + 8 * stage;
    if (!is_alone(j)) {
        load_share<LAYOUT>(p, true, m.b(stage) + block * (SHARE * TILE_K * 2), j, block, k, full);
        return;
    }
    for (int half = 0; half < TILE_N / SHARE; half++)
        load_share<LAYOUT>(p, false, m.b(stage) + half * (SHARE * TILE_K * 2), j, half, k, full);
}

/* By one thread: rows of a in their order. */
template <int LAYOUT>
__device__ __forceinline__ void copy_rows(const grouped_rows &p, const product_memory &m)
{
    const int block = cluster_rank();
    ring r = {0, 0};
    for_jobs(p, m, [&](const job &j) {
        const int groups = (rows_of_group(j, block, 0) > 0) + (rows_of_group(j, block, 1) > 0);
        for (int k = 0; k < p.steps; k++) {
            const uint32_t full = m.full + 8 * r.stage;
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
            arrive_and_expect(full, TILE_N * TILE_K * 2 + groups * BLOCK);
            for (int g = 0; g < groups; g++)
                load_tile(m.a(r.stage) + g * BLOCK, &p.a, k * TILE_K,
                          j.row + first_row_of(j, block, g), full);
            load_b<LAYOUT>(p, m, r.stage, j, block, k * TILE_K);
            r.step();
        }
    });
}

/* By four warps: rows of a from where they are. Of each row 8 threads have 16 bytes each. */
template <int LAYOUT>
__device__ __forceinline__ void gather_rows(const grouped_rows &p, const product_memory &m)
{
    enum { EACH = TILE_M * 8 / GROUP, APART = GROUP / 8 };
    const int block = cluster_rank(), thread = (int)threadIdx.x;
    const int chunk = thread % 8, line = thread / 8;
    const uint32_t own = line * LINE_BYTES + (chunk ^ line % 8) * 16;
    ring r = {0, 0};
    for_jobs(p, m, [&](const job &j) {
        const int groups = (rows_of_group(j, block, 0) > 0) + (rows_of_group(j, block, 1) > 0);
        unsigned rows[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int l = line + i * APART;
            const int at = j.row + min(j.rows - 1, first_row_of(j, block, l / ROWS) + l % ROWS);
            rows[i] = min(p.most, p.gather ? (unsigned)p.gather[at] / p.per : (unsigned)at);
        }
        for (int k = 0; k < p.steps; k++) {
            const uint32_t full = m.full + 8 * r.stage;
            wait_barrier(m.empty + 8 * r.stage, r.phase ^ 1);
            if (thread == 0) {
                arrive_and_expect(full, TILE_N * TILE_K * 2);
                load_b<LAYOUT>(p, m, r.stage, j, block, k * TILE_K);
            }
            const int at = k * (TILE_K * 2) + chunk * 16, inside = at < p.bytes ? 16 : 0;
            const char *const from = p.from + (inside ? at : 0);
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if (i < EACH / 2 || groups > 1)
                    load_16(m.a(r.stage) + own + i * (APART * LINE_BYTES),
                            from + rows[i] * p.stride, inside);
            arrive_when_loaded(full);
            r.step();
        }
    });
}

/* ---- results on their way out ---- */

/* Where a line of 128 bytes of 64 rows goes. */
struct line_place {
    const out_rows &to;
    int column;
};

/* A part: 64 rows, of which `rows` are written, of two lines; v: the thread's pairs of elements of
 * 16 bits, or elements of 32. */
template <class V>
__device__ __forceinline__ void send_lines(const line_place (&lines)[2], const V *v, int row,
                                           int rows, uint32_t staged)
{
    enum { BYTES = std::is_same<V, float>::value ? 4 : 2 };
    if (rows == ROWS) {
        send_part([&] { stage_part(v, staged); },
                  [&] {
#pragma unroll
                      for (int i = 0; i < 2; i++)
                          if (lines[i].column < lines[i].to.width)
                              store_tile(&lines[i].to.map, lines[i].column, row,
                                         staged + i * BLOCK);
                  });
        return;
    }
    if (threadIdx.x % GROUP == 0)
        wait_for_stores_to_read();
    group_barrier();
    stage_part(v, staged);
    group_barrier();
    const int chunk = (int)threadIdx.x % 8, first = (int)threadIdx.x % GROUP / 8;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const out_rows &to = lines[n].to;
        const int at = lines[n].column + chunk * (16 / BYTES);
        for (int i = first; i < rows && at < to.width; i += GROUP / 8) {
            uint4 x;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                         : "r"(staged + n * BLOCK + i * LINE_BYTES + (chunk ^ i % 8) * 16));
            *(uint4 *)(to.data + (row + i) * to.stride + at * BYTES) = x;
        }
    }
}

/* The same of lines side by side. */
template <class V>
__device__ __forceinline__ void send_rows(const out_rows &to, const V *v, int row, int rows,
                                          int column, uint32_t staged)
{
    const int wide = std::is_same<V, float>::value ? LINE_BYTES / 4 : LINE_BYTES / 2;
    send_lines({{to, column}, {to, column + wide}}, v, row, rows, staged);
}

/* Two parts of 128 columns, which are written while the next tile is multiplied. */
struct waiting_parts {
    uint32_t pairs[64], staged;
    int row, rows;
    int waits;

    __device__ __forceinline__ void start(const product_memory &m, int group)
    {
        staged = m.results + group * STAGED;
        waits = 0;
    }

    __device__ __forceinline__ void send(const out_rows &a, int a_column, const out_rows &b,
                                         int b_column, int turn)
    {
        if (!waits)
            return;
        if (turn == 0)
            send_rows(a, pairs, row, rows, a_column, staged);
        if (turn == 1) {
            send_rows(b, pairs + 32, row, rows, b_column, staged);
            waits = 0;
        }
    }
};

/* start(): once. begin(): before a tile, whose first row of this group's and their number are
 * given. turn(k): beside step k of its products. finish(): with its sums. last(): at the end. */
template <class T, int KIND, int LAYOUT> struct results;

/* The thread's number of a column, from the first of its pair on. */
__device__ __forceinline__ int lane_column()
{
    return (int)threadIdx.x % 4 * 2;
}

/* Of an expert's column, which may lie behind the last one. */
template <class T>
__device__ __forceinline__ float bias_of(const grouped_rows &p, const job &j, int64_t column)
{
    return get<T>(p.bias, j.expert * p.bias_width + min(p.bias_first + column, p.bias_width - 1));
}

/* The sums as they are. */
template <class T, int LAYOUT> struct results<T, PLAIN, LAYOUT> {
    waiting_parts w;
    int column;

    __device__ __forceinline__ void start(const product_memory &m, int group)
    {
        w.start(m, group);
    }

    __device__ __forceinline__ void begin(const grouped_rows &, const job &, int, int)
    {
    }

    __device__ __forceinline__ void last(const grouped_rows &p)
    {
        turn(p, 0);
        turn(p, 1);
    }

    __device__ __forceinline__ void turn(const grouped_rows &p, int k)
    {
        w.send(p.c[0], column, p.c[0], column + 128, k);
    }

    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
        column = j.column * TILE_N;
#pragma unroll
        for (int i = 0; i < 64; i++)
            w.pairs[i] = narrow_pair<T>(d[2 * i], d[2 * i + 1]);
        w.row = row;
        w.rows = rows;
        w.waits = 1;
    }
};

/* The same with a bias. */
template <class T, int LAYOUT> struct results<T, BIASED, LAYOUT> : results<T, PLAIN, LAYOUT> {
    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
#pragma unroll
        for (int i = 0; i < 128; i += 4) {
            const int at = j.column * TILE_N + i * 2 + lane_column();
            const float left = bias_of<T>(p, j, at), right = bias_of<T>(p, j, at + 1);
            d[i] += left, d[i + 2] += left;
            d[i + 1] += right, d[i + 3] += right;
        }
        results<T, PLAIN, LAYOUT>::finish(p, j, d, row, rows);
    }
};

/* ---- the kernel ---- */

template <class T, int LAYOUT, int GATHER, int KIND>
__device__ __forceinline__ void make_rows(const grouped_rows &p, const product_memory &m)
{
    const int block = cluster_rank(), group = (int)threadIdx.x / GROUP - 1;
    ring r = {0, 0};
    results<T, KIND, LAYOUT> out;
    out.start(m, group);
    for_jobs(p, m, [&](const job &j) {
        const int rows = rows_of_group(j, block, group),
                  row = j.row + first_row_of(j, block, group);
        if (rows == 0) {
            for (int k = 0; k < p.steps; k++) {
                wait_barrier(m.full + 8 * r.stage, r.phase);
                release(m, r.stage);
                r.step();
            }
            return;
        }
        float d[128];
        out.begin(p, j, row, rows);
        multiply_tile<T, 0, IS_ACROSS<LAYOUT>, GATHER>(
            d, m, group, p.steps, r, [&](int k) { out.turn(p, k); },
            rows_of_group(j, block, GROUPS - 1) > 0);
        if (p.steps < 2)
            out.turn(p, 1);
        out.finish(p, j, d, row, rows);
    });
    out.last(p);
    if (threadIdx.x % GROUP == 0)
        wait_for_stores();
}

/* What a block does. LOADERS: threads that arrive where a stage is loaded. load(memory): the first
 * group, make(memory): the others. */
template <int LOADERS_REGISTERS = 40, class LOAD, class MAKE>
__device__ __forceinline__ void run_grouped(int loaders, const LOAD &load, const MAKE &make)
{
    extern __shared__ char memory[];
    __shared__ __align__(16) uint64_t barriers[2 * STAGES + GROUPS + 3 * TICKETS];
    const uint32_t tiles = (shared_address(memory) + 1023) & ~1023u;
    const uint32_t full = shared_address(barriers);
    const product_memory m = {full, full + 8 * STAGES, tiles, tiles + STAGES * STAGE};
    if (threadIdx.x == 0) {
        for (int i = 0; i < GROUPS; i++)
            init_barrier(came_barrier(m, i), 1);
        for (int i = 0; i < TICKETS; i++)
            init_barrier(ticket_barrier(m, i), 1);
        for (int i = 0; i < STAGES; i++) {
            init_barrier(m.full + 8 * i, loaders);
            init_barrier(m.empty + 8 * i, CLUSTER * GROUPS);
        }
        fence_barriers();
    }
    cluster_barrier();
    if (threadIdx.x < GROUP) {
        fewer_registers<LOADERS_REGISTERS>();
        load(m);
    } else {
        more_registers<252 - LOADERS_REGISTERS / 2>();
        make(m);
    }
    cluster_barrier(); /* no block ends while the other one may write to it */
}
#endif

template <class T, int LAYOUT, int GATHER, int KIND>
__global__ void __launch_bounds__(PRODUCT_THREADS, 1)
    rows_kernel(const __grid_constant__ grouped_rows p)
{
#if HAS_WGMMA
    run_grouped(
        GATHER ? 1 + GROUP : 1,
        [&](const product_memory &m) {
            if constexpr (GATHER)
                gather_rows<LAYOUT>(p, m);
            else if (threadIdx.x == 0)
                copy_rows<LAYOUT>(p, m);
        },
        [&](const product_memory &m) { make_rows<T, LAYOUT, GATHER, KIND>(p, m); });
#else
    (void)p;
#endif
}

#endif
