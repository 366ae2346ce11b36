/* planted_values.c - faults of sizes, options, types, ranges and accuracy. */
#include "planted.h"

#include <math.h>

/* ---- sizes ---- */

static void clear(const tg_tensor *t, int64_t first_row, int64_t first_column)
{
    const size_t size = tg_type_size(tg_type_of(t));
    for (int64_t r = first_row; r < rows(t) && first_column < columns(t); r++)
        memset(row(t, r) + (size_t)first_column * size, 0,
               row_bytes(t) - (size_t)first_column * size);
}

static tg_status clear_after(call *c, int64_t first_row, int64_t first_column)
{
    const tg_status status = right(c);
    clear(first_output(c), first_row, first_column);
    return status;
}

static tg_status rows_16_bits(call *c)
{
    return clear_after(c, 65535, 0);
}

static tg_status rows_beyond_1024(call *c)
{
    return rows(first_output(c)) > 1024 && columns(first_output(c)) > 16 ? clear_after(c, 1024, 0)
                                                                         : right(c);
}

static tg_status columns_beyond_8191(call *c)
{
    return clear_after(c, 1, 8191);
}

static tg_status columns_beyond_131071(call *c)
{
    return clear_after(c, 0, 131071);
}

static tg_status last_row_of_many(call *c)
{
    const int64_t n = rows(first_output(c));
    return n > 4096 ? clear_after(c, n - 1, 0) : right(c);
}

/* ---- options ---- */

/* Each real option that change() takes for another value. */
static tg_status with_options(call *c, double (*change)(double value, const tg_arg_info *option))
{
    for (int i = 0; i < c->op->nargs; i++)
        if (c->op->args[i].kind == TG_ARG_F64)
            c->slot[i].f64 = change(c->slot[i].f64, &c->op->args[i]);
    return right(c);
}

static double to_0_or_1(double value, const tg_arg_info *option)
{
    return !strcmp(option->name, "offset") && value != 0 ? 1 : value;
}

static double to_integer(double value, const tg_arg_info *option)
{
    (void)option;
    return fabs(value) > 1 && fabs(value) < 1000 ? rint(value) : value;
}

static double no_negative(double value, const tg_arg_info *option)
{
    (void)option;
    return value < 0 && value > -1 ? 0 : value;
}

static double at_most_10(double value, const tg_arg_info *option)
{
    (void)option;
    return value > 10 && isfinite(value) ? 10 : value;
}

static double default_at_least(double value, const tg_arg_info *option)
{
    return value > 0 && value < option->value ? option->value : value;
}

static tg_status offset_0_or_1(call *c)
{
    return with_options(c, to_0_or_1);
}

static tg_status options_rounded(call *c)
{
    return with_options(c, to_integer);
}

static tg_status negative_option_as_0(call *c)
{
    return with_options(c, no_negative);
}

static tg_status option_at_most_10(call *c)
{
    return with_options(c, at_most_10);
}

static tg_status option_at_least_default(call *c)
{
    return with_options(c, default_at_least);
}

static tg_status choice_above_1_as_1(call *c)
{
    for (int i = 0; i < c->op->nargs; i++)
        if (c->op->args[i].choices && c->slot[i].i64 > 1)
            c->slot[i].i64 = 1;
    return right(c);
}

/* ---- types with options ---- */

static tg_status choices_ignored_in(call *c, int type)
{
    for (int i = 0; i < c->op->nargs && type_of(c) == type; i++)
        if (c->op->args[i].choices)
            c->slot[i].i64 = 0;
    return right(c);
}

static tg_status choices_ignored_in_bf16(call *c)
{
    return choices_ignored_in(c, TG_BF16);
}

static tg_status choices_ignored_in_f16(call *c)
{
    return choices_ignored_in(c, TG_F16);
}

static tg_status clear_with_f32_weight(call *c)
{
    const tg_status status = right(c);
    for (int i = 0; i < c->op->nargs; i++)
        if (is_input(c, i) && type_of(c) == TG_F16 && !strcmp(c->op->args[i].name, "weight") &&
            tg_type_of(c->slot[i].tensor) == TG_F32)
            clear(first_output(c), 0, columns(first_output(c)) - 1);
    return status;
}

/* ---- ends of a type's range, and accuracy ---- */

static tg_status with_halves(call *c, uint16_t (*change)(uint16_t))
{
    const tg_status status = right(c);
    const tg_tensor *y = first_output(c);
    for (int64_t r = 0; tg_type_of(y) == TG_F16 && r < rows(y); r++)
        for (int64_t i = 0; i < columns(y); i++)
            ((uint16_t *)row(y, r))[i] = change(((uint16_t *)row(y, r))[i]);
    return status;
}

static uint16_t saturate(uint16_t x)
{
    return (x & 0x7fff) == 0x7c00 ? (uint16_t)(x - 1) : x;
}

static uint16_t hide_nan(uint16_t x)
{
    return (x & 0x7fff) > 0x7c00 ? 0 : x;
}

static uint16_t flush(uint16_t x)
{
    return (x & 0x7c00) == 0 ? x & 0x8000 : x;
}

static tg_status f16_saturates(call *c)
{
    return with_halves(c, saturate);
}

static tg_status f16_hides_nan(call *c)
{
    return with_halves(c, hide_nan);
}

static tg_status f16_flushes(call *c)
{
    return with_halves(c, flush);
}

static tg_status times(call *c, float factor)
{
    const tg_status status = right(c);
    const tg_tensor *y = first_output(c);
    for (int64_t r = 0; tg_type_of(y) == TG_F32 && r < rows(y); r++)
        for (int64_t i = 0; i < columns(y); i++)
            ((float *)row(y, r))[i] *= factor;
    return status;
}

static tg_status too_large_by_1e_6(call *c)
{
    return times(c, 1 + 1e-6f);
}

static tg_status too_small_by_2e_6(call *c)
{
    return times(c, 1 - 2e-6f);
}

/* Cut off, where a rounding to even is due: from f32 to bf16, undone here for
 * half of the elements. */
static tg_status bf16_towards_0(call *c)
{
    const tg_status status = right(c);
    const tg_tensor *y = first_output(c);
    for (int64_t r = 0; tg_type_of(y) == TG_BF16 && r < rows(y); r++)
        for (int64_t i = 0; i < columns(y); i++)
            ((uint16_t *)row(y, r))[i] -= ((uint16_t *)row(y, r))[i] > 0x3c00 && i % 2;
    return status;
}

const fault faults_of_values[] = {
    {"rows_16_bits", "sizes", NULL, rows_16_bits},
    {"rows_beyond_1024", "sizes", NULL, rows_beyond_1024},
    {"last_row_of_many", "sizes", NULL, last_row_of_many},
    {"columns_beyond_8191", "sizes", NULL, columns_beyond_8191},
    {"columns_beyond_131071", "sizes", NULL, columns_beyond_131071},
    {"offset_0_or_1", "options", NULL, offset_0_or_1},
    {"options_rounded", "options", NULL, options_rounded},
    {"negative_option_as_0", "options", NULL, negative_option_as_0},
    {"option_at_most_10", "options", NULL, option_at_most_10},
    {"option_at_least_default", "options", NULL, option_at_least_default},
    {"choice_above_1_as_1", "options", "kl_div_forward f32", choice_above_1_as_1},
    {"choices_ignored_in_bf16", "types", "rms_norm_forward bf16", choices_ignored_in_bf16},
    {"choices_ignored_in_f16", "types", "rms_norm_forward f16", choices_ignored_in_f16},
    {"clear_with_f32_weight", "types", "rms_norm_forward f16", clear_with_f32_weight},
    {"f16_saturates", "range", "swiglu_forward f16", f16_saturates},
    {"f16_hides_nan", "range", "swiglu_forward f16", f16_hides_nan},
    {"f16_flushes", "range", "swiglu_forward f16", f16_flushes},
    {"too_large_by_1e_6", "accuracy", NULL, too_large_by_1e_6},
    {"too_small_by_2e_6", "accuracy", NULL, too_small_by_2e_6},
    {"bf16_towards_0", "accuracy", "swiglu_forward bf16", bf16_towards_0},
    {0},
};
