/* execute/vector_integer.c - integer lanes. A result that does not fit is cut to its low bits, or
 * saturates where the mode asks. */
#include "vector.h"

#define LOOP(name, T, expression)                                                  \
    SIM_LOOP static void name(const sim_instr *instr, void *dst, const void *src0, \
                              const void *src1, int count)                         \
    {                                                                              \
        T *d = dst;                                                                \
        const T *s = src0, *t = src1;                                              \
        const int32_t v = (T)instr->scalar_bytes[0];                               \
        const int saturates = instr->mode & SIM_MODE_INTEGER_LIMIT;                \
        (void)t, (void)v, (void)saturates;                                         \
        SIM_INDEPENDENT for (int i = 0; i < count; i++)                            \
        {                                                                          \
            const T a = s[i];                                                      \
            d[i] = (T)(expression);                                                \
        }                                                                          \
    }

static inline int64_t fit16(int64_t value, int saturates)
{
    return !saturates          ? value
           : value < INT16_MIN ? INT16_MIN
           : value > INT16_MAX ? INT16_MAX
                               : value;
}
static inline int64_t fit32(int64_t value, int saturates)
{
    return !saturates          ? value
           : value < INT32_MIN ? INT32_MIN
           : value > INT32_MAX ? INT32_MAX
                               : value;
}

/* To nearest, halves upwards: the last bit shifted out is added. */
static inline int64_t shift_round(int64_t value, int distance)
{
    return distance > 0 ? ((value >> (distance - 1)) + 1) >> 1 : value;
}

#define ARITHMETIC(T, bits)                                                               \
    LOOP(add_##bits, T, fit##bits((int64_t)a + t[i], saturates))                          \
    LOOP(sub_##bits, T, fit##bits((int64_t)a - t[i], saturates))                          \
    LOOP(mul_##bits, T, fit##bits((int64_t)a *t[i], saturates))                           \
    LOOP(max_##bits, T, a > t[i] ? a : t[i])                                              \
    LOOP(min_##bits, T, a < t[i] ? a : t[i])                                              \
    LOOP(add_scalar_##bits, T, fit##bits((int64_t)a + v, saturates))                      \
    LOOP(sub_scalar_##bits, T, fit##bits((int64_t)a - v, saturates))                      \
    LOOP(mul_scalar_##bits, T, fit##bits((int64_t)a *v, saturates))                       \
    LOOP(max_scalar_##bits, T, a > v ? a : v)                                             \
    LOOP(min_scalar_##bits, T, a < v ? a : v)                                             \
    LOOP(relu_##bits, T, a > 0 ? a : 0)                                                   \
    LOOP(add_relu_##bits, T, fit##bits((int64_t)a + t[i] > 0 ? (int64_t)a + t[i] : 0, 1)) \
    LOOP(sub_relu_##bits, T, fit##bits((int64_t)a - t[i] > 0 ? (int64_t)a - t[i] : 0, 1))
ARITHMETIC(int16_t, 16)
ARITHMETIC(int32_t, 32)

#define DISTANCE ((int)instr->scalar_bytes[0])
#define SHIFTS(T, U, width)                                                \
    LOOP(shiftleft_##T, T, DISTANCE >= width ? 0 : (U)((U)a << DISTANCE))  \
    LOOP(shiftright_##T, T, (int64_t)a >> (DISTANCE > 63 ? 63 : DISTANCE)) \
    LOOP(shiftright_round_##T, T, shift_round((int64_t)a, DISTANCE > 63 ? 63 : DISTANCE))
SHIFTS(int16_t, uint16_t, 16)
SHIFTS(uint16_t, uint16_t, 16)
SHIFTS(int32_t, uint32_t, 32)
SHIFTS(uint32_t, uint32_t, 32)

#define ROW(T, bits)                                                                   \
    [SIM_OP_add] = add_##bits, [SIM_OP_sub] = sub_##bits, [SIM_OP_mul] = mul_##bits,   \
    [SIM_OP_max] = max_##bits, [SIM_OP_min] = min_##bits, [SIM_OP_relu] = relu_##bits, \
    [SIM_OP_add_relu] = add_relu_##bits, [SIM_OP_sub_relu] = sub_relu_##bits,          \
    [SIM_OP_add_scalar] = add_scalar_##bits, [SIM_OP_sub_scalar] = sub_scalar_##bits,  \
    [SIM_OP_mul_scalar] = mul_scalar_##bits, [SIM_OP_max_scalar] = max_scalar_##bits,  \
    [SIM_OP_min_scalar] = min_scalar_##bits, SHIFT_ROW(T)
#define SHIFT_ROW(T)                                                          \
    [SIM_OP_shiftleft] = shiftleft_##T, [SIM_OP_shiftright] = shiftright_##T, \
    [SIM_OP_shiftright_round] = shiftright_round_##T
static sim_lanes *const integer_lanes[SIM_TYPES][SIM_OPS] = {
    [SIM_I16] = {ROW(int16_t, 16)},
    [SIM_I32] = {ROW(int32_t, 32)},
    [SIM_U16] = {SHIFT_ROW(uint16_t)},
    [SIM_U32] = {SHIFT_ROW(uint32_t)},
};

sim_lanes *sim_integer_lanes(sim_op op, sim_type type)
{
    return integer_lanes[type][op];
}

LOOP(and_2, uint16_t, a &t[i])
LOOP(or_2, uint16_t, a | t[i])
LOOP(not_2, uint16_t, ~a)
LOOP(copy_2, uint16_t, a)
LOOP(copy_4, uint32_t, a)

#define FILL(name, T)                                                              \
    SIM_LOOP static void name(const sim_instr *instr, void *dst, const void *src0, \
                              const void *src1, int count)                         \
    {                                                                              \
        (void)src0, (void)src1;                                                    \
        for (int i = 0; i < count; i++)                                            \
            ((T *)dst)[i] = (T)instr->scalar_bytes[0];                             \
    }
FILL(duplicate_2, uint16_t)
FILL(duplicate_4, uint32_t)

static sim_lanes *const bits_lanes[2][SIM_OPS] = {
    {[SIM_OP_and] = and_2,
     [SIM_OP_or] = or_2,
     [SIM_OP_not] = not_2,
     [SIM_OP_copy] = copy_2,
     [SIM_OP_duplicate] = duplicate_2},
    {[SIM_OP_copy] = copy_4, [SIM_OP_duplicate] = duplicate_4},
};

sim_lanes *sim_bits_lanes(sim_op op, int bytes)
{
    return bits_lanes[bytes == 4][op];
}
