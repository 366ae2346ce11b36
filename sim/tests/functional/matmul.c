/* matmul.c - the examples' products, alone and with gelu, in every tiling that they are timed in,
 * on small matrices whose sides fill no tile: results, and no fault under any schedule. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ascsim.h"
#include "matmul.h"

void matmul(void);
void matmul_gelu(void);

enum { M = 165, N = 290, K = 320 };

static const struct {
    const char *name;
    int gelu;
    matmul_how how;
} cases[] = {
    {"one core, small tiles", 0, {M, N, K, 1, M, N, 64, 64, 1, 1, 1, 1, 0, 0}},
    {"one core", 0, {M, N, K, 1, M, N, 128, 256, 1, 1, 1, 1, 0, 0}},
    {"uneven columns", 0, {M, N, K, 3, 96, 97, 128, 256, 1, 1, 1, 1, 0, 0}},
    {"packets of two", 0, {M, N, K, 2, 96, 160, 128, 256, 2, 2, 2, 1, 0, 0}},
    {"packets of four and two", 0, {M, N, K, 2, 96, 160, 64, 128, 4, 2, 2, 1, 0, 0}},
    {"bands", 0, {M, N, K, 2, 96, 160, 64, 128, 4, 2, 2, 2, 0, 0}},
    {"the unit flag", 0, {M, N, K, 2, 96, 160, 64, 128, 4, 2, 2, 2, 1, 0}},
    {"floats", 0, {M, N, K, 2, 96, 160, 128, 256, 4, 2, 2, 1, 1, 1}},
    {"tiles of few fractals", 0, {33, 40, 128, 1, 33, 40, 32, 32, 2, 1, 2, 1, 0, 0}},
    {"gelu", 1, {M, N, K, 2, 96, 160, 64, 128, 4, 2, 2, 1, 1, 0}},
    {"gelu of many tiles", 1, {M, N, K, 1, M, N, 32, 32, 4, 2, 2, 1, 0, 0}},
};

static void *memory(ascsim *device, size_t bytes, const char *name, int input)
{
    void *to = ascsim_alloc(device, bytes, name);
    if (input)
        ascsim_written(device, to, bytes);
    return to;
}

static float value_at(const void *c, const matmul_how *how, size_t at)
{
    return how->floats ? ((const float *)c)[at] : (float)((const _Float16 *)c)[at];
}

static int compare(const matmul_how *how, int gelu, const _Float16 *a, const _Float16 *b,
                   const void *c)
{
    for (uint32_t i = 0; i < how->m; i++)
        for (uint32_t j = 0; j < how->n; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < how->k; k++)
                sum += (double)a[i * how->k + k] * (double)b[j * how->k + k];
            sum = gelu ? sum / (1 + exp(-1.702 * sum)) : sum;
            const double found = value_at(c, how, (size_t)i * how->n + j);
            if (!(fabs(found - sum) <= 2e-3 * (fabs(sum) + 1))) {
                printf("[%u][%u] %g, expected %g\n", i, j, found, sum);
                return 1;
            }
        }
    return 0;
}

static int run(int number, uint64_t seed, int threads)
{
    const matmul_how *how = &cases[number].how;
    ascsim *device =
        ascsim_open(&(ascsim_options){.soc = "910B1", .seed = seed, .threads = threads});
    matmul_how *given = memory(device, sizeof *given, "how", 1);
    _Float16 *a = memory(device, how->m * how->k * 2ull, "a", 1);
    _Float16 *b = memory(device, how->n * how->k * 2ull, "b", 1);
    void *c = memory(device, how->m * how->n * 4ull, "c", 0);
    void *out = memory(device, how->m * how->n * 2ull, "out", 0);
    *given = *how;
    for (uint32_t i = 0; i < how->m * how->k; i++)
        a[i] = (_Float16)((float)(i * 7 % 31) * 0.0625f - 0.9f);
    for (uint32_t i = 0; i < how->n * how->k; i++)
        b[i] = (_Float16)((float)(i * 5 % 29) * 0.0625f - 0.8f);
    const ascsim_arg args[] = {ASCSIM_POINTER(given), ASCSIM_POINTER(a),   ASCSIM_POINTER(b),
                               ASCSIM_POINTER(c),     ASCSIM_POINTER(out), ASCSIM_U64(4096)};
    const uint32_t bands = (how->m + how->share_m - 1) / how->share_m;
    const int gelu = cases[number].gelu;
    int wrong = ascsim_launch(device, cases[number].name,
                              gelu ? (ascsim_kernel)matmul_gelu : (ascsim_kernel)matmul,
                              bands * how->columns, args, gelu ? 6 : 4);
    if (wrong)
        printf("%s\n", ascsim_error());
    const ascsim_fault *faults;
    if (ascsim_faults(device, &faults)) {
        ascsim_report_faults(device, stdout);
        wrong = 1;
    }
    wrong = wrong || (seed < 2 && compare(how, gelu, a, b, gelu ? out : c));
    ascsim_close(device);
    return wrong;
}

int main(void)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int way = 0; way < 3; way++)
            if (run((int)i, (uint64_t)way, 3 - way)) {
                printf("%s, seed %d: wrong\n", cases[i].name, way);
                wrong++;
            }
    printf("%d products: %d wrong\n", (int)(sizeof cases / sizeof *cases), wrong);
    return wrong != 0;
}
