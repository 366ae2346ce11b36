/* fused_linear_kl_div.cu - the operator where logits need never be written: bf16, with targets of
 * bf16, on GPUs of compute capability 9.0, without bias. All else is made of gemm, softmax_kl_div
 * and sum_rows.
 *
 * A chunk of rows, of which E takes 2 bytes an element, goes through
 *   kl_begin_kernel      which rows count
 *   product_kernel       E = exp(x weight^T / temperature - offset), and sums of parts of rows
 *   kl_settle_kernel     sums of rows
 *   both once more       for rows whose offset did not suit them; the kernels end at once where
 *                        there are none
 *   kl_gradient_kernel   the gradient of the logits, over E, and the rest of the loss
 *   gemm, twice          dweight (+)= E^T x, dx = E weight */
#include "fused_linear_kl_div.cuh"

#include "batch.cuh"
#include "fused_linear_chunks.cuh"
#include "fused_linear_kl_div.h"

/* One view of both directions' arguments. */
struct flkl : layer_call {
    const tg_tensor *labels, *dloss;
    tg_tensor *loss;
    int64_t reduction;
    double temperature, eps;
};

template <class ARGS> static flkl common_of(const ARGS *args)
{
    flkl f = {};
    layer_begin(args, &f);
    f.labels = args->labels;
    f.dloss = args->dloss;
    f.reduction = args->reduction;
    f.temperature = args->temperature;
    return f;
}

/* ---- what is taken ---- */

/* Where classes are few, a product of its own for each operator is as good, and probabilities are
 * not rounded. */
enum { LEAST_CLASSES = 512 };

template <class ARGS> static bool accepts(const ARGS *args)
{
    const flkl f = common_of(args);
    return !args->bias && !args->logits && f.classes >= LEAST_CLASSES &&
           tg_type_of(f.target) == TG_BF16 && has_tiles(f.target) && has_products(f) &&
           takes_gradients(args);
}

int cuda_fused_linear_kl_div_forward_accepts(const tg_fused_linear_kl_div_forward_args *args)
{
    return accepts(args);
}

int cuda_fused_linear_kl_div_backward_accepts(const tg_fused_linear_kl_div_backward_args *args)
{
    return accepts(args) && (args->dx || args->dweight);
}

/* ---- memory ---- */

struct flkl_memory {
    int64_t chunk, pitch; /* rows; elements from one row of E to the next */
    int tiles;
    /* of a chunk */
    kl_row *state;
    int *again;
    kl_part *parts;
    bf16 *e;
    float *sums; /* [classes, hidden]: of a dweight of bf16, where several chunks add to it */
};

/* Returns the bytes of all. */
static int64_t place_memory(const flkl &f, flkl_memory *m, char *memory)
{
    int64_t used = 0;
    m->state = take<kl_row>(memory, &used, m->chunk * (int64_t)sizeof *m->state);
    m->again = take<int>(memory, &used, ceil_div(m->chunk, PAIR) * (int64_t)sizeof *m->again);
    m->parts = take<kl_part>(memory, &used, m->chunk * m->tiles * (int64_t)sizeof *m->parts);
    if (f.dx || f.dweight)
        m->e = take<bf16>(memory, &used, 2 * m->chunk * m->pitch);
    if (m->chunk < f.rows && sums_bytes(f))
        m->sums = take<float>(memory, &used, sums_bytes(f));
    return used;
}

/* ---- one chunk ---- */

static kl_rows rows_of_chunk(const flkl &f, const flkl_memory &m, const batch_args &batch,
                             int64_t first)
{
    kl_rows a = {};
    (batch_args &)a = batch;
    a.rows = min_of(m.chunk, f.rows - first);
    a.labels = batch.labels ? batch.labels + first : NULL;
    a.partial = batch.partial ? batch.partial + first : NULL;
    a.state = m.state;
    a.parts = m.parts;
    a.again = m.again;
    a.e = m.e;
    a.pitch = m.pitch;
    a.tiles = m.tiles;
    a.eps = (float)f.eps;
    a.target = span_of(f.target);
    a.target.data += first * a.target.stride;
    return a;
}

/* E of the chunk, and what is known of its rows from it; of the pairs of tiles that are to be made
 * again, if `again`. */
static bool make_logits(const cuda_call &call, const flkl &f, const kl_rows &a, int64_t first,
                        bool again)
{
    const row_span rows = span_of(f.x);
    const product_operand x = {rows.data + first * rows.stride, a.rows, f.hidden, rows.stride / 2},
                          w = {data_of(f.weight), f.classes, f.hidden, stride_of(f.weight)};
    const kl_exponentials e = {a.state,
                               (kl_part *)a.parts,
                               (const uint16_t *)a.target.data,
                               a.target.stride / 2,
                               (float)(LOG2_E * f.by),
                               (int)a.rows,
                               a.n,
                               a.tiles,
                               a.e != NULL};
    if (!launch_product<bf16, 0, 0>(call, TG_BF16, x, w, a.e, a.pitch, again ? a.again : NULL, e))
        return false;
    kl_settle_kernel<<<(unsigned)a.rows, KL_SETTLERS, 0, call.stream>>>(a, again);
    return true;
}

template <class T> static void make_gradient(const cuda_call &call, const kl_rows &a)
{
    const auto kernel = !a.e         ? kl_gradient_kernel<T, true, false>
                        : !a.partial ? kl_gradient_kernel<T, false, true>
                                     : kl_gradient_kernel<T, true, true>;
    kernel<<<(unsigned)a.rows, KL_THREADS, 0, call.stream>>>(a);
}

/* dx = E weight. */
static tg_status make_dx(const cuda_call &call, const flkl &f, const kl_rows &a, int64_t first)
{
    const row_span dx = span_of(f.dx);
    const matrix e(f.x, a.e, TG_BF16, a.rows, f.classes, a.pitch),
        rows(f.x, dx.data + first * dx.stride, TG_BF16, a.rows, f.hidden, dx.stride / 2);
    tg_gemm_args args = {};
    args.a = &e.t;
    args.b = f.weight;
    args.c = (tg_tensor *)&rows.t;
    return cuda_host->call(call.ctx, "gemm", &args);
}

static tg_status run_chunk(const cuda_call &call, const flkl &f, const flkl_memory &m,
                           const batch_args &batch, int64_t first)
{
    const kl_rows a = rows_of_chunk(f, m, batch, first);
    row_span x = span_of(f.x);
    x.data += first * x.stride;
    kl_begin_kernel<<<(unsigned)ceil_div(a.rows, KL_SETTLERS), KL_SETTLERS, 0, call.stream>>>(a);
    if (!make_logits(call, f, a, first, false) || !make_logits(call, f, a, first, true))
        return TG_EUNSUPPORTED;
    if (f.classes % V<bf16> == 0)
        make_gradient<whole<bf16>>(call, a);
    else
        make_gradient<bf16>(call, a);
    tg_status status =
        f.dweight ? add_dweight(call, f, {a.e, a.pitch, first, a.rows, m.sums}, x) : TG_OK;
    return status == TG_OK && f.dx ? make_dx(call, f, a, first) : status;
}

/* ---- the whole ---- */

static tg_status run_on_card(const cuda_call &call, const char *op, const flkl &f)
{
    flkl_memory m;
    batch_call c = {};
    batch_args batch = {};
    if (call.capability != 90)
        return TG_EUNSUPPORTED;
    c.of.op = op;
    c.of.labels = f.labels;
    c.of.dloss = f.dloss;
    c.of.loss = f.loss;
    c.of.reduction = f.reduction;
    c.of.ignore_index = f.ignore_index;
    c.temperature = f.temperature;
    c.grad_scale = 1;
    batch_begin(c, f.target, &batch);
    double *const losses = batch_shares(call, c, f.rows, &batch);
    tg_status status = losses ? allocate(call, f, &m) : TG_ENOMEM;
    for (int64_t first = 0; status == TG_OK && first < f.rows; first += m.chunk)
        status = run_chunk(call, f, m, batch, first);
    if (status == TG_OK && m.sums)
        round_sums(call, f, m.sums);
    if (status == TG_OK)
        batch_total(call, c, batch, losses, f.rows);
    return status;
}

static tg_status run(tg_ctx *ctx, const char *op, const flkl &f)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, op, f.x);
    return status == TG_OK ? cuda_end(&call, run_on_card(call, op, f)) : status;
}

tg_status cuda_fused_linear_kl_div_forward(tg_ctx *ctx,
                                           const tg_fused_linear_kl_div_forward_args *args)
{
    flkl f = common_of(args);
    f.loss = args->loss;
    f.eps = args->eps;
    return run(ctx, "fused_linear_kl_div_forward", f);
}

tg_status cuda_fused_linear_kl_div_backward(tg_ctx *ctx,
                                            const tg_fused_linear_kl_div_backward_args *args)
{
    return run(ctx, "fused_linear_kl_div_backward", common_of(args));
}
