/* fused_linear_logp.cu - forward where logits need never be written: bf16, on GPUs of compute
 * capability 9.0, without bias, softcap and selected classes. All else is made of gemm and
 * softmax_logp. (Backward: fused_linear_cross_entropy.cu.) */
#include "fused_linear_logp.cuh"

#include "fused_linear_cross_entropy.h"

int cuda_fused_linear_logp_forward_accepts(const tg_fused_linear_logp_forward_args *args)
{
    return !args->selected && !args->logits && accepts_layer(args);
}

/* Bytes of what tiles say of rows, by default. */
static const int64_t PARTS_BYTES = 128 << 20;

static int kind_of(const tg_fused_linear_logp_forward_args *args)
{
    return args->mean_logits || args->log_sum_sq_probs || args->predicted ? LOGP_ALL_RESULTS
           : args->entropy                                                ? LOGP_ENTROPY
                                                                          : LOGP_OF_TARGETS;
}

/* ---- a chunk ---- */

template <int KIND>
static bool make_sums(const cuda_call &call, const last_layer &l, const logp_rows &a)
{
    const int64_t stride = stride_of(l.x);
    const product_operand x = {(const bf16 *)data_of(l.x) + a.first * stride, a.rows, l.hidden,
                               stride},
                          w = {data_of(l.weight), l.classes, l.hidden, stride_of(l.weight)};
    const logp_sums<KIND> s = {
        a.target,  (float *)a.logit, (logp_part *)a.parts, (logp_more *)a.more, (float)l.by, a.rows,
        a.classes, a.tiles};
    return launch_product<bf16, 0, 0>(call, TG_BF16, x, w, NULL, 0, NULL, s);
}

static bool make_sums_of(int kind, const cuda_call &call, const last_layer &l, const logp_rows &a)
{
    return kind == LOGP_OF_TARGETS ? make_sums<LOGP_OF_TARGETS>(call, l, a)
           : kind == LOGP_ENTROPY  ? make_sums<LOGP_ENTROPY>(call, l, a)
                                   : make_sums<LOGP_ALL_RESULTS>(call, l, a);
}

template <class T> static T *from_row(const tg_tensor *t, int64_t first)
{
    return t ? (T *)data_of(t) + first : NULL;
}

/* Where results go, from row `first` on. */
static void take_results(logp_rows *a, const tg_fused_linear_logp_forward_args *args, int64_t first)
{
    a->first = first;
    a->target = from_row<const int64_t>(args->target, first);
    a->logp = from_row<float>(args->logp, first);
    a->lse = from_row<float>(args->lse, first);
    a->entropy = from_row<float>(args->entropy, first);
    a->mean = from_row<float>(args->mean_logits, first);
    a->squares = from_row<float>(args->log_sum_sq_probs, first);
    a->predicted = from_row<int64_t>(args->predicted, first);
}

/* ---- the whole ---- */

/* Memory of a chunk of so many rows; returns its bytes. */
static int64_t place_logp_memory(logp_rows *a, int64_t rows, int kind, char *memory)
{
    const int64_t parts = rows * a->tiles;
    int64_t used = 0;
    a->logit = take<float>(memory, &used, rows * (int64_t)sizeof *a->logit);
    a->parts = take<logp_part>(memory, &used, parts * (int64_t)sizeof *a->parts);
    if (kind == LOGP_ALL_RESULTS)
        a->more = take<logp_more>(memory, &used, parts * (int64_t)sizeof *a->more);
    return used;
}

static int64_t logp_chunk_of(const last_layer &l, int tiles, int kind)
{
    const int64_t part = sizeof(logp_part) + (kind == LOGP_ALL_RESULTS ? sizeof(logp_more) : 0);
    const int64_t fit = (l.chunk_bytes ? l.chunk_bytes : PARTS_BYTES) / (tiles * part);
    return l.rows <= fit ? l.rows : fit >= PAIR ? fit / PAIR * PAIR : fit < 1 ? 1 : fit;
}

static tg_status run_on_card(const cuda_call &call, const tg_fused_linear_logp_forward_args *args)
{
    last_layer l = layer_of(args);
    const int kind = kind_of(args);
    logp_rows a = {};
    l.by *= args->logit_scale;
    a.classes = (int)l.classes;
    a.tiles = (int)ceil_div(l.classes, TILE_N);
    a.ignore_index = l.ignore_index;
    a.range = range_of(call, "target", l.classes);
    a.temperature = (float)args->temperature;
    if (call.capability != 90)
        return TG_EUNSUPPORTED;
    const int64_t chunk = logp_chunk_of(l, a.tiles, kind);
    char *const memory = (char *)cuda_host->device_workspace(
        call.ctx, (size_t)place_logp_memory(&a, chunk, kind, NULL));
    if (!memory)
        return TG_ENOMEM;
    place_logp_memory(&a, chunk, kind, memory);
    for (int64_t first = 0; first < l.rows; first += chunk) {
        take_results(&a, args, first);
        a.rows = (int)min_of(chunk, l.rows - first);
        if (!make_sums_of(kind, call, l, a))
            return TG_EUNSUPPORTED;
        settle_logp_kernel<<<(unsigned)a.rows, ROW_THREADS, 0, call.stream>>>(a);
    }
    return TG_OK;
}

tg_status cuda_fused_linear_logp_forward(tg_ctx *ctx, const tg_fused_linear_logp_forward_args *args)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "fused_linear_logp_forward", args->x);
    return status == TG_OK ? cuda_end(&call, run_on_card(call, args)) : status;
}
