/* The passes of eager.h for one ISA level: load, compute in f32, round, store. */
#include "eager/eager_steps.h"
#include "simd.h"

/* Row i of an operand. */
static const void *row_of(const mat *m, int64_t i)
{
    const int64_t row = m->repeat > 1 ? i / m->repeat : i;
    return (const char *)m->data +
           (m->rows == 1 ? 0 : row * m->stride) * (int64_t)tg_type_size(m->type);
}

/* A vector of an operand's row: broadcast where it has one column. */
SIMD_INLINE vf operand(el e, int column, const void *row, int64_t j, int64_t left)
{
    if (column)
        return v_set(el_get(e, row, 0));
    return left == VL ? v_load(e, row, j) : v_load_n(e, row, j, left, 0);
}

SIMD_INLINE vf compute(eager_op op, vf a, vf b)
{
    switch (op) {
    case EAGER_NEG:
        return -a;
    case EAGER_EXP:
        return v_exp(a);
    case EAGER_LOG:
        return v_log(a);
    case EAGER_SQRT:
        return v_sqrt(a);
    case EAGER_RECIPROCAL:
        return v_set(1.0f) / a;
    case EAGER_RSQRT:
        return v_set(1.0f) / v_sqrt(a);
    case EAGER_SIGMOID:
        return v_sigmoid(a);
    case EAGER_TANH:
        return v_tanh(a);
    case EAGER_TANH_SLOPE:
        return v_tanh_slope(a).slope;
    case EAGER_ERFC:
        return v_erfc(a);
    case EAGER_ABS:
        return v_abs(a);
    case EAGER_ADD:
        return a + b;
    case EAGER_SUB:
        return a - b;
    case EAGER_MUL:
        return a * b;
    case EAGER_DIV:
        return a / b;
    case EAGER_GREATER:
        return v_select(a > b, v_set(1.0f), v_set(0.0f));
    case EAGER_MAX:
        return v_max(b, a); /* NaN stays, as in frameworks */
    case EAGER_COMPLEX_MUL:
        return v_complex_mul(a, b, 1.0f);
    case EAGER_COMPLEX_MUL_CONJ:
        return v_complex_mul(a, b, -1.0f);
    default:
        return a;
    }
}

SIMD_INLINE void map_row(eager_op op, el eo, el ea, el eb, const eager_step *s, int64_t i)
{
    const void *a = row_of(&s->a, i), *b = s->b.data ? row_of(&s->b, i) : NULL;
    void *out = (void *)row_of(&s->out, i);
    const int64_t n = s->out.cols;
    const int a_column = s->a.cols == 1 && n > 1, b_column = s->b.cols == 1 && n > 1;
    const vf scalar = b_column && b ? v_set(el_get(eb, b, 0)) : v_set(s->scalar);
    const int full_b = b && !b_column;
    for (int64_t j = 0; j < n; j += VL) {
        const int64_t left = n - j < VL ? n - j : VL;
        const vf x = operand(ea, a_column, a, j, left);
        const vf y = full_b ? operand(eb, 0, b, j, left) : scalar;
        const vf z = compute(op, x, y);
        if (left == VL)
            v_store(eo, out, j, z);
        else
            v_store_n(eo, out, j, left, z);
    }
}

/* Three types of operands for each operation would be too much code: the common case, all of one
 * type, is specialised. */
SIMD_INLINE void map_op(eager_op op, const eager_step *s, int64_t begin, int64_t end)
{
    const el eo = (el)tg_el(s->out.type), ea = (el)tg_el(s->a.type),
             eb = s->b.data ? (el)tg_el(s->b.type) : ea;
    for (int64_t i = begin; i < end; i++) {
        if (eo == EL_F32 && ea == EL_F32 && eb == EL_F32)
            map_row(op, EL_F32, EL_F32, EL_F32, s, i);
        else if (eo == EL_BF16 && ea == EL_BF16 && eb == EL_BF16)
            map_row(op, EL_BF16, EL_BF16, EL_BF16, s, i);
        else
            map_row(op, eo, ea, eb, s, i);
    }
}

#define MAP(op)                    \
    case op:                       \
        map_op(op, s, begin, end); \
        break;

static void map(const eager_step *s, int64_t begin, int64_t end)
{
    switch (s->op) {
        MAP(EAGER_COPY)
        MAP(EAGER_NEG)
        MAP(EAGER_EXP)
        MAP(EAGER_LOG)
        MAP(EAGER_SQRT)
        MAP(EAGER_RECIPROCAL)
        MAP(EAGER_RSQRT)
        MAP(EAGER_SIGMOID)
        MAP(EAGER_TANH)
        MAP(EAGER_TANH_SLOPE)
        MAP(EAGER_ERFC)
        MAP(EAGER_ABS)
        MAP(EAGER_ADD)
        MAP(EAGER_SUB)
        MAP(EAGER_MUL)
        MAP(EAGER_DIV)
        MAP(EAGER_GREATER)
        MAP(EAGER_MAX)
        MAP(EAGER_COMPLEX_MUL)
        MAP(EAGER_COMPLEX_MUL_CONJ)
    default:
        break;
    }
}

SIMD_INLINE float reduce_row(el e, int max, const void *row, int64_t n)
{
    const float empty = max ? -INFINITY : 0.0f;
    vf r[4] = {v_set(empty), v_set(empty), v_set(empty), v_set(empty)};
    int64_t j = 0;
    for (; j + 4 * VL <= n; j += 4 * VL)
        for (int k = 0; k < 4; k++) {
            const vf a = v_load(e, row, j + k * VL);
            r[k] = max ? v_max(r[k], a) : r[k] + a;
        }
    for (; j < n; j += VL) {
        const vf a = v_load_n(e, row, j, n - j < VL ? n - j : VL, empty);
        r[0] = max ? v_max(r[0], a) : r[0] + a;
    }
    if (max)
        return v_hmax(v_max(v_max(r[0], r[1]), v_max(r[2], r[3])));
    return v_sum((r[0] + r[1]) + (r[2] + r[3]));
}

SIMD_INLINE void reduce_rows(el e, const eager_step *s, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const void *row = row_of(&s->a, i);
        const float r = s->op == EAGER_MAX ? reduce_row(e, 1, row, s->a.cols)
                                           : reduce_row(e, 0, row, s->a.cols);
        el_set((el)tg_el(s->out.type), (void *)row_of(&s->out, i), 0, r);
    }
}

static void reduce(const eager_step *s, int64_t begin, int64_t end)
{
    EL_SPECIALIZE((el)tg_el(s->a.type), reduce_rows, s, begin, end);
}

/* Strips of columns, so that a strip's sums stay in registers and each row's lines are read once.
 */
SIMD_INLINE void sum_strips(el e, const eager_step *s, int64_t begin, int64_t end)
{
    enum { STRIP = 4 * VL };
    const el eo = (el)tg_el(s->out.type);
    for (int64_t j = begin; j < end; j += STRIP) {
        vf sum[4] = {{0}, {0}, {0}, {0}};
        const int64_t width = end - j < STRIP ? end - j : STRIP;
        for (int64_t i = 0; i < s->a.rows; i++) {
            const void *row = row_of(&s->a, i);
            if (width == STRIP)
                for (int k = 0; k < 4; k++)
                    sum[k] += v_load(e, row, j + k * VL);
            else
                for (int64_t k = 0; k * VL < width; k++)
                    sum[k] +=
                        v_load_n(e, row, j + k * VL, width - k * VL < VL ? width - k * VL : VL, 0);
        }
        for (int64_t k = 0; k * VL < width; k++)
            v_store_n(eo, s->out.data, j + k * VL, width - k * VL < VL ? width - k * VL : VL,
                      sum[k]);
    }
}

static void sum_columns(const eager_step *s, int64_t begin, int64_t end)
{
    EL_SPECIALIZE((el)tg_el(s->a.type), sum_strips, s, begin, end);
}

#define LEVEL_STEPS_(level) tg_eager_steps_##level
#define LEVEL_STEPS(level) LEVEL_STEPS_(level)
extern const eager_steps LEVEL_STEPS(TG_LEVEL);
const eager_steps LEVEL_STEPS(TG_LEVEL) = {map, reduce, sum_columns};
