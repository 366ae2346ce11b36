/* cube.c - products of one tile compared with their definition: all types, transposes, sizes that
 * fill no fractal, bias, two products in one tile, ways out; the sums in the order that the page on
 * the model gives. */
#include <stdio.h>
#include <stdlib.h>

#include "ascsim.h"
#include "cube.h"
#include "value.h"

void cube_product(void);

enum { CALLS = 1500, ROOM = 128 * 1024 };

static const type_id inputs[] = {T_half, T_bfloat16_t, T_float, T_int8_t};
static const int groups[] = {16, 16, 8, 32}; /* elements of 32 bytes */

static product draw_product(void)
{
    product p = {.type = random_below(PRODUCT_TYPES),
                 .a_turned = random_below(2),
                 .b_turned = random_below(2),
                 .m = 1 + random_below(100),
                 .k = 1 + random_below(100),
                 .n = 1 + random_below(100)};
    const int bytes = size_of(inputs[p.type]);
    if (random_below(8) == 0)
        p.m = 1;
    if (bytes == 1 && p.a_turned)
        p.m = 32 * (1 + random_below(3));
    if (bytes == 1 && !p.b_turned)
        p.n = 32 * (1 + random_below(3));
    p.out = p.type == PRODUCT_I8 ? 0 : random_below(4);
    p.image = !p.a_turned && random_below(2);
    p.unit_flag = random_below(2);
    p.twice = random_below(3) == 0;
    p.bias = bytes > 1 && random_below(3) == 0;
    p.relu = random_below(3) == 0;
    p.hf32 = p.type == PRODUCT_FLOAT && random_below(2);
    return p;
}

static void *memory(ascsim *device, int bytes, const char *name)
{
    uint8_t *to = ascsim_alloc(device, (size_t)bytes, name);
    memset(to, 0, (size_t)bytes);
    ascsim_written(device, to, (size_t)bytes);
    return to;
}

static void fill(type_id type, uint8_t *to, int count)
{
    for (int i = 0; i < count; i++)
        put_value(type, to + i * size_of(type),
                  is_integer(type) ? random_below(256) - 128
                                   : (random_below(20001) - 10000) * 0x1.35p-12L,
                  RN, 1);
}

/* Eleven bits of fraction, nearest even. */
static float narrowed(float x)
{
    int exponent;
    const double mantissa = frexp(x, &exponent);
    return (float)ldexp(rint(ldexp(mantissa, 12)), exponent - 12);
}

static float element(const product *p, const uint8_t *at, int index)
{
    const type_id type = inputs[p->type];
    const float x = (float)get_value(type, at + index * size_of(type));
    return p->hf32 ? narrowed(x) : x;
}

/* Sums of groups of k, one after the other, each of its products one after the other. */
static float summed(const product *p, const uint8_t *a, const uint8_t *b, int i, int j, float start)
{
    volatile float total = start;
    for (int round = 0; round <= p->twice; round++)
        for (int at = 0; at < p->k; at += groups[p->type]) {
            volatile float group = 0;
            for (int k = at; k < at + groups[p->type] && k < p->k; k++) {
                const float left = element(p, a, p->a_turned ? k * p->m + i : i * p->k + k);
                const float right = element(p, b, p->b_turned ? j * p->k + k : k * p->n + j);
                const float one = left * right;
                group += one;
            }
            total += group;
        }
    return total;
}

static int compare(const product *p, const uint8_t *a, const uint8_t *b, const float *bias,
                   const uint8_t *c)
{
    static const type_id outputs[] = {T_float, T_half, T_bfloat16_t, T_int8_t};
    const type_id type = p->type == PRODUCT_I8 ? T_int32_t : outputs[p->out];
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->n; j++) {
            long double value = summed(p, a, b, i, j, p->bias ? bias[j] : 0);
            value = p->relu && value < 0 ? 0 : value;
            uint8_t expected[8];
            if (type == T_int8_t)
                value = fmaxl(-128, fminl(127, rintl((long double)((float)value * 0.125f))));
            put_value(type, expected, value, RN, 1);
            const uint8_t *found = c + (i * p->n + j) * size_of(type);
            if (!same_value(type, found, expected, 0)) {
                printf("type %d%s%s m %d k %d n %d out %d image %d unit %d twice %d bias %d relu "
                       "%d hf32 %d: "
                       "[%d][%d] %Lg, expected %Lg\n",
                       p->type, p->a_turned ? " A^T" : "", p->b_turned ? " B^T" : "", p->m, p->k,
                       p->n, p->out, p->image, p->unit_flag, p->twice, p->bias, p->relu, p->hf32, i,
                       j, get_value(type, found), get_value(type, expected));
                return 1;
            }
        }
    return 0;
}

static int run(ascsim *device, const product *p)
{
    const int bytes = size_of(inputs[p->type]);
    product *what = memory(device, sizeof *what, "what");
    uint8_t *a = memory(device, ROOM, "a"), *b = memory(device, ROOM, "b"),
            *c = memory(device, ROOM, "c");
    float *bias = memory(device, 4096, "bias");
    *what = *p;
    fill(inputs[p->type], a, p->m * p->k);
    fill(inputs[p->type], b, p->k * p->n);
    fill(T_float, (uint8_t *)bias, p->n);
    const ascsim_arg args[] = {ASCSIM_POINTER(what), ASCSIM_POINTER(a), ASCSIM_POINTER(b),
                               ASCSIM_POINTER(c), ASCSIM_POINTER(bias)};
    int wrong = 0;
    if (ascsim_launch(device, "cube_product", (ascsim_kernel)cube_product, 1, args, 5)) {
        printf("%s\n", ascsim_error());
        wrong = 1;
    }
    wrong = wrong || compare(p, a, b, bias, c);
    const ascsim_fault *faults;
    if (!wrong && ascsim_faults(device, &faults)) {
        printf("type %d%s%s m %d k %d n %d, image %d, %d bytes:\n", p->type,
               p->a_turned ? " A^T" : "", p->b_turned ? " B^T" : "", p->m, p->k, p->n, p->image,
               bytes);
        ascsim_report_faults(device, stdout);
        wrong = 1;
    }
    ascsim_clear_faults(device);
    ascsim_free(device, what);
    ascsim_free(device, a);
    ascsim_free(device, b);
    ascsim_free(device, c);
    ascsim_free(device, bias);
    return wrong;
}

int main(int argc, char **argv)
{
    random_seed(argc > 1 ? strtoull(argv[1], NULL, 0) : 1);
    int wrong = 0;
    for (int seed = 0; seed < 3; seed++) {
        ascsim *device = ascsim_open(
            &(ascsim_options){.timing = ASCSIM_TIME_NONE, .seed = (uint64_t)seed, .threads = 1});
        for (int i = 0; i < CALLS / 3 && wrong < 10; i++) {
            const product p = draw_product();
            wrong += run(device, &p);
        }
        ascsim_close(device);
    }
    printf("%d products of a tile: %d wrong\n", CALLS, wrong);
    return wrong != 0;
}
