/* llama4_rope and qwen2vl_mrope on views of any strides, in and out of place: every implementation
 * gives what the formula says, and what lies between the elements keeps its bytes. */
#include <math.h>

#include "../common/test.h"

enum { B = 2, S = 5, HQ = 4, HK = 2, D = 34, H = D / 2, SPACE = 8192 };
enum { SECTION_T = 3, SECTION_H = 9, SECTION_W = 5 };

typedef struct layout {
    const char *name;
    int64_t q[4], k[4], k_begin; /* strides, and where k begins in the buffer */
} layout;

static const layout layouts[] = {
    {"compact", {S * HQ * D, HQ *D, D, 1}, {S * HK * D, HK *D, D, 1}, 4096},
    {"heads before positions", {HQ * S * D, D, S *D, 1}, {HK * S * D, D, S *D, 1}, 4096},
    {"packed q | k | v", {S * 8 * D, 8 * D, D, 1}, {S * 8 * D, 8 * D, D, 1}, HQ *D},
    {"positions outermost", {HQ * D + 1, B *(HQ *D + 1), D, 1}, {HK * D, B *HK *D, D, 1}, 4096},
};

static float in[SPACE], out[SPACE], expected[SPACE], freqs[(B + 1) * S * H * 2],
    cosines[3 * B * S * H], sines[3 * B * S * H];

/* The elements that pair number d turns, and by which angle's cosine and sine. */
static void pair(int complex, int64_t b, int64_t s, int64_t d, int64_t *first, int64_t *second,
                 double *c, double *t)
{
    const int64_t plane = d < SECTION_T ? 0 : d < SECTION_T + SECTION_H ? 1 : 2;
    *first = complex ? 2 * d : d;
    *second = complex ? 2 * d + 1 : d + H;
    *c = complex ? freqs[(s * H + d) * 2] : cosines[((plane * B + b) * S + s) * H + d];
    *t = complex ? freqs[(s * H + d) * 2 + 1] : sines[((plane * B + b) * S + s) * H + d];
}

static void rotate(int complex, int64_t heads, const int64_t *strides, int64_t begin, int sign)
{
    for (int64_t b = 0; b < B; b++)
        for (int64_t s = 0; s < S; s++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t d = 0; d < H; d++) {
                    const int64_t at = begin + b * strides[0] + s * strides[1] + h * strides[2];
                    int64_t i, j;
                    double c, t;
                    pair(complex, b, s, d, &i, &j, &c, &t);
                    const double x = in[at + i], y = in[at + j];
                    expected[at + i] = (float)(x * c - y * t * sign);
                    expected[at + j] = (float)(y * c + x * t * sign);
                }
}

static tg_tensor view(float *data, int64_t *shape, const int64_t *strides)
{
    tg_tensor t = tg_tensor_of(data, TG_F32, 4, shape);
    t.strides = (int64_t *)strides;
    return t;
}

static void run(tg_ctx *ctx, int impl, const layout *l, int complex, int backward, int in_place)
{
    int64_t q_shape[] = {B, S, HQ, D}, k_shape[] = {B, S, HK, D};
    int64_t planes[] = {3, B, S, H}, table[] = {S, H, 2};
    for (int i = 0; i < SPACE; i++) {
        in[i] = sinf((float)i);
        expected[i] = out[i] = in_place ? in[i] : -7.0f;
    }
    rotate(complex, HQ, l->q, 0, backward ? -1 : 1);
    rotate(complex, HK, l->k, l->k_begin, backward ? -1 : 1);
    float *from = in_place ? out : in;
    tg_tensor q = view(from, q_shape, l->q), k = view(from + l->k_begin, k_shape, l->k);
    tg_tensor yq = view(out, q_shape, l->q), yk = view(out + l->k_begin, k_shape, l->k);
    tg_tensor cos = tg_tensor_of(cosines, TG_F32, 4, planes);
    tg_tensor sin = tg_tensor_of(sines, TG_F32, 4, planes);
    tg_tensor w = tg_tensor_of(freqs, TG_F32, 3, table);
    /* both directions have their arguments in the same order */
    const tg_llama4_rope_forward_args products = {&q, &k, &w, &yq, &yk};
    const tg_qwen2vl_mrope_forward_args rotations = {&q,  &k,        &cos,      &sin,     &yq,
                                                     &yk, SECTION_T, SECTION_H, SECTION_W};
    const char *name = tg_impl_at(impl)->full_name;
    const tg_status status =
        tg_impl_run(ctx, impl, complex ? (const void *)&products : (const void *)&rotations);
    EXPECT(status == TG_OK, "%s, %s: %s", name, l->name, tg_last_error());
    for (int i = 0; status == TG_OK && i < SPACE; i++)
        EXPECT(fabsf(out[i] - expected[i]) <= 1e-6f, "%s, %s%s: element %d is %g, expected %g",
               name, l->name, in_place ? ", in place" : "", i, (double)out[i], (double)expected[i]);
}

static void tables_must_fit(tg_ctx *ctx)
{
    int64_t shape[] = {B, S, HQ, D}, table[] = {B + 1, S, H, 2};
    tg_tensor q = tg_tensor_of(in, TG_F32, 4, shape), y = tg_tensor_of(out, TG_F32, 4, shape);
    tg_tensor w = tg_tensor_of(freqs, TG_F32, 4, table);
    const tg_llama4_rope_forward_args args = {.q = &q, .freqs = &w, .yq = &y};
    EXPECT(tg_llama4_rope_forward(ctx, &args) == TG_EINVAL, "tables of too many batches");
    EXPECT(strstr(tg_last_error(), "llama4_rope_forward: freqs is "), "the message is\n  %s",
           tg_last_error());
}

static void sections_must_fit(tg_ctx *ctx)
{
    static const char message[] = "qwen2vl_mrope_forward: section_t + section_h + section_w is "
                                  "3 + 9 + 4, expected 17 together, half the width of q";
    int64_t shape[] = {B, S, HQ, D}, planes[] = {3, B, S, H};
    tg_tensor q = tg_tensor_of(in, TG_F32, 4, shape), y = tg_tensor_of(out, TG_F32, 4, shape);
    tg_tensor cos = tg_tensor_of(cosines, TG_F32, 4, planes);
    tg_tensor sin = tg_tensor_of(sines, TG_F32, 4, planes);
    tg_qwen2vl_mrope_forward_args args = {.q = &q, .cos = &cos, .sin = &sin, .yq = &y};
    args.section_t = SECTION_T;
    args.section_h = SECTION_H;
    args.section_w = SECTION_W - 1;
    EXPECT(tg_qwen2vl_mrope_forward(ctx, &args) == TG_EINVAL, "sections that do not add up");
    EXPECT(strcmp(tg_last_error(), message) == 0, "the message is\n  %s", tg_last_error());
}

int main(void)
{
    static const char *const names[] = {"llama4_rope_forward", "llama4_rope_backward",
                                        "qwen2vl_mrope_forward", "qwen2vl_mrope_backward"};
    tg_ctx *ctx = new_context();
    for (int i = 0; i < 3 * B * S * H; i++) {
        cosines[i] = cosf((float)i * 0.37f);
        sines[i] = sinf((float)i * 0.37f);
    }
    for (int i = 0; i < S * H * 2; i++)
        freqs[i] = cosf((float)i * 0.91f);
    int found = 0;
    for (int impl = 0; impl < tg_impl_count(); impl++)
        for (int op = 0; op < 4; op++) {
            if (tg_impl_at(impl)->op != tg_op_by_name(names[op]) || !runs_on_cpu(ctx, impl))
                continue;
            found++;
            for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
                for (int in_place = 0; in_place < 2; in_place++)
                    run(ctx, impl, &layouts[i], op < 2, op & 1, in_place);
        }
    EXPECT(found >= 8, "%d implementations", found);
    tables_must_fit(ctx);
    sections_must_fit(ctx);
    tg_ctx_destroy(ctx);
    return report();
}
