/* group_norm_rows.asc.c - group_norm of groups that fit in UB whole, several in a tile. A row of it
 * is a line; what belongs to rows, channels and groups are runs of numbers (asc_runs.h). Formulas:
 * group_norm.asc.c. */
#include "group_norm.args.h"
#include "norm.h"
#include "shared/asc_runs.h"

/* Groups of `lines` rows in all, in a strip of so many of each batch, of which a tile has some. */
typedef struct group_strip {
    int64_t groups, lines, group, beside, begin, end; /* `beside` groups from `group` on; batches */
} group_strip;

static inline __aicore__ int64_t group_strip_tasks(int64_t groups, int64_t beside, int64_t shares)
{
    return (groups + beside - 1) / beside * shares;
}

/* Shares are whole tiles of batches. */
static inline __aicore__ group_strip group_strip_at(int64_t task, int64_t batches, int64_t groups,
                                                    int64_t lines, int64_t beside, int64_t together,
                                                    int64_t shares)
{
    const int64_t share = task % shares, tiles = (batches + together - 1) / together;
    group_strip s;
    s.groups = groups;
    s.lines = lines;
    s.group = task / shares * beside;
    s.beside = asc_min_of(beside, groups - s.group);
    s.begin = tiles * share / shares * together;
    s.end = asc_min_of(tiles * (share + 1) / shares * together, batches);
    return s;
}

/* A tile: rows of `batches` batches from `batch` on. */
typedef struct group_rows {
    int64_t batch, batches, line, each, columns, pitch; /* each: rows of a batch */
} group_rows;

static inline __aicore__ group_rows group_rows_at(const group_strip *s, int64_t batch,
                                                  int64_t together, int64_t columns)
{
    group_rows t;
    t.batch = batch;
    t.batches = asc_min_of(together, s->end - batch);
    t.line = s->group * s->lines;
    t.each = s->beside * s->lines;
    t.columns = columns;
    t.pitch = asc_round_up(columns, ASC_LANES);
    return t;
}

/* Batches that follow each other without gaps are as one. */
static inline __aicore__ int64_t group_rows_at_once(const group_rows *t, int64_t batch,
                                                    int64_t line)
{
    return batch == t->each * line ? t->batches : 1;
}

static inline __aicore__ void group_rows_in(uint64_t dst, __gm__ void *x, int64_t size,
                                            int64_t batch, int64_t line, const group_rows *t)
{
    const int64_t n = group_rows_at_once(t, batch, line);
    for (int64_t b = 0; b < t->batches; b += n)
        asc_copy_rows_in(dst + (uint64_t)(b * t->each * t->pitch * size),
                         (__gm__ char *)x + ((t->batch + b) * batch + t->line * line) * size,
                         n * t->each, t->columns * size, line * size, t->pitch * size);
}

static inline __aicore__ void group_rows_out(__gm__ void *y, uint64_t src, int64_t size,
                                             int64_t batch, int64_t line, const group_rows *t)
{
    const int64_t n = group_rows_at_once(t, batch, line);
    for (int64_t b = 0; b < t->batches; b += n)
        asc_copy_rows_out((__gm__ char *)y + ((t->batch + b) * batch + t->line * line) * size,
                          src + (uint64_t)(b * t->each * t->pitch * size), n * t->each,
                          t->columns * size, line * size, t->pitch * size);
}

/* The number of each row's group: in `rows`, or where groups are rows as it is. ASC_THEN() is
 * left to the caller. */
static inline __aicore__ __ubuf__ float *group_of_rows(__ubuf__ float *rows,
                                                       __ubuf__ float *numbers,
                                                       __ubuf__ float *group_of, int64_t lines,
                                                       int64_t n)
{
    if (lines == 1)
        return numbers;
    asc_gather(rows, numbers, (__ubuf__ uint32_t *)group_of, (uint32_t)n);
    return rows;
}

/* Sums of the rows of a strip to sums of its channels, of which `channels` are a batch's. at:
 * room for offsets. */
typedef struct group_sums {
    __ubuf__ float *numbers, *spare, *lines;
} group_sums;

static inline __aicore__ void group_sum_channels(group_sums *g, int64_t lines, int64_t together,
                                                 int64_t channels, uint64_t at)
{
    asc_run_sums s[2] = {{g[0].spare, g[0].numbers, g[0].lines},
                         {g[1].spare, g[1].numbers, g[1].lines}};
    asc_runs runs = asc_runs_of(lines, together * channels, lines, 1, at);
    asc_runs_sum(&runs, s, 2);
    for (int i = 0; i < 2; i++) {
        s[i].values = s[i].sums;
        s[i].sums = lines == 1 ? g[i].spare : g[i].numbers;
    }
    runs = asc_runs_of(together, channels, 1, channels, at);
    asc_runs_sum(&runs, s, 2);
    g[0].numbers = s[0].sums;
    g[1].numbers = s[1].sums;
}

/* A tile that a kernel is at. */
typedef struct group_rows_step {
    group_strip strip;
    group_rows t;
    int64_t count, n, numbers; /* rows, elements, and groups */
    int64_t at;                /* where the groups' numbers lie in memory */
    int slot;                  /* copies of its buffers */
    asc_runs of_row, of_group;
    __ubuf__ float *x, *m, *p; /* the tile as f32; of the backward dy, and room for products, too */
} group_rows_step;

static inline __aicore__ void group_rows_enter(group_rows_step *s, int64_t batch, int64_t together,
                                               int64_t columns)
{
    s->t = group_rows_at(&s->strip, batch, together, columns);
    s->count = s->t.batches * s->t.each;
    s->n = s->count * s->t.pitch;
    s->numbers = s->t.batches * s->strip.beside;
    s->at = batch * s->strip.groups + s->strip.group;
}

#define GROUP_ROWS_STEP(name, LIST) \
    static inline __aicore__ void ASC_NAME(name)(group_rows_step * s, ASC_PARAMS(LIST))

#define ASC_TEMPLATE "norms/group_norm_rows.asc.h"
#include "shared/asc_each_type.h"
