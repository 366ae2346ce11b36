/* backward.cuh - gradients of operators that reduce rows: dx row by row, and in the same pass sums
 * over the rows, column by column, for the gradients of parameters.
 *
 * A family gives a struct F of what its arithmetic needs beside the rows:
 *   enum { SUMS, COLUMNS, SCALARS, OWN, THIRD, WEIGHT }
 *                                          sums over a row; over a column; over all rows, the last
 *                                          OWN of which no row needs; 1 if a third tensor is added
 *                                          to dx; 1 if dy has a weight
 *   struct state                           of a row
 *   state begin(int64_t row)               from saved statistics
 *   float normal(state, x)                 what becomes of an element of x before all else
 *   void sum(m, normal, float (&)[SUMS])   adds an element's part; m: dy times the weight, where
 *                                          there is one
 *   void finish(state &, sums)
 *   float gradient(state, m, normal)       dx of the element
 *   void columns(dy[], normal[], float (&)[COLUMNS][])
 *                                          adds the parts of a chunk, if there are COLUMNS
 *   void scalars(state, sums, double (&)[SCALARS])
 *                                          adds the parts of a row, if there are SCALARS
 *   void own(m, normal, float (&)[OWN])    adds an element's part, if there are OWN
 *
 * Blocks walk over rows, and read the next row while they compute one. Each writes its part of the
 * sums over rows (parts.cuh). */
#ifndef CUDA_BACKWARD_CUH
#define CUDA_BACKWARD_CUH

#include "backward_held.cuh"

/* ---- column sums of rows that are walked: a thread owns a chunk of columns ---- */

enum { COLUMN_THREADS = 128 };

template <class F, class T>
__global__ void __launch_bounds__(COLUMN_THREADS) columns_kernel(const F f, const backward_args a)
{
    const int j = ((int)blockIdx.x * COLUMN_THREADS + (int)threadIdx.x) * V<T>;
    float part[F::COLUMNS][V<T>] = {};
    if (j >= a.n)
        return;
    for (int64_t r = blockIdx.y; r < a.rows; r += gridDim.y) {
        const typename F::state s = f.begin(r);
        row_numbers<F, T, 0> numbers;
        numbers.read(f, s, load(a.dy.row<T>(r) + j, a.n - j), load(a.x.row<T>(r) + j, a.n - j), 0);
        f.columns(numbers.dy[0], numbers.normal[0], part);
    }
#pragma unroll
    for (int m = 0; m < F::COLUMNS; m++)
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            if (j + i < a.n)
                a.partial[((int64_t)blockIdx.y * F::COLUMNS + m) * a.n + j + i] = part[m][i];
}

/* ---- launching ---- */

/* Memory for so many parts, if any sums are asked for. */
template <int COLUMNS, int SCALARS>
static tg_status take_partial(tg_ctx *ctx, int64_t count, int64_t scalar_count, bool wanted,
                              backward_args *a, part_args<COLUMNS, SCALARS> *sums)
{
    if (!wanted)
        return TG_OK;
    const tg_status status = take_parts(ctx, count, scalar_count, sums);
    a->partial = COLUMNS ? (float *)sums->columns : NULL;
    a->scalars = SCALARS ? (double *)sums->scalars : NULL;
    return status;
}

/* Chunks of a thread in shared memory: of its rows, or afterwards of sums. */
template <class F, class T, int K> static int chunks_of_thread()
{
    const int rows = gradient_rows<F, T, K>::CHUNKS, part = K * V<T> / 4,
              sums = F::COLUMNS == 0 ? 0
                     : ARE_FEW<K>    ? (1 + F::COLUMNS) * part
                                     : part;
    return rows > sums ? rows : sums;
}

/* Rows that are held: *parts tells whether sums are left in parts. Few blocks are one cluster,
 * which leaves none. Returns false if the card has no room for a row. */
template <class F, class T, int K>
static bool launch_held(const cuda_call &call, const F &f, backward_args a, bool *parts,
                        backward_sums<F> *sums, tg_status *status)
{
    static kernel_room known;
    const int ranks = most_ranks(call);
    row_shape s =
        shape_rows(a.rows, chunks_of_row<T>(a.n), K, STREAM_THREADS, ranks, STREAM_THREADS);
    const size_t shared = bytes_of_chunks(s, chunks_of_thread<F, T, K>());
    const auto kernel = backward_kernel<F, T, K>;
    const int room = s.held ? room_for(call, s, shared, &known, kernel) : -1;
    if (room < 0)
        return false;
    const int64_t blocks = blocks_of<T>(s, room);
    a.lanes = lanes_of(call, s.lanes);
    a.merged = *parts && ARE_FEW<K> && s.ranks == 1 && blocks > 0 && blocks <= ranks;
    *parts = *parts && !a.merged;
    *status = take_partial(call.ctx, blocks / s.ranks, blocks, *parts, &a, sums);
    if (a.merged)
        s.ranks = (int)blocks;
    if (*status == TG_OK && a.rows > 0)
        launch_rows(call, s, blocks, shared, kernel, f, a, *sums);
    return true;
}

/* Rows that are walked: the columns first, since dx may overwrite dy. */
template <class F, class T>
static tg_status launch_walked(const cuda_call &call, const F &f, backward_args a, bool wanted,
                               backward_sums<F> *sums)
{
    const int64_t across = ceil_div(ceil_div(a.n, V<T>), COLUMN_THREADS);
    const int64_t down = min_of(a.rows, ceil_div((int64_t)call.processors * 8, across));
    const int64_t blocks =
        min_of(F::SCALARS > 0 ? (int64_t)call.processors * 8 : INT32_MAX, a.rows);
    const tg_status status = take_partial(call.ctx, down, blocks, wanted, &a, sums);
    if (status != TG_OK || a.rows == 0)
        return status;
    if constexpr (F::COLUMNS > 0)
        if (wanted)
            columns_kernel<F, T>
                <<<dim3((unsigned)across, (unsigned)down), COLUMN_THREADS, 0, call.stream>>>(f, a);
    a.lanes = lanes_of(call, STREAM_THREADS);
    backward_kernel<F, T, 0><<<(unsigned)blocks, STREAM_THREADS, 0, call.stream>>>(f, a, *sums);
    return TG_OK;
}

/* dx and sums. a: rows, n and the tensors; columns, scalars: where the sums go, NULL each if not
 * asked for. */
template <class F, class T>
static tg_status backward_rows(const cuda_call &call, const F &f, const backward_args &a,
                               const tg_tensor *const *columns, const scalar_span *scalars,
                               int accumulate)
{
    backward_sums<F> sums = {};
    sums.n = a.n;
    sums.accumulate = accumulate;
    for (int i = 0; i < F::COLUMNS; i++)
        sums.out[i] = vector_of(columns[i]);
    for (int i = 0; i < F::SCALARS; i++)
        sums.scalar_out[i] = scalars[i];
    bool parts = asks_for_sums(sums);
    tg_status status = check_width(call.op, a.n);
    if (status != TG_OK || (a.n == 0 && F::SCALARS == 0))
        return status;
    if (!(suits_some<T>(chunks_of_row<T>(a.n)) &&
          launch_held<F, T, SOME_OF<T>>(call, f, a, &parts, &sums, &status)) &&
        !launch_held<F, T, FEW>(call, f, a, &parts, &sums, &status) &&
        !launch_held<F, T, HELD>(call, f, a, &parts, &sums, &status))
        status = launch_walked<F, T>(call, f, a, parts, &sums);
    if constexpr (F::COLUMNS + F::SCALARS > 0)
        if (status == TG_OK && parts)
            sum_parts<T>(call, sums);
    return status;
}

#endif
