/* layout.c - sizes of buffers, their lives, and their places: see layout.h. */
#include "npu/layout.h"

enum { BANK_PERIOD = 512 };

/* ---- one buffer ---- */

static int is_there(const tg_ub_problem *problem, const tg_ub_buffer *b)
{
    const uint32_t has = problem->options | (problem->dtype_bytes == 2 ? TG_UB_16BIT : TG_UB_32BIT);
    return (b->when & has) == b->when;
}

static int64_t unit_bytes(const tg_ub_problem *problem, const tg_ub_buffer *b)
{
    return b->bytes ? b->bytes : problem->dtype_bytes;
}

static int64_t alignment(const tg_ub_buffer *b)
{
    return b->align ? b->align : 32;
}

static int copies_of(const tg_ub_buffer *b)
{
    return b->copies > 1 ? b->copies : 1;
}

int64_t ub_column_step(const tg_ub_kernel *kernel, const tg_ub_problem *problem)
{
    int64_t step = kernel->column_multiple ? kernel->column_multiple : 1;
    for (int i = 0; i < kernel->nbuffers; i++) {
        const tg_ub_buffer *b = &kernel->buffers[i];
        if (b->per != TG_UB_ELEMENT || b->every > 1 || !is_there(problem, b))
            continue;
        const int64_t aligned = alignment(b) / gcd(alignment(b), unit_bytes(problem, b));
        step *= aligned / gcd(step, aligned);
    }
    return step;
}

/* Everything of its place but the offset; returns the bytes from the first copy to the last one's
 * end. */
static int64_t measure(const tg_ub_problem *problem, const tg_ub_buffer *b, int64_t rows,
                       int64_t pitch, tg_ub_place *place)
{
    const int64_t columns = b->every > 1 ? ceil_div(pitch, b->every) : pitch;
    const int64_t count[] = {
        [TG_UB_ELEMENT] = columns, [TG_UB_ROW] = rows, [TG_UB_COLUMN] = columns, [TG_UB_FIXED] = 1};
    const int64_t line = round_up(times(count[b->per], unit_bytes(problem, b)), alignment(b));
    const int64_t bytes = b->per == TG_UB_ELEMENT ? times(rows, line) : line;
    const int64_t unit = b->bank ? max64(BANK_PERIOD, alignment(b)) : alignment(b);
    const int64_t stride = copies_of(b) > 1 ? round_up(bytes, unit) : bytes;
    *place = (tg_ub_place){.bytes = bytes,
                           .copy_stride = stride,
                           .row_bytes = b->per == TG_UB_ELEMENT ? line : 0,
                           .used = 1};
    return (copies_of(b) - 1) * stride + bytes;
}

/* The lowest offset from `from` on that the buffer may have. */
static int64_t fit(const tg_ub_buffer *b, int64_t from)
{
    if (b->bank == TG_UB_BANK_ANY)
        return round_up(from, alignment(b));
    const int64_t shift = b->bank == TG_UB_BANK_HIGH ? BANK_PERIOD / 2 : 0;
    return round_up(max64(from - shift, 0), max64(BANK_PERIOD, alignment(b))) + shift;
}

/* ---- lives ---- */

/* The bits from...to. */
static uint32_t steps(int from, int to)
{
    return (uint32_t)(((uint64_t)1 << (to + 1)) - ((uint64_t)1 << from));
}

/* The body ends with the last step that a buffer names; TG_UB_LAST stands for that one. */
static void find_lives(ub_packing *p)
{
    int last = 0;
    for (int k = 0; k < p->count; k++) {
        const tg_ub_buffer *b = &p->kernel->buffers[p->order[k]];
        const int named = b->to == TG_UB_LAST ? b->from : b->to;
        last = named > last ? named : last;
    }
    p->nsteps = last + 1;
    for (int k = 0; k < p->count; k++) {
        const tg_ub_buffer *b = &p->kernel->buffers[p->order[k]];
        p->life[p->order[k]] =
            copies_of(b) > 1 ? steps(0, last) : steps(b->from, b->to > last ? last : b->to);
    }
}

/* ---- who lies above whom ---- */

static void sort(int *order, int count, const int64_t *key)
{
    for (int k = 1; k < count; k++) {
        const int moved = order[k];
        int at = k;
        for (; at > 0 && key[order[at - 1]] > key[moved]; at--)
            order[at] = order[at - 1];
        order[at] = moved;
    }
}

/* Each buffer, in the given order, to the lowest place that is free while it lives. Returns the end
 * of all. */
static int64_t first_fit(const ub_packing *p, const int *order, const int64_t *extent,
                         int64_t *offset)
{
    int64_t end = 0;
    for (int k = 0; k < p->count; k++) {
        const int i = order[k];
        const tg_ub_buffer *b = &p->kernel->buffers[i];
        offset[i] = fit(b, 0);
        for (int placed = 0; placed < k; placed++) {
            const int j = order[placed];
            if (!(p->life[i] & p->life[j]) || offset[j] >= offset[i] + extent[i] ||
                offset[i] >= offset[j] + extent[j])
                continue;
            offset[i] = fit(b, offset[j] + extent[j]);
            placed = -1; /* it may have moved onto one that was passed already */
        }
        end = max64(end, offset[i] + extent[i]);
    }
    return end;
}

/* Tries three orders of one row's buffers - large copies first, long-lived first, early first - and
 * keeps the tightest. */
static void order_buffers(ub_packing *p)
{
    enum { ORDERS = 3 };
    const int64_t pitch = ub_pitch(p, max64(p->problem->columns, 1));
    int64_t extent[TG_UB_BUFFERS], key[ORDERS][TG_UB_BUFFERS], best = INT64_MAX;
    int order[TG_UB_BUFFERS];
    for (int k = 0; k < p->count; k++) {
        const int i = order[k] = p->order[k];
        tg_ub_place place;
        extent[i] = measure(p->problem, &p->kernel->buffers[i], 1, pitch, &place);
        key[0][i] = -place.bytes;
        key[1][i] = -__builtin_popcount(p->life[i]);
        key[2][i] = p->kernel->buffers[i].from;
    }
    for (int o = 0; o < ORDERS; o++) {
        int64_t offset[TG_UB_BUFFERS];
        sort(order, p->count, key[o]);
        const int64_t end = first_fit(p, order, extent, offset);
        if (end >= best)
            continue;
        best = end;
        for (int k = 0; k < p->count; k++)
            p->order[k] = order[k];
        sort(p->order, p->count, offset);
    }
}

ub_packing ub_pack(const tg_ub_kernel *kernel, const tg_ub_problem *problem)
{
    ub_packing p = {.kernel = kernel, .problem = problem};
    p.step = ub_column_step(kernel, problem);
    for (int i = 0; i < kernel->nbuffers; i++)
        if (is_there(problem, &kernel->buffers[i]))
            p.order[p.count++] = i;
    find_lives(&p);
    order_buffers(&p);
    return p;
}

/* ---- the places in a tile ---- */

int64_t ub_pitch(const ub_packing *p, int64_t columns)
{
    const int64_t below = power_below(columns);
    const int64_t above = below < columns ? 2 * below : below;
    return round_up(p->problem->power_of_two ? above : columns, p->step);
}

int64_t ub_place(const ub_packing *p, int64_t rows, int64_t columns, tg_ub_place *places)
{
    const int64_t pitch = ub_pitch(p, columns);
    int64_t end[TG_UB_BUFFERS], last = 0;
    for (int k = 0; k < p->count; k++) {
        const int i = p->order[k];
        int64_t floor = 0;
        for (int below = 0; below < k; below++)
            if (p->life[i] & p->life[p->order[below]])
                floor = max64(floor, end[below]);
        tg_ub_place place;
        const int64_t extent = measure(p->problem, &p->kernel->buffers[i], rows, pitch, &place);
        place.offset = fit(&p->kernel->buffers[i], floor);
        end[k] = place.offset + extent;
        last = max64(last, end[k]);
        if (places)
            places[i] = place;
    }
    return last;
}

void ub_ledger(const ub_packing *p, tg_ub_layout *layout)
{
    int64_t all[TG_UB_BUFFERS];
    layout->nsteps = p->nsteps;
    for (int k = 0; k < p->count; k++) {
        const int i = p->order[k];
        all[i] = layout->place[i].bytes * copies_of(&p->kernel->buffers[i]);
        for (int s = 0; s < p->nsteps; s++)
            layout->live[s] += p->life[i] >> s & 1 ? all[i] : 0;
    }
    for (int s = 1; s < p->nsteps; s++)
        if (layout->live[s] > layout->live[layout->peak_step])
            layout->peak_step = s;
    layout->limiting = -1;
    for (int i = 0; i < p->kernel->nbuffers; i++)
        if (layout->place[i].used && p->life[i] >> layout->peak_step & 1 &&
            (layout->limiting < 0 || all[i] > all[layout->limiting]))
            layout->limiting = i;
}
