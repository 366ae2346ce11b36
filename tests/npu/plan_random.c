/* The Unified Buffer's planner on thousands of random kernels: what must hold for all. Within the
 * capacity, aligned, in the wished banks, nothing on top of what is alive, a ledger as counted by
 * hand, all of the problem covered, and no larger tile in less room. */
#include <tigon/npu.h>

#include <tigon/npu.h>

#include "../common/test.h"

static uint64_t state = 20251122;

static int64_t draw(int64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)below);
}

/* ---- random kernels and problems ---- */

typedef struct trial {
    tg_ub_buffer buffer[TG_UB_BUFFERS];
    tg_ub_kernel kernel;
    tg_ub_problem problem;
} trial;

static tg_ub_buffer random_buffer(void)
{
    static const int bytes[] = {0, 0, 4, 4, 2, 1, 12}, aligns[] = {0, 0, 0, 64, 256, 32};
    tg_ub_buffer b = {.name = "b"};
    b.per = draw(3) ? TG_UB_ELEMENT : (tg_ub_per)(1 + draw(3));
    b.bytes = b.per == TG_UB_FIXED ? 32 + (int)draw(4096) : bytes[draw(7)];
    b.every = (b.per == TG_UB_ELEMENT || b.per == TG_UB_COLUMN) && !draw(6) ? 8 << draw(4) : 0;
    b.from = (int)draw(6);
    b.to = draw(6) ? b.from + (int)draw(6) : TG_UB_LAST;
    b.copies = draw(4) ? 0 : 2 + (int)draw(2);
    b.align = aligns[draw(6)];
    b.bank = draw(4) ? TG_UB_BANK_ANY : (tg_ub_bank)(1 + draw(2));
    b.when = draw(5) ? 0 : draw(2) ? TG_UB_16BIT : TG_UB_OPTION(draw(2));
    return b;
}

static void random_trial(trial *t)
{
    memset(t, 0, sizeof *t);
    t->kernel =
        (tg_ub_kernel){.name = "random", .nbuffers = 1 + (int)draw(12), .buffers = t->buffer};
    for (int i = 0; i < t->kernel.nbuffers; i++)
        t->buffer[i] = random_buffer();
    t->buffer[0].per = TG_UB_ELEMENT; /* one grows with rows and columns at least */
    t->buffer[0].when = 0;
    t->kernel.flat = !draw(3);
    t->kernel.whole_rows = !draw(8);
    t->kernel.column_multiple = draw(4) ? 0 : 64;
    t->kernel.max_rows = draw(4) ? 0 : 1 + draw(255);
    t->kernel.blocks_per_core = (int)draw(3);
    t->problem = (tg_ub_problem){.rows = 1 + draw(1 << (1 + draw(14))),
                                 .columns = 1 + draw(1 << (1 + draw(17))),
                                 .dtype_bytes = draw(2) ? 2 : 4,
                                 .cores = draw(2) ? 40 : 48,
                                 .ub_bytes = 2048 + draw(1 << (12 + draw(7))),
                                 .power_of_two = !draw(4),
                                 .options = draw(2) ? TG_UB_OPTION(0) : 0};
}

/* ---- what must hold, counted anew from the declaration ---- */

static int is_there(const trial *t, const tg_ub_buffer *b)
{
    const uint32_t has =
        t->problem.options | (t->problem.dtype_bytes == 2 ? TG_UB_16BIT : TG_UB_32BIT);
    return !(b->when & ~has);
}

static int64_t divided(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Bytes that the data of a buffer needs, without any padding between or behind rows. */
static int64_t needed(const trial *t, const tg_ub_buffer *b, const tg_ub_layout *l)
{
    const int64_t unit = b->bytes ? b->bytes : t->problem.dtype_bytes,
                  every = b->every ? b->every : 1;
    const int64_t columns = divided(l->tile_columns, every) * unit;
    return b->per == TG_UB_ELEMENT  ? l->tile_rows * columns
           : b->per == TG_UB_ROW    ? l->tile_rows * unit
           : b->per == TG_UB_COLUMN ? columns
                                    : unit;
}

static int alive(const tg_ub_buffer *b, const tg_ub_layout *l, int step)
{
    return b->copies > 1 || (b->from <= step && step <= b->to && step < l->nsteps);
}

static int64_t end_of(const trial *t, const tg_ub_layout *l, int i)
{
    const tg_ub_place *p = &l->place[i];
    const int copies = t->buffer[i].copies;
    return p->offset + (copies > 1 ? copies - 1 : 0) * p->copy_stride + p->bytes;
}

static void check_place(const trial *t, const tg_ub_layout *l, int i)
{
    const tg_ub_buffer *b = &t->buffer[i];
    const tg_ub_place *p = &l->place[i];
    const int align = b->align ? b->align : 32;
    EXPECT(p->used == is_there(t, b), "buffer %d: used is %d", i, p->used);
    if (!p->used)
        return;
    EXPECT(p->bytes >= needed(t, b, l), "buffer %d: %lld bytes, needs %lld", i, (long long)p->bytes,
           (long long)needed(t, b, l));
    EXPECT(p->offset >= 0 && p->offset % align == 0, "buffer %d at %lld", i, (long long)p->offset);
    EXPECT(p->copy_stride >= p->bytes, "buffer %d: copies overlap", i);
    EXPECT(b->copies < 2 || p->copy_stride % align == 0, "buffer %d: its copy is not aligned", i);
    EXPECT(b->per != TG_UB_ELEMENT || p->row_bytes % align == 0, "buffer %d: rows not aligned", i);
    EXPECT(b->per != TG_UB_ELEMENT || l->tile_rows * p->row_bytes <= p->bytes, "buffer %d: rows",
           i);
    for (int c = 0; c < (b->copies > 1 ? b->copies : 1) && b->bank; c++)
        EXPECT((p->offset + c * p->copy_stride) % 512 == (b->bank == TG_UB_BANK_HIGH ? 256 : 0),
               "buffer %d: copy %d is in another bank", i, c);
    EXPECT(end_of(t, l, i) <= l->ub_bytes, "buffer %d ends at %lld, behind %lld", i,
           (long long)end_of(t, l, i), (long long)l->ub_bytes);
}

static void check_ledger(const trial *t, const tg_ub_layout *l)
{
    int64_t peak = 0;
    for (int s = 0; s < l->nsteps; s++) {
        int64_t live = 0;
        for (int i = 0; i < t->kernel.nbuffers; i++)
            if (l->place[i].used && alive(&t->buffer[i], l, s))
                live += l->place[i].bytes * (t->buffer[i].copies > 1 ? t->buffer[i].copies : 1);
        EXPECT(live == l->live[s], "step %d: %lld bytes alive, not %lld", s, (long long)l->live[s],
               (long long)live);
        EXPECT(live <= l->ub_bytes, "step %d: %lld bytes alive in %lld", s, (long long)live,
               (long long)l->ub_bytes);
        peak = live > peak ? live : peak;
    }
    EXPECT(l->live[l->peak_step] == peak, "the peak is not at step %d", l->peak_step);
    EXPECT(l->limiting >= 0 && alive(&t->buffer[l->limiting], l, l->peak_step), "limiting");
}

/* Two buffers that are alive at one step do not touch. */
static void check_overlaps(const trial *t, const tg_ub_layout *l)
{
    for (int i = 0; i < t->kernel.nbuffers; i++)
        for (int j = 0; j < i; j++) {
            int together = 0;
            for (int s = 0; s < l->nsteps; s++)
                together |= alive(&t->buffer[i], l, s) && alive(&t->buffer[j], l, s);
            EXPECT(!together || !l->place[i].used || !l->place[j].used ||
                       l->place[i].offset >= end_of(t, l, j) ||
                       l->place[j].offset >= end_of(t, l, i),
                   "buffers %d and %d overlap", i, j);
        }
}

static void check_work(const trial *t, const tg_ub_layout *l)
{
    const tg_ub_problem *p = &t->problem;
    const int k = t->kernel.blocks_per_core ? t->kernel.blocks_per_core : 1;
    EXPECT(l->row_tiles == divided(p->rows, l->tile_rows), "row_tiles");
    EXPECT(l->column_tiles == divided(p->columns, l->tile_columns), "column_tiles");
    EXPECT(l->tasks == l->row_tiles * (t->kernel.flat ? l->column_tiles : 1), "tasks");
    EXPECT(l->blocks > 0 && l->blocks <= l->tasks && l->blocks <= (int64_t)p->cores * k,
           "blocks %lld", (long long)l->blocks);
    EXPECT(l->tile_rows == 1 || l->tile_columns == p->columns, "several rows, in pieces");
    EXPECT(!t->kernel.whole_rows || l->tile_columns == p->columns, "a row is cut");
    EXPECT(!t->kernel.max_rows || l->tile_rows <= t->kernel.max_rows, "max_rows");
    EXPECT(l->pitch >= l->tile_columns, "pitch");
    EXPECT(!t->kernel.column_multiple || l->pitch % t->kernel.column_multiple == 0,
           "column_multiple");
    EXPECT(!p->power_of_two || !(l->tile_rows & (l->tile_rows - 1)), "rows %lld",
           (long long)l->tile_rows);
    EXPECT(!p->power_of_two || l->tile_columns == p->columns ||
               !(l->tile_columns & (l->tile_columns - 1)),
           "columns %lld", (long long)l->tile_columns);
}

static void check_words(const trial *t, const tg_ub_layout *l)
{
    char text[256];
    EXPECT(l->nwhys >= 3, "%d reasons", l->nwhys);
    for (int i = 0; i < l->nwhys; i++) {
        const int n = tg_ub_reason(&t->kernel, &t->problem, l, i, text, sizeof text);
        EXPECT(n > 10 && n < (int)sizeof text, "reason %d: \"%s\"", i, text);
    }
    EXPECT(tg_ub_reason(&t->kernel, &t->problem, l, l->nwhys, text, sizeof text) == 0,
           "one too many");
}

/* In ever less room, until nothing fits. */
static int shrink(trial *t)
{
    tg_ub_layout l, before = {.tile_rows = INT64_MAX, .tile_columns = INT64_MAX};
    int planned = 0;
    for (; t->problem.ub_bytes > 0;
         t->problem.ub_bytes = t->problem.ub_bytes * (draw(2) ? 2 : 3) / 4) {
        const tg_status status = tg_ub_plan(&t->kernel, &t->problem, &l);
        check_overlaps(t, &l);
        check_ledger(t, &l);
        for (int i = 0; i < t->kernel.nbuffers; i++)
            check_place(t, &l, i);
        if (status == TG_ENOMEM) {
            EXPECT(l.ub_bytes > t->problem.ub_bytes && !l.blocks, "TG_ENOMEM, and it fits");
            EXPECT(strstr(tg_last_error(), "available"), "%s", tg_last_error());
            break;
        }
        EXPECT(status == TG_OK, "%s", tg_last_error());
        EXPECT(l.ub_bytes <= t->problem.ub_bytes, "%lld bytes of %lld", (long long)l.ub_bytes,
               (long long)t->problem.ub_bytes);
        EXPECT(l.tile_rows <= before.tile_rows && l.tile_columns <= before.tile_columns,
               "%lld bytes: tile %lld x %lld, with more room %lld x %lld",
               (long long)t->problem.ub_bytes, (long long)l.tile_rows, (long long)l.tile_columns,
               (long long)before.tile_rows, (long long)before.tile_columns);
        check_work(t, &l);
        check_words(t, &l);
        before = l;
        planned++;
    }
    return planned;
}

static void random_kernels(void)
{
    int planned = 0;
    for (int i = 0; i < 20000; i++) {
        trial t;
        const int failed = failures;
        random_trial(&t);
        planned += shrink(&t);
        if (failures > failed)
            printf("  in trial %d\n", i);
    }
    EXPECT(planned > 20000, "only %d plans", planned);
}

int main(void)
{
    random_kernels();
    return report();
}
