/* gemm_symmetric.cu - large products that are symmetric: rows of blocks up to the diagonal, each a
 * call of batched_gemm, and then what is above the diagonal from below it. */
#include "gemm_series.h"
#include "gemm_triangle.cuh"
#include "rows/elements.cuh"

enum {
    ROWS_UNIT = 256, /* rows of a block are so many times a number */
    MOST_ROWS = 8,   /* rows of blocks, about */
    MIRROR_TILE = 32,
    MIRROR_LINES = 8 /* that a block of threads moves at a time */
};

/* ---- rows of blocks ---- */

/* A part of a tensor's matrices: `rows` from `row` on, `columns` from `column` on. */
struct gemm_part {
    tg_tensor t;
    int64_t shape[TG_MAX_NDIM], strides[TG_MAX_NDIM];

    tg_tensor *set(const tg_tensor *of, int64_t row, int64_t rows, int64_t column, int64_t columns)
    {
        if (!of)
            return NULL;
        t = *of;
        for (int i = 0; i < of->ndim; i++) {
            shape[i] = of->shape[i];
            strides[i] = tg_stride(of, i);
        }
        shape[of->ndim - 2] = rows;
        shape[of->ndim - 1] = columns;
        t.shape = shape;
        t.strides = strides;
        t.byte_offset +=
            (uint64_t)(row * strides[of->ndim - 2] + column) * tg_type_size(tg_type_of(of));
        return &t;
    }
};

static tg_status multiply_rows(tg_ctx *ctx, const tg_batched_gemm_args *args, int64_t row,
                               int64_t rows)
{
    const int64_t columns = row + rows, a_rows = matrix_rows(args->a),
                  a_columns = width_of(args->a);
    gemm_part a, b, addend, c;
    tg_batched_gemm_args one = *args;
    one.a = args->trans_a ? a.set(args->a, 0, a_rows, row, rows)
                          : a.set(args->a, row, rows, 0, a_columns);
    one.b = args->trans_b ? b.set(args->b, 0, columns, 0, width_of(args->b))
                          : b.set(args->b, 0, matrix_rows(args->b), 0, columns);
    one.addend = addend.set(args->addend, row, rows, 0, columns);
    one.c = c.set(args->c, row, rows, 0, columns);
    one.alpha = TG_VALUE(args->alpha);
    one.symmetric = 0;
    return cuda_host->call(ctx, "batched_gemm", &one);
}

/* ---- what is above the diagonal ---- */

/* The matrices of c by their number; sizes and strides of leading dimensions, the last one
 * first. */
struct mirror_job {
    char *c;
    int64_t n, stride, tiles; /* tiles: of a side */
    int dims;
    int64_t size[TG_MAX_NDIM], step[TG_MAX_NDIM];
};

/* A block of threads turns a tile. C: an integer of the elements' size. */
template <class C>
__global__ void __launch_bounds__(MIRROR_TILE *MIRROR_LINES) mirror_kernel(const mirror_job m)
{
    __shared__ C tile[MIRROR_TILE][MIRROR_TILE + 1];
    const int64_t of_matrix = tiles_of_triangle(m.tiles);
    int64_t matrix = blockIdx.x / of_matrix, offset = 0;
    int tile_row, tile_column;
    place_of_tile((int)(blockIdx.x % of_matrix), tile_row, tile_column);
    for (int i = 0; i < m.dims; i++) {
        offset += matrix % m.size[i] * m.step[i];
        matrix /= m.size[i];
    }
    C *const c = (C *)m.c + offset;
    const int x = threadIdx.x % MIRROR_TILE;
    const int64_t row = (int64_t)tile_row * MIRROR_TILE,
                  column = (int64_t)tile_column * MIRROR_TILE;
    for (int y = threadIdx.x / MIRROR_TILE; y < MIRROR_TILE; y += MIRROR_LINES)
        if (row + y < m.n && column + x < m.n)
            tile[y][x] = c[(row + y) * m.stride + column + x];
    __syncthreads();
    for (int y = threadIdx.x / MIRROR_TILE; y < MIRROR_TILE; y += MIRROR_LINES)
        if (column + y < row + x && row + x < m.n)
            c[(column + y) * m.stride + row + x] = tile[x][y];
}

static tg_status mirror(tg_ctx *ctx, const tg_tensor *c)
{
    cuda_call call;
    mirror_job m = {};
    int64_t matrices = 1;
    m.c = data_of(c);
    m.n = width_of(c);
    m.stride = matrix_stride(c);
    m.tiles = ceil_div(m.n, MIRROR_TILE);
    for (int i = c->ndim - 3; i >= 0; i--) {
        m.size[m.dims] = c->shape[i];
        m.step[m.dims++] = tg_stride(c, i);
        matrices *= c->shape[i];
    }
    const tg_status status = cuda_begin(&call, ctx, "batched_gemm", c);
    if (status != TG_OK)
        return status;
    const unsigned blocks = (unsigned)(matrices * tiles_of_triangle(m.tiles));
    if (tg_type_of(c) == TG_F32)
        mirror_kernel<uint32_t><<<blocks, MIRROR_TILE * MIRROR_LINES, 0, call.stream>>>(m);
    else
        mirror_kernel<uint16_t><<<blocks, MIRROR_TILE * MIRROR_LINES, 0, call.stream>>>(m);
    return cuda_end(&call, TG_OK);
}

/* ---- the operator ---- */

int cuda_batched_gemm_symmetric_accepts(const tg_batched_gemm_args *args)
{
    const int64_t n = width_of(args->c), tiles = ceil_div(n, MIRROR_TILE);
    return args->symmetric && n >= LEAST_HALVED && tg_numel(args->c) > 0 &&
           tg_numel(args->c) / (n * n) <= INT32_MAX / tiles_of_triangle(tiles);
}

tg_status cuda_batched_gemm_symmetric(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    const int64_t n = width_of(args->c);
    const int64_t rows = ceil_div(n, (int64_t)ROWS_UNIT * MOST_ROWS) * ROWS_UNIT;
    for (int64_t row = 0; row < n; row += rows) {
        const tg_status status = multiply_rows(ctx, args, row, min_of(rows, n - row));
        if (status != TG_OK)
            return status;
    }
    return mirror(ctx, args->c);
}
