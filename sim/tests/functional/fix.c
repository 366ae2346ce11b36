/* fix.c - copies out of L0C compared with their definition: types and scales, rows and columns of
 * blocks, several matrices, relu, atomics; and a product of a product, by way of L1. */
#include "fix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ascsim.h"
#include "value.h"

void fix_kernel(void);
void chain_kernel(void);

enum { CALLS = 800, CHAINS = 60, ROOM = 256 * 1024 };

typedef struct tables {  /* as the fixpipe buffer has them */
    uint64_t scale[128]; /* the low word is a float */
    float slope[256];
} tables;

static const type_id float_outputs[] = {T_float, T_half, T_bfloat16_t, T_int8_t, T_uint8_t};
static const type_id integer_outputs[] = {T_int32_t, T_half, T_half, T_int8_t, T_int8_t};

static type_id output(const fix *f)
{
    return (f->bytes ? integer_outputs : float_outputs)[f->out];
}

static fix draw_fix(void)
{
    fix f = {.bytes = random_below(3) == 0,
             .out = random_below(5),
             .by_column = random_below(2),
             .m = 2 + random_below(80),
             .n = 1 + random_below(100),
             .rows = random_below(3) != 0,
             .relu = random_below(4),
             .planes = 1,
             .scale = 0.03125f * (float)(1 + random_below(9)),
             .alpha = -0.25f};
    if (f.bytes && f.out == 2)
        f.out = 0;
    if (f.bytes && f.out == 0 && f.relu > 1)
        f.relu = 1;
    f.split = !f.rows && !f.bytes && f.out == 0 && random_below(2);
    if (!f.rows)
        f.n = (f.split ? 8 : 16) * (1 + random_below(6));
    f.plane_rows = f.m;
    f.pitch = f.n + random_below(20);
    if (!f.rows)
        f.pitch = f.m * (f.split ? 8 : f.out > 2 ? 32 : 16) + 16 * random_below(3);
    if (f.rows && random_below(4) == 0) { /* bands of 16 rows, each a matrix of its own */
        f.m = 16 * FIX_PLANES;
        f.planes = FIX_PLANES;
        f.plane_rows = 16;
        f.plane_pitch = 16 * f.pitch + random_below(50);
    }
    f.atomic = f.rows && !f.bytes && f.out == 0 && random_below(3) == 0;
    return f;
}

static void *memory(ascsim *device, size_t bytes, const char *name)
{
    uint8_t *to = ascsim_alloc(device, bytes, name);
    memset(to, 0, bytes);
    ascsim_written(device, to, bytes);
    return to;
}

static void fill(type_id type, uint8_t *to, int count)
{
    for (int i = 0; i < count; i++)
        put_value(type, to + i * size_of(type),
                  is_integer(type) ? random_below(256) - 128
                                   : (random_below(2001) - 1000) * 0x1p-8L,
                  RN, 1);
}

static long double result(const fix *f, const uint8_t *a, const uint8_t *b, int i, int j)
{
    const type_id type = f->bytes ? T_int8_t : T_half;
    if (f->bytes) {
        long double sum = 0;
        for (int k = 0; k < FIX_DEPTH; k++)
            sum += get_value(type, a + i * FIX_DEPTH + k) * get_value(type, b + j * FIX_DEPTH + k);
        return sum;
    }
    volatile float total = 0;
    for (int at = 0; at < FIX_DEPTH; at += 16) {
        volatile float group = 0;
        for (int k = at; k < at + 16; k++)
            group += (float)get_value(type, a + 2 * (i * FIX_DEPTH + k)) *
                     (float)get_value(type, b + 2 * (j * FIX_DEPTH + k));
        total += group;
    }
    return total;
}

/* What comes out of it in column j. */
static void expect(const fix *f, const tables *t, int j, long double value, uint8_t *to)
{
    const type_id type = output(f);
    float scale = f->scale;
    if (type == T_int32_t) {
        put_value(type, to, f->relu && value < 0 ? 0 : value, RN, 1);
        return;
    }
    if (f->by_column)
        memcpy(&scale, &t->scale[j], sizeof scale);
    const float slopes[] = {1, 0, f->alpha, t->slope[j]};
    volatile float x = (float)value;
    x = x < 0 && f->relu ? (f->relu == 1 ? 0 : x * slopes[f->relu]) : x;
    if (f->bytes || f->out > 2)
        x *= scale;
    value = x;
    if (type == T_int8_t || type == T_uint8_t) {
        const int low = type == T_int8_t ? -128 : 0, high = type == T_int8_t ? 127 : 255;
        value = fmaxl(low, fminl(high, rintl(value)));
    }
    put_value(type, to, f->atomic ? value + 0 : value, RN, 1); /* a sum with what was there */
}

/* Where element (i, j) stands in what is copied out, in elements. */
static size_t place(const fix *f, int i, int j)
{
    if (f->rows)
        return (size_t)(i / f->plane_rows * f->plane_pitch + i % f->plane_rows * f->pitch + j);
    const int block = f->split ? 8 : f->out > 2 ? 32 : 16;
    return (size_t)(j / block * f->pitch + i * block + j % block);
}

static int compare(const fix *f, const uint8_t *a, const uint8_t *b, const tables *t,
                   const uint8_t *c)
{
    const type_id type = output(f);
    for (int i = 0; i < f->m; i++)
        for (int j = 0; j < f->n; j++) {
            uint8_t expected[8];
            expect(f, t, j, result(f, a, b, i, j), expected);
            const uint8_t *found = c + place(f, i, j) * (size_t)size_of(type);
            if (!same_value(type, found, expected, 0)) {
                printf("bytes %d out %d by column %d m %d n %d rows %d split %d relu %d planes %d: "
                       "[%d][%d] %Lg, expected %Lg\n",
                       f->bytes, f->out, f->by_column, f->m, f->n, f->rows, f->split, f->relu,
                       f->planes, i, j, get_value(type, found), get_value(type, expected));
                return 1;
            }
        }
    return 0;
}

static int failed(ascsim *device, int status)
{
    const ascsim_fault *faults;
    if (status)
        printf("%s\n", ascsim_error());
    if (ascsim_faults(device, &faults)) {
        ascsim_report_faults(device, stdout);
        ascsim_clear_faults(device);
        status = 1;
    }
    return status != 0;
}

static int test_fix(ascsim *device)
{
    fix *what = memory(device, sizeof *what, "what");
    tables *t = memory(device, sizeof *t, "tables");
    uint8_t *a = memory(device, ROOM, "a"), *b = memory(device, ROOM, "b"),
            *c = memory(device, ROOM, "c");
    int wrong = 0;
    for (int i = 0; i < CALLS && wrong < 5; i++) {
        *what = draw_fix();
        const type_id type = what->bytes ? T_int8_t : T_half;
        fill(type, a, what->m * FIX_DEPTH);
        fill(type, b, what->n * FIX_DEPTH);
        for (int j = 0; j < 128; j++) {
            const float scale = 0.015625f * (float)(1 + j % 7);
            t->scale[j] = UINT64_C(0x123400000000); /* the high word is something else */
            memcpy(&t->scale[j], &scale, sizeof scale);
            t->slope[j] = 0.125f * (float)(j % 5);
        }
        memset(c, 0, ROOM);
        const ascsim_arg args[] = {ASCSIM_POINTER(what), ASCSIM_POINTER(a), ASCSIM_POINTER(b),
                                   ASCSIM_POINTER(c), ASCSIM_POINTER(t)};
        wrong +=
            failed(device, ascsim_launch(device, "fix", (ascsim_kernel)fix_kernel, 1, args, 5)) ||
            compare(what, a, b, t, c);
    }
    return wrong;
}

/* Fractals (k, n) of D [n2][n], as L0B has them. */
static void fractals(const chain *p, const _Float16 *d, _Float16 *to)
{
    const int n1 = (p->n2 + 15) / 16;
    for (int j = 0; j < p->n2; j++)
        for (int k = 0; k < p->n; k++)
            to[(k / 16 * n1 + j / 16) * 256 + j % 16 * 16 + k % 16] = d[j * p->n + k];
}

static int compare_chain(const chain *p, const _Float16 *a, const _Float16 *b, const _Float16 *d,
                         const float *c)
{
    for (int i = 0; i < p->m; i++) {
        _Float16 row[128];
        for (int j = 0; j < p->n; j++) {
            double sum = 0; /* exact: small multiples of a power of two */
            for (int k = 0; k < FIX_DEPTH; k++)
                sum += (double)a[i * FIX_DEPTH + k] * (double)b[j * FIX_DEPTH + k];
            row[j] = (_Float16)sum;
        }
        for (int j = 0; j < p->n2; j++) {
            double sum = 0;
            for (int k = 0; k < p->n; k++)
                sum += (double)row[k] * (double)d[j * p->n + k];
            if (fabs(sum - c[i * p->n2 + j]) > 1e-5 * (fabs(sum) + 1)) {
                printf("m %d n %d n2 %d: [%d][%d] %g, expected %g\n", p->m, p->n, p->n2, i, j,
                       c[i * p->n2 + j], sum);
                return 1;
            }
        }
    }
    return 0;
}

static int test_chain(ascsim *device)
{
    chain *what = memory(device, sizeof *what, "what");
    _Float16 *a = memory(device, ROOM, "a"), *b = memory(device, ROOM, "b"),
             *d = memory(device, ROOM, "d"), *packed = memory(device, ROOM, "packed");
    float *c = memory(device, ROOM, "c");
    int wrong = 0;
    for (int i = 0; i < CHAINS && wrong < 5; i++) {
        *what = (chain){2 + random_below(90), 16 * (1 + random_below(7)), 1 + random_below(100),
                        random_below(2)};
        for (int j = 0; j < what->m * FIX_DEPTH; j++)
            a[j] = (_Float16)((float)(random_below(17) - 8) * 0.125f);
        for (int j = 0; j < what->n * FIX_DEPTH; j++)
            b[j] = (_Float16)((float)(random_below(17) - 8) * 0.125f);
        for (int j = 0; j < what->n2 * what->n; j++)
            d[j] = (_Float16)((float)(random_below(17) - 8) * 0.125f);
        memset(packed, 0, ROOM);
        fractals(what, d, packed);
        const ascsim_arg args[] = {ASCSIM_POINTER(what), ASCSIM_POINTER(a), ASCSIM_POINTER(b),
                                   ASCSIM_POINTER(packed), ASCSIM_POINTER(c)};
        wrong += failed(device,
                        ascsim_launch(device, "chain", (ascsim_kernel)chain_kernel, 1, args, 5)) ||
                 compare_chain(what, a, b, d, c);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    random_seed(argc > 1 ? strtoull(argv[1], NULL, 0) : 1);
    ascsim *device = ascsim_open(&(ascsim_options){.timing = ASCSIM_TIME_NONE, .threads = 1});
    const int wrong = test_fix(device) + test_chain(device);
    ascsim_close(device);
    printf("%d copies out of L0C, %d products of a product: %d wrong\n", CALLS, CHAINS, wrong);
    return wrong != 0;
}
