/* bench/rows_bound.c - what plain loops over rows reach that do the same operations as an operator:
 * the bound of docs/results/rows-cpu.md for rows that stay below the machine's limit.
 *
 *   cc -O3 -march=native -Isrc/simd bench/rows_bound.c -lm -o rows_bound
 *   ./rows_bound                                           a line for each loop and type
 *
 * A loop passes over its rows as often as the operator must, since a result depends on all of a
 * row; the last pass makes what is written, past the caches, and asks for the next row.
 * Exponentials and what is made of them are the library's own. Printed is the time of moving the
 * same bytes alone, as `tigon bench` moves them for its limit, over the loop's: the median over
 * rounds in which both run one after the other, by the process's own time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "simd.h"

v_distances v_distance = {2048, 8192, 16384};

enum { COLUMNS = 4096, STREAMS = 5, ROUNDS = 15, BYTES = 64 << 20 };

/* What is done to the elements of a place: in the last pass, and in those before it. */
typedef enum work { SUM, TANH, SLOPE, SILU, EXP, DIVERGENCE } work;

static char *stream[STREAMS]; /* those that are read, then those that are written */

SIMD_INLINE vf last_work(work w, const vf *in, int reads)
{
    vf a = in[0];
    for (int k = 1; k < reads; k++)
        a += in[k];
    if (w == TANH)
        return v_tanh_rational(a);
    if (w == SLOPE) {
        const v_tanhs t = v_tanh_slope(a);
        return t.tanh + t.slope;
    }
    if (w == SILU)
        return v_silu(a);
    if (w == EXP)
        return v_exp_from(a, v_origin_at(0.0f));
    if (w ==
        DIVERGENCE) { /* of the larger probability, of its share in the other, of the mixture */
        const vf2 power = v_exp_expm1(v_minus_abs(in[0] - in[1]));
        return v_exp_from(a, v_origin_at(0.0f)) * v_log1p(power.a) + power.b;
    }
    return a * v_set(1.5f);
}

SIMD_INLINE vf first_work(work w, const vf *in, int reads)
{
    vf a = {0};
    for (int k = 0; k < reads; k++)
        a += w == DIVERGENCE ? v_exp_from(in[k], v_origin_at(0.0f)) : in[k] * in[k];
    return a;
}

SIMD_INLINE void load_all(el e, int64_t row, int64_t j, int reads, vf *a, vf *b)
{
    for (int k = 0; k < reads; k++) {
        const vf2 v = v_load2(e, e, stream[k] + row * COLUMNS * el_size(e), j);
        a[k] = v.a;
        b[k] = v.b;
    }
}

SIMD_INLINE vf pass_over(el e, work w, int reads, int64_t row)
{
    vf2 sum[2] = {{{0}, {0}}, {{0}, {0}}};
    for (int64_t j = 0; j < COLUMNS; j += 2 * V_PAIR)
        for (int half = 0; half < 2; half++) {
            vf a[STREAMS], b[STREAMS];
            load_all(e, row, j + half * V_PAIR, reads, a, b);
            sum[half].a += first_work(w, a, reads);
            sum[half].b += first_work(w, b, reads);
        }
    return v_set(v_sum(sum[0].a + sum[0].b + sum[1].a + sum[1].b) * 1e-9f);
}

SIMD_INLINE void rows_of(el e, work w, int reads, int writes, int passes, int64_t rows)
{
    const int64_t size = COLUMNS * el_size(e);
    vf all = {0};
    for (int64_t row = 0; row < rows; row++) {
        vf add = {0};
        for (int pass = 1; pass < passes; pass++)
            add += pass_over(e, w, reads, row);
        for (int64_t j = 0; j < COLUMNS; j += V_PAIR) {
            vf a[STREAMS], b[STREAMS];
            load_all(e, row, j, reads, a, b);
            const vf2 y = {last_work(w, a, reads) + add, last_work(w, b, reads) + add};
            for (int k = 0; k < writes; k++)
                v_stream2(e, stream[reads + k] + row * size, j, y);
            if (!writes)
                all += y.a + y.b;
            for (int k = 0; k < reads && passes > 1; k++)
                v_prefetch2(e, stream[k] + (row + 1) * size, j);
            for (int k = 0; k < reads && passes == 1; k++)
                v_ahead2(e, stream[k] + row * size, j);
        }
    }
    v_fence();
    __asm__ volatile("" : : "m"(all));
}

/* The same bytes, vector by vector. */
SIMD_INLINE void move(int reads, int writes, int64_t bytes)
{
    vf sum = {0};
    for (int64_t i = 0; i < bytes; i += 4 * VL) {
        vu v = (vu)v_set(1.5f);
        for (int k = 0; k < reads; k++)
            v ^= *(const vu_mem *)(stream[k] + i);
        for (int k = 0; k < writes; k++)
            v_stream(EL_F32, stream[reads + k] + i, 0, (vf)v);
        if (!writes)
            sum = (vf)((vu)sum ^ v);
    }
    v_fence();
    __asm__ volatile("" : : "m"(sum));
}

/* name, work, streams read and written, passes */
#define LOOPS(LOOP)                                      \
    LOOP("rms_norm forward", SUM, 1, 1, 2)               \
    LOOP("rms_norm backward", SUM, 2, 1, 2)              \
    LOOP("fused_add_rms_norm forward", SUM, 2, 2, 2)     \
    LOOP("fused_add_rms_norm backward", SUM, 3, 1, 2)    \
    LOOP("layer_norm forward", SUM, 1, 1, 3)             \
    LOOP("layer_norm backward", SUM, 2, 1, 2)            \
    LOOP("group_norm forward", SUM, 1, 1, 3)             \
    LOOP("group_norm backward", SUM, 2, 1, 2)            \
    LOOP("dyt forward", TANH, 1, 1, 1)                   \
    LOOP("dyt backward", SLOPE, 2, 1, 1)                 \
    LOOP("geglu forward", TANH, 2, 1, 1)                 \
    LOOP("geglu backward", SLOPE, 3, 2, 1)               \
    LOOP("sparsemax forward", SUM, 1, 1, 3)              \
    LOOP("sparsemax backward", SUM, 2, 1, 2)             \
    LOOP("selective_log_softmax forward", EXP, 1, 0, 1)  \
    LOOP("selective_log_softmax backward", EXP, 1, 1, 1) \
    LOOP("grpo_loss forward", EXP, 1, 0, 1)              \
    LOOP("grpo_loss backward", EXP, 1, 1, 1)             \
    LOOP("softmax_jsd forward", DIVERGENCE, 2, 0, 2)     \
    LOOP("softmax_jsd backward", DIVERGENCE, 2, 1, 2)    \
    LOOP("sum_rows forward", SUM, 1, 0, 1)               \
    LOOP("swiglu forward", SILU, 2, 1, 1)                \
    LOOP("swiglu backward", SILU, 3, 2, 1)

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, ROUNDS, sizeof *x, by_size);
    return x[ROUNDS / 2];
}

#define RUN(name, w, reads, writes, passes)                                           \
    for (int type = EL_F32; type <= EL_BF16; type++) {                                \
        double share[ROUNDS];                                                         \
        const int64_t rows = BYTES / (COLUMNS * el_size((el)type));                   \
        for (int r = 0; r < ROUNDS; r++) {                                            \
            const double start = seconds();                                           \
            move(reads, writes, BYTES);                                               \
            const double moved = seconds();                                           \
            if (type == EL_F32)                                                       \
                rows_of(EL_F32, w, reads, writes, passes, rows);                      \
            else                                                                      \
                rows_of(EL_BF16, w, reads, writes, passes, rows);                     \
            share[r] = (moved - start) / (seconds() - moved);                         \
        }                                                                             \
        printf("%s %s %.2f\n", name, type == EL_F32 ? "f32" : "bf16", median(share)); \
    }

int main(void)
{
    for (int k = 0; k < STREAMS; k++) {
        stream[k] = aligned_alloc(4096, BYTES + (1 << 20));
        if (!stream[k])
            return 1;
        for (int64_t i = 0; i < (BYTES + (1 << 20)) / 2;
             i++) /* numbers in [-2, -1], of both types */
            ((uint16_t *)stream[k])[i] = (uint16_t)(0xbf80 + i * 37 % 128);
    }
    LOOPS(RUN)
    return 0;
}
