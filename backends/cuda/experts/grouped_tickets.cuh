/* grouped_tickets.cuh - what a product of groups of rows is given, and how its jobs are dealt out
 * to clusters, on GPUs of compute capability 9.0. */
#ifndef CUDA_GROUPED_TICKETS_CUH
#define CUDA_GROUPED_TICKETS_CUH

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
#endif

#endif
