/* fused_linear_cross_entropy.cu - the operator where logits need never be written: bf16, on GPUs of compute capability 9.0, without bias,
 * class weights, smoothing, softcap, token scaling, accuracy and predicted tokens. All else is made of gemm, cross_entropy and
 * sum_rows.
 *
 * A chunk of rows, of which E takes 2 bytes an element, goes through
 *   begin_rows_kernel     which rows count
 *   product_kernel        E = exp(x weight^T - offset), sums of parts of rows, the targets' logits
 *   settle_rows_kernel    losses; what a row's E is to be multiplied with; x times that, in the memory of dx
 *   both once more        for rows whose offset did not suit them; the kernels end at once where there are none
 *   product_kernel        dweight (+)= E^T (x times the factors)
 *   product_kernel        dx = the factors times E weight */
#include "fused_linear_cross_entropy.cuh"

#include "fused_linear_cross_entropy.h"

/* One view of both directions' arguments. */
struct flce {
    const tg_tensor *x, *weight, *target, *dloss;
    tg_tensor *loss, *z_loss, *lse, *dx, *dweight;
    int64_t ignore_index, reduction, accumulate, chunk_bytes;
    double z;
    int64_t rows, classes, hidden;
};

template <class ARGS> static flce common_of(const ARGS *args)
{
    flce f = {};
    f.x = args->x;
    f.weight = args->weight;
    f.target = args->target;
    f.dloss = args->dloss;
    f.dx = args->dx;
    f.dweight = args->dweight;
    f.ignore_index = args->ignore_index;
    f.reduction = args->reduction;
    f.accumulate = args->accumulate;
    f.chunk_bytes = args->chunk_bytes;
    f.z = args->lse_square_scale;
    f.rows = rows_of(f.x);
    f.classes = f.weight->shape[0];
    f.hidden = f.weight->shape[1];
    return f;
}

/* ---- what is taken ---- */

/* Whether copies of tiles can move its rows; one that is absent can be. */
static bool has_tiles(const tg_tensor *t)
{
    if (!t)
        return true;
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t)), stride = stride_of(t);
    return (uintptr_t)data_of(t) % 16 == 0 && stride >= width_of(t) && stride * size % 16 == 0;
}

template <class ARGS> static int accepts(const ARGS *args)
{
    const flce f = common_of(args);
    const int64_t most = INT32_MAX / 2;
    return !args->bias && !args->class_weight && args->label_smoothing == 0 && args->softcap == 0 &&
           !args->token_scaling && f.rows > 0 && f.rows <= most && f.classes > 0 &&
           f.classes <= most && f.hidden > 0 && f.hidden <= most && f.hidden % V<bf16> == 0 &&
           has_tiles(f.x) && has_tiles(f.weight) && has_tiles(f.dx) && has_tiles(f.dweight);
}

int cuda_fused_linear_cross_entropy_forward_accepts(
    const tg_fused_linear_cross_entropy_forward_args *args)
{
    return accepts(args) && !args->accuracy && !args->predicted;
}

int cuda_fused_linear_cross_entropy_backward_accepts(
    const tg_fused_linear_cross_entropy_backward_args *args)
{
    return accepts(args);
}

/* ---- memory ---- */

/* Bytes of E by default. With fewer rows a chunk the sums of dweight, read and written with each, would take longer. */
static const int64_t CHUNK_BYTES = 1 << 30;

struct flce_memory {
    int64_t chunk, pitch; /* rows; elements from one row of E to the next */
    int tiles;
    row_state *state; /* of all rows */
    float *per_row;
    /* of a chunk */
    float *factor;
    int *again;
    row_part *parts;
    bf16 *e, *scaled; /* scaled: NULL where dx has room for it */
    float *sums;      /* [classes, hidden]: of a dweight of bf16, where several chunks add to it */
};

/* f32 sums of dweight are needed if there are several chunks. */
static int64_t sums_bytes(const flce &f)
{
    return f.dweight && tg_type_of(f.dweight) == TG_BF16 ? 4 * f.classes * f.hidden : 0;
}

/* How often the card goes to all its multiprocessors with tiles of dx of so many rows. */
static int64_t rounds_of(const cuda_call &call, const flce &f, int64_t rows)
{
    const int64_t pairs = ceil_div(rows, PAIR) * ceil_div(f.hidden, TILE_N);
    return ceil_div(pairs, call.processors / CLUSTER);
}

/* Rows of a chunk that fit the memory: all, also where that takes no more than several chunks and their sums; else, down to half of what
 * fits, so many that the rounds of all chunks are the fewest. */
static int64_t chunk_of(const cuda_call &call, const flce &f, const flce_memory &m)
{
    const int64_t row = 2 * m.pitch + m.tiles * (int64_t)sizeof *m.parts;
    const int64_t most = f.chunk_bytes ? f.chunk_bytes : CHUNK_BYTES, fit = most / row;
    if ((!f.dx && !f.dweight) || f.rows <= fit ||
        (!f.chunk_bytes && f.rows * row <= most + sums_bytes(f)))
        return f.rows;
    if (fit < PAIR)
        return fit < 1 ? 1 : fit;
    int64_t best = 0, fewest = INT64_MAX;
    for (int64_t c = fit / PAIR * PAIR; c > 0 && 2 * c >= fit; c -= PAIR) {
        const int64_t rounds = f.rows / c * rounds_of(call, f, c) + rounds_of(call, f, f.rows % c);
        if (rounds < fewest) {
            best = c;
            fewest = rounds;
        }
    }
    return best;
}

/* The next part of a workspace, of so many bytes; without one they are counted alone. */
template <class T> static T *take(char *memory, int64_t *used, int64_t bytes)
{
    T *const part = memory ? (T *)(memory + *used) : NULL;
    *used += ceil_div(bytes, 1024) * 1024;
    return part;
}

/* Returns the bytes of all. */
static int64_t place_memory(const flce &f, flce_memory *m, char *memory)
{
    const int64_t chunk = m->chunk, pairs = ceil_div(chunk, PAIR);
    int64_t used = 0;
    m->state = take<row_state>(memory, &used, f.rows * (int64_t)sizeof *m->state);
    m->per_row = take<float>(memory, &used, sizeof *m->per_row);
    m->factor = take<float>(memory, &used, chunk * (int64_t)sizeof *m->factor);
    m->again = take<int>(memory, &used, pairs * (int64_t)sizeof *m->again);
    m->parts = take<row_part>(memory, &used, chunk * m->tiles * (int64_t)sizeof *m->parts);
    if (f.dx || f.dweight)
        m->e = take<bf16>(memory, &used, 2 * chunk * m->pitch);
    if (f.dweight && !f.dx)
        m->scaled = take<bf16>(memory, &used, 2 * chunk * f.hidden);
    if (chunk < f.rows && sums_bytes(f))
        m->sums = take<float>(memory, &used, sums_bytes(f));
    return used;
}

static tg_status allocate(const cuda_call &call, const flce &f, flce_memory *m)
{
    *m = {};
    m->pitch = ceil_div(f.classes, 64) * 64;
    m->tiles = (int)ceil_div(f.classes, TILE_N);
    m->chunk = chunk_of(call, f, *m);
    const int64_t bytes = place_memory(f, m, NULL);
    char *memory = (char *)cuda_host->device_workspace(call.ctx, (size_t)bytes);
    if (!memory)
        return TG_ENOMEM;
    place_memory(f, m, memory);
    return TG_OK;
}

/* ---- one chunk ---- */

static chunk_rows rows_of_chunk(const cuda_call &call, const flce &f, const flce_memory &m,
                                int64_t first)
{
    const bool each = f.reduction == TG_NONE;
    chunk_rows a = {};
    a.x = span_of(f.x);
    a.x.data += first * a.x.stride;
    a.scaled = f.dx ? span_of(f.dx) : row_span{(char *)m.scaled, 2 * f.hidden};
    if (f.dx)
        a.scaled.data += first * a.scaled.stride;
    if (!f.dweight)
        a.scaled.data = NULL;
    a.target = (const int64_t *)data_of(f.target) + first;
    a.state = m.state + first;
    a.parts = m.parts;
    a.factor = m.factor;
    a.again = m.again;
    a.e = m.e;
    a.pitch = m.pitch;
    a.first = first;
    a.ignore_index = f.ignore_index;
    a.rows = (int)min_of(m.chunk, f.rows - first);
    a.classes = (int)f.classes;
    a.hidden = (int)f.hidden;
    a.tiles = m.tiles;
    a.range = range_of(call, "target", f.classes);
    a.dloss = (const float *)data_of(f.dloss);
    a.per_row = f.reduction == TG_MEAN ? m.per_row : NULL;
    a.counted = a.per_row && first == 0 ? f.rows : 0;
    a.z = (float)f.z;
    a.each = each;
    a.dloss = a.dloss && each ? a.dloss + first : a.dloss;
    a.loss = f.loss && each ? (float *)data_of(f.loss) + first : NULL;
    a.z_loss = f.z_loss && each ? (float *)data_of(f.z_loss) + first : NULL;
    a.lse = f.lse ? (float *)data_of(f.lse) + first : NULL;
    return a;
}

/* E of the chunk, and what is known of its rows from it; of the pairs of tiles that are to be made again, if `again`. */
static bool make_logits(const cuda_call &call, const flce &f, const chunk_rows &a, bool again)
{
    const product_operand x = {a.x.data, a.rows, f.hidden, a.x.stride / 2},
                          w = {data_of(f.weight), f.classes, f.hidden, stride_of(f.weight)};
    const exponentials e = {a.state,   a.target, (row_part *)a.parts, a.rows,
                            a.classes, a.tiles,  a.e != NULL};
    if (!launch_product<bf16, 0, 0>(call, TG_BF16, x, w, a.e, a.pitch, again ? a.again : NULL, e))
        return false;
    settle_rows_kernel<<<(unsigned)a.rows, ROW_THREADS, 0, call.stream>>>(a, again);
    return true;
}

/* A matrix for a call of an operator. */
struct matrix {
    int64_t shape[2], strides[2];
    tg_tensor t;
    matrix(const tg_tensor *like, void *data, tg_type type, int64_t rows, int64_t columns,
           int64_t stride)
        : shape{rows, columns}, strides{stride, 1}, t(tg_tensor_of(data, type, 2, shape))
    {
        t.strides = strides;
        t.device = like->device;
    }
};

/* dweight (+)= E^T scaled, to where it is summed up. */
static tg_status add_dweight(const cuda_call &call, const flce &f, const flce_memory &m,
                             const chunk_rows &a)
{
    const matrix e(f.x, a.e, TG_BF16, a.rows, f.classes, a.pitch),
        x(f.x, a.scaled.data, TG_BF16, a.rows, f.hidden, a.scaled.stride / 2),
        sums(f.x, m.sums, TG_F32, f.classes, f.hidden, f.hidden);
    tg_gemm_args args = {};
    args.a = &e.t;
    args.b = &x.t;
    args.c = m.sums ? (tg_tensor *)&sums.t : f.dweight;
    args.trans_a = 1;
    args.beta = a.first > 0 || (f.accumulate && !m.sums);
    return cuda_host->call(call.ctx, "gemm", &args);
}

/* dx = E weight, each row times its factor. */
static tg_status make_dx(const cuda_call &call, const flce &f, const chunk_rows &a)
{
    const product_operand e = {a.e, a.rows, f.classes, a.pitch},
                          w = {data_of(f.weight), f.hidden, f.classes, stride_of(f.weight)};
    const row_span dx = span_of(f.dx);
    const scaled_result<bf16, false> r = {1, a.factor, a.rows};
    return launch_product<bf16, 0, 1>(call, TG_BF16, e, w, dx.data + a.first * dx.stride, dx.stride / 2,
                                      NULL, r)
               ? TG_OK
               : TG_EUNSUPPORTED;
}

static tg_status run_chunk(const cuda_call &call, const flce &f, const flce_memory &m,
                           int64_t first)
{
    const chunk_rows a = rows_of_chunk(call, f, m, first);
    const int64_t blocks = ceil_div(a.rows, ROW_THREADS) + (a.counted > 0);
    begin_rows_kernel<<<(unsigned)blocks, ROW_THREADS, 0, call.stream>>>(a);
    if (!make_logits(call, f, a, false) || !make_logits(call, f, a, true))
        return TG_EUNSUPPORTED;
    tg_status status = f.dweight ? add_dweight(call, f, m, a) : TG_OK;
    return status == TG_OK && f.dx ? make_dx(call, f, a) : status;
}

/* ---- the whole ---- */

/* dweight (+)= its sums, rounded. */
static tg_status round_sums(const cuda_call &call, const flce &f, const flce_memory &m)
{
    int64_t shape[3] = {1, f.classes, f.hidden};
    tg_tensor sums = tg_tensor_of(m.sums, TG_F32, 3, shape);
    sums.device = f.x->device;
    tg_sum_rows_forward_args args = {};
    args.x = &sums;
    args.y = f.dweight;
    args.accumulate = f.accumulate;
    return cuda_host->call(call.ctx, "sum_rows_forward", &args);
}

static tg_status run_on_card(const cuda_call &call, const flce &f)
{
    flce_memory m;
    if (call.capability != 90)
        return TG_EUNSUPPORTED;
    tg_status status = allocate(call, f, &m);
    for (int64_t first = 0; status == TG_OK && first < f.rows; first += m.chunk)
        status = run_chunk(call, f, m, first);
    if (status == TG_OK && m.sums)
        status = round_sums(call, f, m);
    if (status == TG_OK && f.loss && f.reduction != TG_NONE)
        sum_losses_kernel<<<1, COUNT_THREADS, 0, call.stream>>>(
            m.state, f.rows, (float *)data_of(f.loss), (float *)data_of(f.z_loss));
    return status;
}

static tg_status run(tg_ctx *ctx, const char *op, const flce &f)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, op, f.x);
    return status == TG_OK ? cuda_end(&call, run_on_card(call, f)) : status;
}

tg_status
cuda_fused_linear_cross_entropy_forward(tg_ctx *ctx,
                                        const tg_fused_linear_cross_entropy_forward_args *args)
{
    flce f = common_of(args);
    f.loss = args->loss;
    f.z_loss = args->z_loss;
    f.lse = args->lse;
    return run(ctx, "fused_linear_cross_entropy_forward", f);
}

/* The sums that lse was made of come with the exponentials, so that lse itself is not read. */
tg_status
cuda_fused_linear_cross_entropy_backward(tg_ctx *ctx,
                                         const tg_fused_linear_cross_entropy_backward_args *args)
{
    return run(ctx, "fused_linear_cross_entropy_backward", common_of(args));
}
