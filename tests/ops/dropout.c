/* What flash_attention drops: Philox's known answers, and numbers that stand for queries and keys
 * as random.h says, in packed rows and apart. */
#include <math.h>
#include <tigon/random.h>

#include "../common/test.h"

/* From the authors' own tests (Random123, kat_vectors). */
static void known_answers(void)
{
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t answer[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         UINT64_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const uint32_t *c = known[i].counter;
        const tg_drawn drawn = tg_philox(c[0], c[1], c[2], c[3], known[i].key);
        for (int w = 0; w < 4; w++)
            EXPECT(drawn.word[w] == known[i].answer[w], "word %d is %08x, expected %08x", w,
                   drawn.word[w], known[i].answer[w]);
    }
}

enum { S = 70, H = 2, L = 75, FIRST = 33 };

/* Queries and keys are 0 and values rows of the unit matrix: y is what probabilities are multiplied
 * by, over the number of keys. bounds: of two sequences of queries and keys, or NULL. */
static void factors(const char *impl, int64_t s, int64_t l, const int64_t *bounds, double dropout,
                    float *y)
{
    static float zeros[L * H * 4], v[L * H * L];
    const int64_t q_shape[] = {1, s, H, 4}, k_shape[] = {1, l, H, 4}, v_shape[] = {1, l, H, l};
    const int64_t y_shape[] = {1, s, H, l}, count = 3;
    for (int64_t i = 0; i < l * H * l; i++)
        v[i] = i / (H * l) == i % l;
    tg_tensor q = tg_tensor_of(zeros, TG_F32, 4, q_shape);
    tg_tensor k = tg_tensor_of(zeros, TG_F32, 4, k_shape), tv = tg_tensor_of(v, TG_F32, 4, v_shape);
    tg_tensor ty = tg_tensor_of(y, TG_F32, 4, y_shape), cu[2];
    for (int i = 0; i < 2 && bounds; i++)
        cu[i] = tg_tensor_of((void *)(bounds + 3 * i), TG_I64, 1, &count);
    tg_ctx *ctx = new_context();
    EXPECT(!tg_ctx_set_impl(ctx, impl), "%s", tg_last_error());
    EXPECT(!tg_flash_attention_forward(
               ctx, &(tg_flash_attention_forward_args){.q = &q,
                                                       .k = &k,
                                                       .v = &tv,
                                                       .cu_seqlens_q = bounds ? &cu[0] : NULL,
                                                       .cu_seqlens_k = bounds ? &cu[1] : NULL,
                                                       .y = &ty,
                                                       .dropout = dropout,
                                                       .seed = -7,
                                                       .offset = UINT32_MAX}),
           "%s", tg_last_error());
    tg_ctx_destroy(ctx);
}

/* What random.h says of query i and key j of a sequence, by single numbers. */
static int is_kept(int64_t sequence, int64_t h, int64_t i, int64_t j, uint32_t least)
{
    const uint32_t counter = (uint32_t)(j / 32 * 4 + j % 8 / 2);
    const tg_drawn drawn =
        tg_philox(counter, (uint32_t)i, (uint32_t)(sequence * H + h), UINT32_MAX, (uint64_t)-7);
    return (drawn.word[j % 32 / 8] >> j % 2 * 16 & 0xffff) >= least;
}

static void compare(const char *impl, double dropout, uint32_t least)
{
    static float y[S * H * L], part[S * H * L];
    const int64_t bounds[] = {0, FIRST, S, 0, FIRST + 1, L};
    const float factor = (float)(65536.0 / (65536 - least));
    factors(impl, S, L, NULL, dropout, y);
    for (int64_t at = 0; at < S * H * L; at++) {
        const int64_t i = at / L / H, h = at / L % H, j = at % L;
        const float expected = is_kept(0, h, i, j, least) ? factor / L : 0;
        EXPECT(fabsf(y[at] - expected) <= 1e-6f * expected, "%s: y[%d,%d,%d] is %g, expected %g",
               impl, (int)i, (int)h, (int)j, (double)y[at], (double)expected);
    }
    factors(impl, S, L, bounds, dropout, part);
    for (int64_t at = 0; at < S * H * L; at++) {
        const int64_t i = at / L / H, h = at / L % H, j = at % L, second = i >= FIRST;
        const int64_t begin = second ? FIRST + 1 : 0, keys = second ? L - begin : FIRST + 1;
        const int seen = j >= begin && j < begin + keys;
        const int kept = seen && is_kept(second, h, i - second * FIRST, j - begin, least);
        const float expected = kept ? factor / (float)keys : 0;
        EXPECT(fabsf(part[at] - expected) <= 1e-6f * expected,
               "%s, packed: y[%d,%d,%d] is %g, expected %g", impl, (int)i, (int)h, (int)j,
               (double)part[at], (double)expected);
    }
}

int main(void)
{
    static const char *const impls[] = {"ref", "cpu"};
    known_answers();
    for (size_t i = 0; i < sizeof impls / sizeof *impls; i++) {
        compare(impls[i], 0.25, 16384);
        compare(impls[i], 0.1, 6554);
        compare(impls[i], 1 - 1e-9, 65535);
        compare(impls[i], 1e-9, 0);
    }
    return report();
}
