/* check/pieces.c - an operand's geometry and mask become ranges of bytes. */
#include "parts.h"

static int masked_runs(const sim_instr *instr, const sim_operand *o, check_run *runs)
{
    int n = 0;
    for (uint32_t k = 0; k < o->lanes;) {
        if (!(instr->mask[k / 64] >> (k % 64) & 1)) {
            k++;
            continue;
        }
        const uint32_t from = k;
        while (k < o->lanes && (instr->mask[k / 64] >> (k % 64) & 1))
            k++;
        runs[n++] = (check_run){from * o->element, k * o->element};
    }
    return n;
}

int check_runs(const sim_instr *instr, const sim_operand *o, uint32_t step,
               check_run runs[CHECK_RUNS])
{
    if (o->lanes == 0) {
        runs[0] = (check_run){0, o->inner * o->bytes};
        return 1;
    }
    if (!instr->counter_mode)
        return masked_runs(instr, o, runs);
    const uint64_t before = (uint64_t)step * o->lanes;
    if (before >= instr->count)
        return 0;
    const uint64_t left = instr->count - before;
    runs[0] = (check_run){0, (uint32_t)(left < o->lanes ? left : o->lanes) * o->element};
    return 1;
}

/* A range that grows as long as what comes next touches its end. */
typedef struct joined {
    unsigned char *base;
    uint64_t bytes;
    check_visit *visit;
    void *to;
} joined;

static inline void join(joined *j, unsigned char *base, uint64_t bytes)
{
    if (j->base + j->bytes == base && j->bytes != 0) {
        j->bytes += bytes;
        return;
    }
    if (j->bytes != 0)
        j->visit(j->to, j->base, j->bytes);
    j->base = base;
    j->bytes = bytes;
}

static inline void join_run(joined *j, const sim_operand *o, uint32_t step, check_run run)
{
    unsigned char *base = o->base + (int64_t)step * o->outer_stride;
    if (o->inner_stride == o->bytes && !o->offsets) {
        join(j, base + run.from, run.to - run.from);
        return;
    }
    for (uint32_t at = run.from; at < run.to;) {
        const uint32_t piece = at / o->bytes, within = at - piece * o->bytes;
        const uint32_t bytes = o->bytes - within < run.to - at ? o->bytes - within : run.to - at;
        unsigned char *first = o->offsets ? o->base + o->offsets[(size_t)step * o->inner + piece]
                                          : base + (int64_t)piece * o->inner_stride;
        join(j, first + within, bytes);
        at += bytes;
    }
}

void check_pieces(const sim_instr *instr, const sim_operand *o, check_visit *visit, void *to)
{
    joined j = {NULL, 0, visit, to};
    check_run runs[CHECK_RUNS];
    int count = check_runs(instr, o, 0, runs);
    const int varies = o->lanes != 0 && instr->counter_mode;
    /* with a stride of 0 the first step touches all that the others do */
    const uint32_t steps = o->outer_stride == 0 && !o->offsets && o->outer != 0 ? 1 : o->outer;
    sim_operand plane = *o;
    for (uint32_t h = 0; h < o->planes; h++, plane.base += o->plane_stride) {
        for (uint32_t i = 0; i < steps; i++) {
            if (varies && i != 0 && (count = check_runs(instr, o, i, runs)) == 0)
                break;
            for (int r = 0; r < count; r++)
                join_run(&j, &plane, i, runs[r]);
        }
    }
    if (j.bytes != 0)
        visit(to, j.base, j.bytes);
}

void check_hull(const sim_operand *o, uintptr_t *low, uintptr_t *high)
{
    const int64_t outer = o->outer ? (o->outer - 1) * o->outer_stride : 0;
    const int64_t inner = o->inner ? (o->inner - 1) * o->inner_stride : 0;
    const int64_t planes = o->planes ? (o->planes - 1) * o->plane_stride : 0;
    const uintptr_t base = (uintptr_t)o->base;
    *low = base + (uintptr_t)((outer < 0 ? outer : 0) + (inner < 0 ? inner : 0));
    *high = base + (uintptr_t)((outer > 0 ? outer : 0) + (inner > 0 ? inner : 0) + planes) +
            o->bytes + o->padding;
}
