/* check/overlap.c - what destination and sources of one instruction may share: inside a repeat
 * the same bytes or none; and no repeat may read what an earlier one writes, but for a running
 * accumulation. */
#include "parts.h"

/* Step i of an operand: piece j is bytes [j * inner_stride, + bytes) behind base + i *
 * outer_stride, as far as the mask selects them: bytes [from, to) counted through the pieces. */
typedef struct step {
    uintptr_t base;
    uint32_t from, to;
} step;

/* Contiguous pieces are one. */
static sim_operand joined(const sim_operand *o)
{
    sim_operand result = *o;
    if (o->inner_stride == o->bytes || o->inner == 1) {
        result.bytes = o->inner * o->bytes;
        result.inner = 1;
    }
    return result;
}

static step step_of(const sim_instr *instr, const sim_operand *o, uint32_t i)
{
    check_run runs[CHECK_RUNS];
    const int count = check_runs(instr, o, i, runs);
    const uintptr_t base = (uintptr_t)o->base + (uintptr_t)(i * o->outer_stride);
    if (count == 0)
        return (step){base, 0, 0};
    return (step){base, runs[0].from, runs[count - 1].to};
}

/* The selected bytes of piece j; empty: *low >= *high. */
static void piece(const sim_operand *o, const step *s, uint32_t j, uintptr_t *low, uintptr_t *high)
{
    const uint32_t first = j * o->bytes, end = first + o->bytes;
    const uint32_t from = s->from > first ? s->from : first, to = s->to < end ? s->to : end;
    const uintptr_t base = s->base + (uintptr_t)(j * o->inner_stride);
    *low = base + from - first;
    *high = to > from ? base + to - first : *low;
}

static int clash(const sim_instr *instr, const sim_operand *d, uint32_t n, const sim_operand *s,
                 uint32_t m)
{
    const step to = step_of(instr, d, n), from = step_of(instr, s, m);
    for (uint32_t j = 0; j < d->inner; j++) {
        uintptr_t d_low, d_high, s_low, s_high;
        piece(d, &to, j, &d_low, &d_high);
        for (uint32_t k = 0; k < s->inner; k++) {
            piece(s, &from, k, &s_low, &s_high);
            const int same = n == m && j == k && d_low == s_low && d_high == s_high;
            if (!same && d_low < s_high && s_low < d_high)
                return 1;
        }
    }
    return 0;
}

static int64_t length(const sim_operand *o)
{
    return (o->inner - 1) * o->inner_stride + o->bytes;
}

static int64_t divide_down(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* The repeats m >= n of `s` that can meet repeat n of `d`. */
static void repeats_that_meet(const sim_operand *d, uint32_t n, const sim_operand *s, int64_t *from,
                              int64_t *to)
{
    const int64_t low = (int64_t)((uintptr_t)d->base - (uintptr_t)s->base) + n * d->outer_stride;
    *from = n;
    *to = n + 1 < s->outer ? n + 1 : (int64_t)s->outer - 1;
    if (s->outer_stride == 0)
        return;
    const int64_t first = divide_down(low - length(s), s->outer_stride) + 1;
    const int64_t last = divide_down(low + length(d) - 1, s->outer_stride);
    *from = first > n ? first : n;
    *to = last < (int64_t)s->outer - 1 ? last : (int64_t)s->outer - 1;
}

static void compare(sim_core *core, const sim_instr *instr, const sim_operand *d,
                    const sim_operand *s)
{
    for (uint32_t n = 0; n < d->outer; n++) {
        int64_t from, to;
        repeats_that_meet(d, n, s, &from, &to);
        for (int64_t m = from; m <= to; m++) {
            if (!clash(instr, d, n, s, (uint32_t)m))
                continue;
            const long dst = (long)(d->base - core->ub), src = (long)(s->base - core->ub);
            if (m == n)
                sim_fault(core, "overlap", instr->site, NULL,
                          "%s: in repeat %u dst at UB 0x%lx and %s at UB 0x%lx overlap: found a "
                          "part in common, expected the same bytes or none",
                          instr->site->name, n, dst, s->name, src);
            else
                sim_fault(core, "overlap-repeats", instr->site, NULL,
                          "%s: repeat %u writes what repeat %u reads as %s: found dst at UB "
                          "0x%lx over %s at UB 0x%lx, expected repeats that do not feed each "
                          "other",
                          instr->site->name, n, (unsigned)m, s->name, dst, s->name, src);
            return;
        }
    }
}

/* dst += src0 again and again: the one way in which repeats may feed each other. */
static int running(const sim_instr *instr, const sim_operand *d, const sim_operand *s)
{
    const int may = instr->op == SIM_OP_add || instr->op == SIM_OP_sub || instr->op == SIM_OP_mul ||
                    instr->op == SIM_OP_max || instr->op == SIM_OP_min;
    return may && s == &instr->operand[2] && d->base == s->base && d->outer_stride == 0 &&
           s->outer_stride == 0 && d->inner_stride == s->inner_stride;
}

/* The usual in-place operation. */
static int in_place(const sim_operand *d, const sim_operand *s)
{
    return d->base == s->base && d->outer_stride == s->outer_stride &&
           d->inner_stride == s->inner_stride && d->bytes == s->bytes && d->inner == s->inner &&
           (d->outer <= 1 || d->outer_stride >= length(d));
}

void check_overlap(sim_core *core, const sim_instr *instr)
{
    const sim_operand *d = &instr->operand[0];
    if (instr->pipe != ASCSIM_V || instr->kind != SIM_COMPUTE || instr->operands == 0 ||
        !(d->access & SIM_WRITE))
        return;
    uintptr_t d_low, d_high;
    check_hull(d, &d_low, &d_high);
    for (int k = 0; k < instr->operands; k++) {
        const sim_operand *s = &instr->operand[k];
        uintptr_t s_low, s_high;
        check_hull(s, &s_low, &s_high);
        if (!(s->access & SIM_READ) || s->offsets || d_low >= s_high || s_low >= d_high ||
            in_place(d, s) || running(instr, d, s))
            continue;
        const sim_operand to = joined(d), from = joined(s);
        const int both = (to.inner == 1) == (from.inner == 1);
        compare(core, instr, both ? &to : d, both ? &from : s);
    }
}
