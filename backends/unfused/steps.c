/* The passes of eager.h: plain loops over blocks of a row that lie in the first cache. Operands are
 * widened to f32, computed with, and rounded to the type of the result. */
#include <string.h>

#include "lane.h"
#include "steps.h"

enum { BLOCK = 512 }; /* elements, a multiple of PARTS */
enum { PARTS = 64 };  /* sums of a row that are formed side by side */

static const char *row_of(const mat *m, int64_t i)
{
    const int64_t row = m->repeat > 1 ? i / m->repeat : i;
    return element_at(m->data, m->type, m->rows == 1 ? 0 : row * m->stride);
}

/* n elements of `row` from j on, in f32: where they are, or in room. */
static const float *load(int type, const char *row, int64_t j, int64_t n, float *restrict room)
{
    const uint16_t *narrow = (const uint16_t *)row + j;
    if (type == TG_F32)
        return (const float *)row + j;
    if (type == TG_BF16)
        for (int64_t i = 0; i < n; i++)
            room[i] = from_bf16(narrow[i]);
    else
        for (int64_t i = 0; i < n; i++)
            room[i] = from_f16(narrow[i]);
    return room;
}

static void store(int type, char *row, int64_t j, int64_t n, const float *restrict from)
{
    uint16_t *restrict narrow = (uint16_t *)row + j;
    if (type == TG_F32)
        memcpy((float *)row + j, from, (size_t)n * sizeof *from);
    else if (type == TG_BF16)
        for (int64_t i = 0; i < n; i++)
            narrow[i] = to_bf16(from[i]);
    else
        for (int64_t i = 0; i < n; i++)
            narrow[i] = to_f16(from[i]);
}

/* out = a b of complex numbers, or a conj(b) where sign is -1 */
static void multiply_complex(float sign, int64_t n, float *restrict out, const float *a,
                             const float *b)
{
    for (int64_t i = 0; i + 1 < n; i += 2) {
        const float imaginary = sign * b[i + 1];
        out[i] = a[i] * b[i] - a[i + 1] * imaginary;
        out[i + 1] = a[i + 1] * b[i] + a[i] * imaginary;
    }
}

#define EACH(OP, result)                \
    case OP:                            \
        for (int64_t i = 0; i < n; i++) \
            out[i] = result;            \
        break;

static void compute(eager_op op, int64_t n, float *restrict out, const float *a, const float *b)
{
    switch (op) {
        EACH(EAGER_COPY, a[i])
        EACH(EAGER_NEG, -a[i])
        EACH(EAGER_EXP, lane_exp(a[i]))
        EACH(EAGER_LOG, lane_log(a[i]))
        EACH(EAGER_SQRT, sqrtf(a[i]))
        EACH(EAGER_RSQRT, 1.0f / sqrtf(a[i]))
        EACH(EAGER_SIGMOID, lane_sigmoid(a[i]))
        EACH(EAGER_TANH, lane_tanh(a[i]).tanh)
        EACH(EAGER_TANH_SLOPE, lane_tanh(a[i]).slope)
        EACH(EAGER_ERFC, lane_erfc(a[i]))
        EACH(EAGER_ABS, fabsf(a[i]))
        EACH(EAGER_ADD, a[i] + b[i])
        EACH(EAGER_SUB, a[i] - b[i])
        EACH(EAGER_MUL, a[i] * b[i])
        EACH(EAGER_DIV, a[i] / b[i])
        EACH(EAGER_GREATER, a[i] > b[i] ? 1.0f : 0.0f)
        EACH(EAGER_MAX, b[i] > a[i] ? b[i] : a[i]) /* a NaN stays */
        EACH(EAGER_MIN, b[i] < a[i] ? b[i] : a[i])
    case EAGER_COMPLEX_MUL:
    case EAGER_COMPLEX_MUL_CONJ:
        multiply_complex(op == EAGER_COMPLEX_MUL ? 1.0f : -1.0f, n, out, a, b);
        break;
    case EAGER_SUM: /* a reduction alone */
        break;
    }
}

/* Moves n results, the first of them number `first` of the step's. */
static void shake(float *restrict x, int64_t n, uint64_t key, int64_t first)
{
    for (int64_t i = 0; key && i < n; i++) {
        uint64_t bits = (key + (uint64_t)(first + i)) * 0x9e3779b97f4a7c15u;
        bits = (bits ^ bits >> 32) * 0xc4ceb9fe1a85ec53u;
        const float size = 0x1p-25f + (float)(bits >> 41) * 0x1p-47f;
        x[i] += x[i] * (bits & 1 << 20 ? size : -size);
    }
}

static void fill(float *restrict to, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = value;
}

/* An operand's row: element by element, or one number for all of them, which room holds then. */
typedef struct operand {
    const mat *m;
    const char *row; /* NULL: one number */
    float room[BLOCK];
} operand;

static void open_operand(operand *o, const mat *m, int64_t i, int64_t cols, float scalar)
{
    const char *row = m->data ? row_of(m, i) : NULL;
    const int one = !row || (m->cols == 1 && cols > 1);
    float value = scalar;
    o->m = m;
    o->row = one ? NULL : row;
    if (row && one)
        value = *load(m->type, row, 0, 1, &value);
    if (one)
        fill(o->room, cols < BLOCK ? cols : BLOCK, value);
}

static const float *elements(operand *o, int64_t j, int64_t n)
{
    return o->row ? load(o->m->type, o->row, j, n, o->room) : o->room;
}

static void map(const eager_step *s, int64_t begin, int64_t end)
{
    operand a, b;
    float result[BLOCK];
    const int64_t cols = s->out.cols;
    for (int64_t i = begin; i < end; i++) {
        char *out = (char *)row_of(&s->out, i);
        open_operand(&a, &s->a, i, cols, 0);
        open_operand(&b, &s->b, i, cols, s->scalar);
        for (int64_t j = 0; j < cols; j += BLOCK) {
            const int64_t n = cols - j < BLOCK ? cols - j : BLOCK;
            compute(s->op, n, result, elements(&a, j, n), elements(&b, j, n));
            shake(result, n, s->shake, i * cols + j);
            store(s->out.type, out, j, n, result);
        }
    }
}

/* Part k takes elements k, k + PARTS, k + 2 PARTS ... */
static void gather(int max, float *restrict part, const float *x, int64_t n)
{
    const int64_t whole = n / PARTS * PARTS;
    for (int64_t j = 0; j < whole; j += PARTS)
        if (max)
            for (int64_t k = 0; k < PARTS; k++)
                part[k] = part[k] > x[j + k] ? part[k] : x[j + k];
        else
            for (int64_t k = 0; k < PARTS; k++)
                part[k] += x[j + k];
    for (int64_t k = 0; k < n - whole; k++)
        part[k] = !max ? part[k] + x[whole + k] : part[k] > x[whole + k] ? part[k] : x[whole + k];
}

static float reduce_row(const mat *m, int64_t i, int max)
{
    float part[PARTS], room[BLOCK];
    for (int k = 0; k < PARTS; k++)
        part[k] = max ? -INFINITY : 0;
    for (int64_t j = 0; j < m->cols; j += BLOCK) {
        const int64_t n = m->cols - j < BLOCK ? m->cols - j : BLOCK;
        gather(max, part, load(m->type, row_of(m, i), j, n, room), n);
    }
    for (int width = PARTS / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++)
            part[k] = !max                        ? part[k] + part[k + width]
                      : part[k] > part[k + width] ? part[k]
                                                  : part[k + width];
    return part[0];
}

static void reduce(const eager_step *s, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        float r = reduce_row(&s->a, i, s->op == EAGER_MAX);
        shake(&r, 1, s->shake, i);
        store(s->out.type, (char *)row_of(&s->out, i), 0, 1, &r);
    }
}

/* Strips of columns, whose sums stay in the first cache. */
static void sum_columns(const eager_step *s, int64_t begin, int64_t end)
{
    float sum[BLOCK], room[BLOCK];
    for (int64_t j = begin; j < end; j += BLOCK) {
        const int64_t n = end - j < BLOCK ? end - j : BLOCK;
        fill(sum, n, 0);
        for (int64_t i = 0; i < s->a.rows; i++) {
            const float *x = load(s->a.type, row_of(&s->a, i), j, n, room);
            for (int64_t k = 0; k < n; k++)
                sum[k] += x[k];
        }
        shake(sum, n, s->shake, j);
        store(s->out.type, s->out.data, j, n, sum);
    }
}

#define STEPS_(level) eager_steps_##level
#define STEPS(level) STEPS_(level)
extern const eager_steps STEPS(EAGER_LEVEL);
const eager_steps STEPS(EAGER_LEVEL) = {map, reduce, sum_columns};
