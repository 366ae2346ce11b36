/* grouped_jobs.cuh - which rows belong to which expert, as products of groups of rows are dealt out
 * on the card: nothing of it comes to the host. */
#ifndef CUDA_GROUPED_JOBS_CUH
#define CUDA_GROUPED_JOBS_CUH

#include "products/gemm_wgmma.cuh"
#include "rows/indices.cuh"

enum {
    TOGETHER = 8,        /* pairs of tiles of an expert that are worked on at the same time */
    JOB_THREADS = 1024,  /* of the block that makes the list */
    MOST_EXPERTS = 8192, /* whose counts are in shared memory */
    MOST_LAUNCHES = 256, /* that work through one list */
    JOBS_HEAD = 1 + MOST_LAUNCHES / 4, /* entries before those of pairs */
    REST_THREADS = 256,
    ROWS = 64 /* of a group of threads */
};

/* The list: how many pairs there are, in x of its first entry, MOST_LAUNCHES counters of jobs that
 * are taken, and behind that an entry for each pair: expert, the first of the pairs that belong
 * together, that pair's first row, and the expert's end. Experts in their order, each expert's rows
 * in pairs of PAIR, the last of fewer rows. */
typedef const int4 *job_list;

/* The most pairs, in entries of the list. `pair`: rows of one. */
static inline int64_t most_jobs(int64_t rows, int64_t experts, int64_t pair = PAIR)
{
    return rows / pair + min_of(rows, experts);
}

static inline int64_t bytes_of_jobs(int64_t rows, int64_t experts, int64_t pair = PAIR)
{
    return (JOBS_HEAD + most_jobs(rows, experts, pair)) * (int64_t)sizeof(int4);
}

/* Rows `row` to row + rows of an expert and a tile's column of the result. */
struct job {
    int expert, row, rows, column;
};

/* The sum of v over the threads before this one, and in *all over all. */
static __device__ __forceinline__ int sum_before(int v, int *all)
{
    __shared__ int sums[JOB_THREADS / 32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int sum = v;
    for (int i = 1; i < 32; i *= 2) {
        const int other = __shfl_up_sync(~0u, sum, i);
        sum += lane >= i ? other : 0;
    }
    if (lane == 31)
        sums[warp] = sum;
    __syncthreads();
    int before = 0;
    *all = 0;
    for (int i = 0; i < JOB_THREADS / 32; i++) {
        before += i < warp ? sums[i] : 0;
        *all += sums[i];
    }
    __syncthreads();
    return before + sum - v;
}

/* One block. Offsets that are not in order count as no rows. */
static __global__ void __launch_bounds__(JOB_THREADS)
    jobs_kernel(const int64_t *offset, int experts, int rows, int pair, int together, int4 *list)
{
    extern __shared__ int firsts[];
    int pairs = 0;
    for (int i = (int)threadIdx.x; i < MOST_LAUNCHES; i += JOB_THREADS)
        ((int *)(list + 1))[i] = 0;
    for (int e0 = 0; e0 < experts; e0 += JOB_THREADS) {
        const int e = e0 + (int)threadIdx.x;
        int own = 0, all;
        if (e < experts && offset[e] >= 0 && offset[e] < offset[e + 1] && offset[e + 1] <= rows)
            own = (int)((offset[e + 1] - offset[e] + pair - 1) / pair);
        const int first = pairs + sum_before(own, &all);
        if (e < experts)
            firsts[e] = first;
        pairs += all;
    }
    if (threadIdx.x == 0) {
        firsts[experts] = pairs;
        list[0] = make_int4(pairs, 0, 0, 0);
    }
    __syncthreads();
    for (int e = (int)threadIdx.x / 32; e < experts; e += JOB_THREADS / 32) {
        const int first = firsts[e], count = firsts[e + 1] - first;
        for (int i = (int)threadIdx.x % 32; i < count; i += 32) {
            const int head = i / together * together;
            list[JOBS_HEAD + first + i] =
                make_int4(e, first + head, (int)offset[e] + head * pair, (int)offset[e + 1]);
        }
    }
}

static inline void launch_jobs(cudaStream_t stream, const int64_t *offset, int experts, int rows,
                               int4 *list, int pair = PAIR, int together = TOGETHER)
{
    jobs_kernel<<<1, JOB_THREADS, (experts + 1) * sizeof(int), stream>>>(offset, experts, rows,
                                                                         pair, together, list);
}

/* Rows from *first on become 0. */
template <class T>
__global__ void __launch_bounds__(REST_THREADS)
    rest_kernel(const row_span to, const int64_t *first, int64_t rows, int64_t width)
{
    for (int64_t r = max((int64_t)0, *first) + blockIdx.x; r < rows; r += gridDim.x)
        for (int64_t j = (int64_t)threadIdx.x * V<T>; j < width; j += REST_THREADS * V<T>)
            store(to.row<T>(r) + j, width - j, make_uint4(0, 0, 0, 0));
}

template <class T>
static void launch_rest(const cuda_call &call, const row_span &to, const int64_t *first,
                        int64_t rows, int64_t width)
{
    if (to.data && rows > 0 && width > 0)
        rest_kernel<T><<<call.processors, REST_THREADS, 0, call.stream>>>(to, first, rows, width);
}

/* The rows that numbers stand for: number / per, of `count`, none of which is out of range. */
struct taken_rows {
    int *rows; /* NULL: not asked for */
    int64_t per, count;
};

/* Numbers up to *count are told of where they are out of range; so are offsets, [experts + 1], that
 * do not ascend. */
static __global__ void __launch_bounds__(REST_THREADS)
    check_kernel(const int64_t *numbers, const int64_t *count, int64_t most,
                 const index_range range, const taken_rows taken)
{
    const int64_t end = min(most, *count);
    for (int64_t i = (int64_t)blockIdx.x * REST_THREADS + threadIdx.x; i < end;
         i += (int64_t)gridDim.x * REST_THREADS) {
        const bool holds = range.holds(i, numbers[i], true);
        if (taken.rows)
            taken.rows[i] =
                holds ? (int)min(taken.count - 1, numbers[i] / taken.per) : (int)taken.count - 1;
    }
}

static __global__ void __launch_bounds__(REST_THREADS)
    check_offsets_kernel(const int64_t *offset, int64_t experts, const index_range range)
{
    for (int64_t e = threadIdx.x; e <= experts; e += REST_THREADS) {
        const int64_t at = offset[e];
        index_range own = range;
        if (e > 0 && at < offset[e - 1])
            own.count = at; /* it is below the one before */
        own.holds(e, e == 0 && at != 0 ? -1 : at, true);
    }
}

static inline void check_offsets(const cuda_call &call, const int64_t *offset, int64_t experts,
                                 int64_t rows)
{
    check_offsets_kernel<<<1, REST_THREADS, 0, call.stream>>>(offset, experts,
                                                              range_of(call, "offset", rows + 1));
}

/* `end`: how many of at most so many numbers are looked at. */
static inline void check_numbers(const cuda_call &call, const char *argument,
                                 const int64_t *numbers, const int64_t *end, int64_t most,
                                 int64_t count, const taken_rows &taken = {})
{
    if (most > 0)
        check_kernel<<<call.processors, REST_THREADS, 0, call.stream>>>(
            numbers, end, most, range_of(call, argument, count), taken);
}

/* Of a pair's rows the blocks of the cluster have 64 each in turn, so that both have some where
 * there are more than 64; up to 64 rows both blocks have, for columns of their own. Where those of
 * a block's group begin, and how many there are. */
__device__ __forceinline__ bool is_alone(const job &j)
{
    return j.rows <= ROWS;
}

__device__ __forceinline__ int first_row_of(const job &j, int block, int group)
{
    return is_alone(j) ? group * ROWS : (group * CLUSTER + block) * ROWS;
}

__device__ __forceinline__ int rows_of_group(const job &j, int block, int group)
{
    return max(0, min((int)ROWS, j.rows - first_row_of(j, block, group)));
}

/* Job number t of `columns` tiles side by side; no rows: there is none, or it is done with the tile
 * before it. */
__device__ __forceinline__ job job_of(job_list list, int columns, int t)
{
    if (t >= list[0].x * columns)
        return job{0, 0, 0, 0};
    const int4 entry = list[JOBS_HEAD + t / columns];
    const int pairs = min((int)TOGETHER, (entry.w - entry.z + PAIR - 1) / PAIR);
    const int at = t - entry.y * columns, row = entry.z + at % pairs * PAIR;
    job j = {entry.x, row, min((int)PAIR, entry.w - row), at / pairs};
    return j;
}

#endif
