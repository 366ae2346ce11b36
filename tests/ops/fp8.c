/* quantize_block: numbers whose codes are known, and the same bits of all implementations as of the
 * reference, of NaN but for its sign. */
#include <math.h>

#include "../common/test.h"

enum { BLOCK = 128, ROWS = 131, COLUMNS = 300, TILES = 3 };

/* ---- codes that are known ---- */

static const struct {
    float x;
    uint8_t code;
} known[] = {{448, 0x7e},        {-448, 0xfe},       {1, 0x38},         {-2, 0xc0},
             {17 / 16.0f, 0x38}, {19 / 16.0f, 0x3a}, {1.9375f, 0x40},   {0x1p-6f, 0x08},
             {0x1.ep-7f, 0x08},  {0x1p-9f, 0x01},    {0x1.8p-9f, 0x02}, {0x1p-10f, 0},
             {0x1.1p-10f, 0x01}, {-0.0f, 0x80},      {0x1.4p-7f, 0x05}, {432, 0x7e}};
enum { KNOWN = sizeof known / sizeof *known };

static void check_codes(tg_ctx *ctx, const char *impl)
{
    int64_t shape[] = {1, KNOWN}, scales[] = {1, 1};
    float x[KNOWN], scale = 0;
    uint8_t q[KNOWN];
    for (int i = 0; i < KNOWN; i++)
        x[i] = known[i].x;
    tg_tensor tx = tg_tensor_of(x, TG_F32, 2, shape), tq = tg_tensor_of(q, TG_F8E4M3, 2, shape);
    tg_tensor ts = tg_tensor_of(&scale, TG_F32, 2, scales);
    const tg_quantize_block_args args = {.x = &tx, .q = &tq, .scale = &ts};
    EXPECT(!tg_impl_run(ctx, tg_find(ctx, impl), &args), "%s", tg_last_error());
    EXPECT(scale == 1, "%s: the scale is %g", impl, (double)scale);
    for (int i = 0; i < KNOWN; i++)
        EXPECT(q[i] == known[i].code, "%s: %a is %#x, expected %#x", impl, (double)x[i], q[i],
               known[i].code);
}

/* ---- the bits of the reference ---- */

typedef struct result {
    uint8_t q[ROWS * COLUMNS], qt[ROWS * COLUMNS];
    float scale[TILES * ROWS], scale_t[TILES * COLUMNS];
} result;

static void quantize(tg_ctx *ctx, int impl, const tg_tensor *x, int square, int power, result *r)
{
    int64_t shape[] = {ROWS, COLUMNS}, transposed[] = {COLUMNS, ROWS};
    int64_t scales[] = {3, square ? 2 : ROWS}, scales_t[] = {2, square ? 3 : COLUMNS};
    tg_tensor q = tg_tensor_of(r->q, TG_F8E4M3, 2, shape);
    tg_tensor qt = tg_tensor_of(r->qt, TG_F8E4M3, 2, transposed);
    tg_tensor scale = tg_tensor_of(r->scale, TG_F32, 2, scales);
    tg_tensor scale_t = tg_tensor_of(r->scale_t, TG_F32, 2, scales_t);
    memset(r, 0, sizeof *r);
    const tg_quantize_block_args args = {.x = x,
                                         .q = &q,
                                         .scale = &scale,
                                         .qt = &qt,
                                         .scale_t = &scale_t,
                                         .square = square,
                                         .power_of_two = power};
    EXPECT(!tg_impl_run(ctx, impl, &args), "%s", tg_last_error());
}

static int same_codes(const uint8_t *a, const uint8_t *b)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (a[i] != b[i] && ((a[i] & 127) != 127 || (b[i] & 127) != 127))
            return 0;
    return 1;
}

static int same_scales(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return 0;
    return 1;
}

/* Numbers of all sizes that have ties among them, in every fifth row infinities or NaN. */
static void fill(uint16_t *x, uint32_t seed)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t exponent = 127 - (seed >> 8 & 15), mantissa = seed >> 16 & 0x7f;
        x[i] = (uint16_t)((seed >> 31) << 15 | exponent << 7 | mantissa);
        if (i / COLUMNS % 5 == 4 && (seed >> 12 & 127) == 0)
            x[i] = seed & 1 ? 0x7f80 : 0x7fc0;
        if (i / COLUMNS % 7 == 3)
            x[i] &= 0x80ff; /* subnormal, or near it */
    }
}

static void check_bits(tg_ctx *ctx, int impl)
{
    static uint16_t x[ROWS * COLUMNS];
    static result expected, found;
    int64_t shape[] = {ROWS, COLUMNS};
    const tg_tensor tx = tg_tensor_of(x, TG_BF16, 2, shape);
    for (uint32_t seed = 0; seed < 8; seed++)
        for (int how = 0; how < 4; how++) {
            fill(x, seed);
            quantize(ctx, tg_find(ctx, "ref/quantize_block"), &tx, how & 1, how >> 1, &expected);
            quantize(ctx, impl, &tx, how & 1, how >> 1, &found);
            EXPECT(same_codes(found.q, expected.q) && same_codes(found.qt, expected.qt) &&
                       same_scales(found.scale, expected.scale, TILES * ROWS) &&
                       same_scales(found.scale_t, expected.scale_t, TILES * COLUMNS),
                   "%s: other bits than the reference's: seed %u, square %d, power_of_two %d",
                   tg_impl_at(impl)->full_name, seed, how & 1, how >> 1);
        }
}

int main(void)
{
    tg_ctx *ctx = new_context();
    for (int i = 0; i < tg_impl_count(); i++) {
        const char *name = tg_impl_at(i)->full_name;
        if (tg_impl_at(i)->op != tg_op_by_name("quantize_block") || !runs_on_cpu(ctx, i))
            continue;
        check_codes(ctx, name);
        check_bits(ctx, i);
    }
    tg_ctx_destroy(ctx);
    return report();
}
