/* rope on views of any strides: heads before positions, q and k packed in one buffer, in
 * place. Every implementation gives what the formula says; what lies between the
 * elements keeps its bytes. */
#include <math.h>

#include "../common/test.h"

enum { B = 2, S = 5, HQ = 4, HK = 2, D = 34, H = D / 2, SPACE = 8192, OFFSET = 3 };

typedef struct layout {
    const char *name;
    int64_t q[4], k[4], k_begin; /* strides, and where k begins in the buffer */
} layout;

static const layout layouts[] = {
    {"compact", {S * HQ * D, HQ *D, D, 1}, {S * HK * D, HK *D, D, 1}, 4096},
    {"heads before positions", {HQ * S * D, D, S *D, 1}, {HK * S * D, D, S *D, 1}, 4096},
    {"packed q | k | v", {S * 8 * D, 8 * D, D, 1}, {S * 8 * D, 8 * D, D, 1}, HQ *D},
    {"positions outermost", {HQ * D + 1, B *(HQ *D + 1), D, 1}, {HK * D, B *HK *D, D, 1}, 4096},
    {"wide gaps", {S * HQ * 50, HQ * 50, 50, 1}, {S * HK * 41, HK * 41, 41, 1}, 4096},
};

static float in[SPACE], out[SPACE], expected[SPACE], cosines[(S + OFFSET) * H],
    sines[(S + OFFSET) * H];

static void rotate(const layout *l, int64_t heads, const int64_t *strides, int64_t begin, int sign)
{
    (void)l;
    for (int64_t b = 0; b < B; b++)
        for (int64_t s = 0; s < S; s++)
            for (int64_t h = 0; h < heads; h++) {
                const int64_t at = begin + b * strides[0] + s * strides[1] + h * strides[2];
                for (int64_t d = 0; d < H; d++) {
                    const double c = cosines[(s + OFFSET) * H + d];
                    const double t = sign * (double)sines[(s + OFFSET) * H + d];
                    const double x0 = in[at + d], x1 = in[at + d + H];
                    expected[at + d] = (float)(x0 * c - x1 * t);
                    expected[at + d + H] = (float)(x1 * c + x0 * t);
                }
            }
}

static tg_tensor view(float *data, int64_t *shape, const int64_t *strides)
{
    tg_tensor t = tg_tensor_of(data, TG_F32, 4, shape);
    t.strides = (int64_t *)strides;
    return t;
}

static void run(tg_ctx *ctx, int impl, const layout *l, int backward, int in_place)
{
    int64_t q_shape[] = {B, S, HQ, D}, k_shape[] = {B, S, HK, D}, table[] = {S + OFFSET, H};
    for (int i = 0; i < SPACE; i++)
        expected[i] = in[i] = in_place ? sinf((float)i) : -7.0f;
    for (int i = 0; !in_place && i < SPACE; i++)
        in[i] = sinf((float)i);
    rotate(l, HQ, l->q, 0, backward ? -1 : 1);
    rotate(l, HK, l->k, l->k_begin, backward ? -1 : 1);
    for (int i = 0; i < SPACE; i++)
        out[i] = in_place ? in[i] : -7.0f;
    float *from = in_place ? out : in;
    tg_tensor q = view(from, q_shape, l->q), k = view(from + l->k_begin, k_shape, l->k);
    tg_tensor yq = view(out, q_shape, l->q), yk = view(out + l->k_begin, k_shape, l->k);
    tg_tensor cos = tg_tensor_of(cosines, TG_F32, 2, table);
    tg_tensor sin = tg_tensor_of(sines, TG_F32, 2, table);
    const tg_rope_forward_args forward = {&q, &k, &cos, &sin, &yq, &yk, .position_offset = OFFSET};
    const tg_rope_backward_args back = {&q, &k, &cos, &sin, &yq, &yk, .position_offset = OFFSET};
    const char *name = tg_impl_at(impl)->full_name;
    const tg_status status =
        tg_impl_run(ctx, impl, backward ? (const void *)&back : (const void *)&forward);
    EXPECT(status == TG_OK, "%s, %s: %s", name, l->name, tg_last_error());
    for (int i = 0; status == TG_OK && i < SPACE; i++)
        EXPECT(fabsf(out[i] - expected[i]) <= 1e-6f, "%s, %s%s: element %d is %g, expected %g",
               name, l->name, in_place ? ", in place" : "", i, (double)out[i], (double)expected[i]);
}

int main(void)
{
    tg_ctx *ctx = new_context();
    for (int i = 0; i < (S + OFFSET) * H; i++) {
        cosines[i] = cosf((float)i * 0.37f);
        sines[i] = sinf((float)i * 0.37f);
    }
    const int forward = tg_op_by_name("rope_forward"), backward = tg_op_by_name("rope_backward");
    int found = 0;
    for (int impl = 0; impl < tg_impl_count(); impl++) {
        const int op = tg_impl_at(impl)->op;
        if ((op != forward && op != backward) || !runs_on_cpu(ctx, impl))
            continue;
        found++;
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
            for (int in_place = 0; in_place < 2; in_place++)
                run(ctx, impl, &layouts[i], op == backward, in_place);
    }
    EXPECT(found >= 4, "%d implementations of rope", found);
    tg_ctx_destroy(ctx);
    return report();
}
