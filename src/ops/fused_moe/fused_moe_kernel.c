/* fused_moe: the first product, with the gate behind it, for both directions. Compiled once per
 * level. */
#include "fused_moe_cpu.h"

/* Columns [i, i + n) of the task, n at most VL: biases are added, pre is written, and A. */
SIMD_INLINE void gate_columns(el e, moe_kind kind, int interleaved, const moe_projection *p,
                              const float *bias, const grouped_block *b, int64_t row,
                              const float *sums, const float *second, int64_t i, int64_t n)
{
    const int64_t col = interleaved ? b->col / 2 + i : b->col + i, inner = p->sizes.inner;
    vf2 x = moe_load(EL_F32, interleaved, sums, second, i, n);
    if (bias) {
        const vf2 add = moe_load(EL_F32, interleaved, bias, bias + inner, col, n);
        x = (vf2){x.a + add.a, x.b + add.b};
    }
    if (p->pre.data) {
        char *pre = moe_row(e, &p->pre, row, 0);
        moe_store(e, interleaved, pre, pre + inner * el_size(e), col, n, x);
    }
    if (p->act.data)
        v_store_n(e, moe_row(e, &p->act, row, 0), col, n,
                  moe_gated_of(kind, &p->gate, x.a, x.b).value);
}

SIMD_INLINE void gate_block(el e, moe_kind kind, int interleaved, const moe_projection *p,
                            const grouped_block *b)
{
    const float *bias = p->bias ? p->bias + b->group * 2 * p->sizes.inner : NULL;
    const int64_t cols = interleaved ? b->cols / 2 : b->cols;
    for (int64_t r = 0; r < b->rows; r++) {
        const float *sums = b->sums + r * b->stride, *second = b->second + r * b->stride;
        int64_t i = 0;
        for (; i + VL <= cols; i += VL)
            gate_columns(e, kind, interleaved, p, bias, b, b->row + r, sums, second, i, VL);
        if (i < cols)
            gate_columns(e, kind, interleaved, p, bias, b, b->row + r, sums, second, i, cols - i);
    }
}

SIMD_INLINE void gate_block_of(el e, const moe_projection *p, const grouped_block *b)
{
    MOE_BY_KIND(gate_block, e, &p->gate, p, b);
}

static void write_gate(const grouped_product *product, const grouped_block *b)
{
    const moe_projection *p = product->arg;
    EL_SPECIALIZE(p->type, gate_block_of, p, b);
}

void moe_project(tg_ctx *ctx, const grouped_memory *memory, const moe_projection *p)
{
    const int64_t inner = p->sizes.inner, both = 2 * inner;
    const grouped_product product = {.groups = p->sizes.experts,
                                     .offset = p->offset,
                                     .left = p->x,
                                     .right = p->gate_up,
                                     .terms_are_rows = p->transposed != 0,
                                     .right_rows = p->transposed ? p->sizes.hidden : both,
                                     .cols = p->gate.interleaved ? both : inner,
                                     .second = p->gate.interleaved ? 0 : inner,
                                     .terms = p->sizes.hidden,
                                     .write = write_gate,
                                     .arg = p};
    grouped_run(ctx, memory, &product);
}

/* ---- rows of x with their weights ---- */

typedef struct scaling {
    grouped_factor x;
    const float *weights;
    const int64_t *slot;
    int64_t hidden;
    moe_rows to;
} scaling;

SIMD_INLINE void scale_rows(el e, const scaling *s, int64_t begin, int64_t end)
{
    for (int64_t j = begin; j < end; j++) {
        const char *from = s->x.data + s->slot[j] / s->x.top_k * s->x.stride * el_size(e);
        char *to = moe_row(e, &s->to, j, 0);
        const vf weight = v_set(s->weights[s->slot[j]]);
        for (int64_t h = 0; h < s->hidden; h += VL) {
            const int64_t n = s->hidden - h < VL ? s->hidden - h : VL;
            v_store_n(e, to, h, n, weight * v_load_n(e, from, h, n, 0.0f));
        }
    }
}

static void scale(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const scaling *s = arg;
    EL_SPECIALIZE(s->x.type, scale_rows, s, begin, end);
}

void moe_scaled_rows(tg_ctx *ctx, const moe_sizes *s, const tg_tensor *x, const float *weights,
                     const int64_t *slot, int64_t used, const moe_rows *to)
{
    scaling job = {grouped_factor_of(x, NULL, s->top_k), weights, slot, s->hidden, *to};
    tg_parallel_for(ctx, used, 65536 / (s->hidden + 1) + 1, scale, &job);
}
