/* src/grouped/grouped_steps.h - some terms of a task: factors are packed and multiplied. A part of
 * grouped.c. */
#ifndef TG_GROUPED_STEPS_H
#define TG_GROUPED_STEPS_H

#include "grouped_multiply.h"

typedef struct job {
    const grouped_product *p;
    int64_t *first; /* task of each group, and behind the last */
    int64_t parts;  /* of what columns a task may have: so that there are enough tasks */
    word *memory;
} job;

/* Whether matrices' panels are on the left. */
static inline int is_turned(const grouped_product *p)
{
    return !p->by_group && !p->terms_are_rows;
}

/* Some terms of a block. */
typedef struct step {
    int64_t term0, terms, words, behind;
    int64_t right_term; /* of the factor on the right */
    int add;            /* to sums that are there */
    int writes;         /* what a panel with a panel completes is written at once */
    word *whole, *panel;
    float *sums;
    int64_t cols; /* of sums of a place */
} step;

/* The matrix of a block's group, or what takes its place. */
static inline grouped_factor matrix_of(const grouped_product *p, int64_t group)
{
    grouped_factor f = p->right;
    if (!p->by_group)
        f.data += group * p->right_rows * f.stride * el_size(f.type);
    return f;
}

/* A panel of the matrix, whose lanes are rows: where it lies, if a matrix unit can load all of it
 * from there. */
static inline left_panel left_of_matrix(const grouped_factor *f, int64_t lane, int64_t lanes,
                                        const step *s)
{
    if (TILES && lanes == LEFT_LANES && s->terms % (VL * WORD_TERMS) == 0)
        return (left_panel){(const word *)grouped_row_at(f, lane, s->term0),
                            f->stride * el_size(f->type), 1};
    pack_left(0, f, lane, lanes, s->term0, s->terms, s->panel);
    return (left_panel){s->panel, LANE * sizeof(word), 1};
}

/* The matrix's lanes are rows: its panels, on the left, lie in memory as they are multiplied. Rows
 * of the block, on the right, are packed whole, and sums come out transposed. */
static inline void multiply_turned(const grouped_product *p, const grouped_block *b, const step *s)
{
    const grouped_factor f = matrix_of(p, b->group);
    const int64_t right = round_up(s->words, VL) * NR;
    const int64_t width = s->terms * el_size(f.type);
    const int64_t times = (b->rows + NR - 1) / NR * ((s->words + STRETCH - 1) / STRETCH);
    turned_sums t[2] = {0};
    int now = 0;
    for (int64_t i = 0; i < b->rows; i += NR)
        pack_right(0, &p->left, b->row + i, grouped_least(b->rows - i, NR), s->term0, s->terms,
                   s->whole + i / NR * right);
    for (int place = 0; place < (p->second ? 2 : 1); place++)
        for (int64_t k = 0; k < b->cols; k += LEFT_LANES) {
            const int64_t lane = b->col + k + place * p->second;
            const int64_t lanes = grouped_least(b->cols - k, LEFT_LANES);
            const left_panel left = left_of_matrix(&f, lane, lanes, s);
            meanwhile m = {next_lines_of(&f, lane + LEFT_LANES, s->term0, LEFT_LANES, width, times),
                           NULL};
            m.next.near = !TILES;
            float *to = s->sums + place * s->cols + k;
            for (int64_t i = 0; i < b->rows; i += NR) {
                const int64_t rows = grouped_least(b->rows - i, NR);
                turned_sums *const sums = &t[now];
                m.before = &t[!now];
                multiply(lanes, rows, left, s->whole + i / NR * right, s->words,
                         (sums_place){.to = sums->row[0], .stride = NR}, &m);
                turn_squares(m.before);
                sums->columns = b->cols - k;
                sums->others = rows;
                sums->to =
                    (sums_place){.to = to + i * b->stride, .stride = b->stride, .add = s->add};
                sums->i = sums->k = 0;
                now = !now;
            }
        }
    turn_squares(&t[!now]);
}

/* What is read of the factor on the right behind columns k of a task: the next columns, or the
 * first ones of the terms behind. */
static inline next_lines lines_behind(const grouped_product *p, const grouped_factor *f,
                                      const grouped_block *b, const step *s, int place, int64_t k,
                                      int64_t group, int64_t times)
{
    const int last = k + group >= b->cols, other = last && p->second && place == 0;
    const int64_t col = last ? 0 : k + group;
    const int64_t lane = b->col + col + (other || (place && !last) ? p->second : 0);
    const int64_t lanes = grouped_least(group, b->cols - col);
    const int64_t term = s->right_term + (last && !other ? s->terms : 0);
    const int64_t terms = last && !other ? grouped_least(s->behind, s->terms) : s->terms;
    if (terms <= 0)
        return (next_lines){0};
    return next_lines_of(f, term, lane, terms, (lanes < NR ? NR : lanes) * el_size(f->type), times);
}

/* Rows of a block, which are packed whole. */
typedef struct packed_rows {
    const word *words;
    int64_t lanes, panel; /* of a panel; words from one to the next */
    int by_lanes;
} packed_rows;

static inline packed_rows pack_rows(const grouped_product *p, const grouped_block *b, const step *s)
{
    const int by_lanes = TILES || !p->by_group;
    const int64_t lanes = even_part(b->rows, LEFT_LANES, TILES ? LEFT_LANES : 2);
    const int64_t panel = by_lanes ? lanes * LANE : left_words(s->words);
    if (!by_lanes)
        pack_left_rows(&p->left, b->row, b->rows, lanes, s->right_term, s->terms, s->whole);
    for (int64_t i = 0; by_lanes && i < b->rows; i += lanes)
        pack_left(p->by_group, &p->left, b->row + i, grouped_least(b->rows - i, lanes),
                  s->right_term, s->terms, s->whole + i / lanes * panel);
    return (packed_rows){s->whole, lanes, panel, by_lanes};
}

/* Where sums go that are f32 results as they are: past the caches to their memory, from registers.
 * That is whole panels of an even number of rows, with which no other row is computed. */
static inline sums_place results_of(const grouped_product *p, const grouped_block *b)
{
    const grouped_output *o = p->arg;
    if (TILES || o->type != EL_F32 || b->rows % 2 || b->cols != NR)
        return (sums_place){0};
    float *to = (float *)o->data + (b->group * o->matrix_rows + b->row) * o->stride + b->col;
    return (sums_place){.to = to, .stride = o->stride, .stream = 1};
}

/* A part of a block, a panel with a panel, of the last terms of a group: its sums become results at
 * once, from the registers or while they are in the first cache. there: where those of terms before
 * are. */
static inline void complete_part(const grouped_product *p, const step *s, left_panel left,
                                 const word *right, grouped_block part, sums_place there,
                                 meanwhile *m)
{
    float tile[LEFT_LANES * NR] __attribute__((aligned(LINE)));
    const sums_place results = s->add ? (sums_place){0} : results_of(p, &part);
    const sums_place alone = results.to ? results : (sums_place){.to = tile, .stride = NR};
    const sums_place to = s->add ? there : alone;
    multiply(part.rows, NR, left, right, s->words, to, m);
    part.sums = to.to;
    part.stride = to.stride;
    if (!results.to)
        p->write(p, &part);
}

static inline grouped_block part_of(const grouped_block *b, int64_t i, int64_t rows, int64_t c)
{
    return (grouped_block){.group = b->group,
                           .row = b->row + i,
                           .rows = rows,
                           .col = b->col + c,
                           .cols = grouped_least(b->cols - c, NR)};
}

/* Panels of rows with a panel on the right, whose columns are those from c on. */
static inline void multiply_parts(const grouped_product *p, const grouped_block *b, const step *s,
                                  const packed_rows *rows, const word *right, int64_t c, float *to,
                                  meanwhile *m)
{
    const word *words = rows->words;
    for (int64_t i = 0; i < b->rows; i += rows->lanes, words += rows->panel) {
        const left_panel left = {words, LANE * sizeof(word), rows->by_lanes};
        const int64_t lanes = grouped_least(b->rows - i, rows->lanes);
        const sums_place sums = {.to = to + i * b->stride, .stride = b->stride, .add = s->add};
        if (s->writes)
            complete_part(p, s, left, right, part_of(b, i, lanes, c), sums, m);
        else
            multiply(lanes, NR, left, right, s->words, sums, m);
    }
}

/* Terms are rows of the factor on the right, of which some panels, which lie side by side, are
 * packed and then multiplied. */
static inline void multiply_straight(const grouped_product *p, const grouped_block *b,
                                     const step *s)
{
    const grouped_factor f = matrix_of(p, b->group);
    const packed_rows rows = pack_rows(p, b, s);
    const int64_t panel = round_up(s->words, VL) * NR, group = p->by_group ? NR : GROUP * NR;
    const int64_t parts = (b->rows + rows.lanes - 1) / rows.lanes;
    for (int place = 0; place < (p->second ? 2 : 1); place++)
        for (int64_t k = 0; k < b->cols; k += group) {
            const int64_t end = grouped_least(k + group, b->cols);
            const int64_t lane0 = b->col + place * p->second;
            const int64_t times =
                (end - k + NR - 1) / NR * parts * ((s->words + STRETCH - 1) / STRETCH);
            for (int64_t c = k; c < end; c += NR)
                pack_right(1, &f, lane0 + c, grouped_least(b->cols - c, NR), s->right_term,
                           s->terms, s->panel + (c - k) / NR * panel);
            meanwhile m = {lines_behind(p, &f, b, s, place, k, group, times), NULL};
            float *to = s->sums + place * s->cols;
            for (int64_t c = k; c < end; c += NR)
                multiply_parts(p, b, s, &rows, s->panel + (c - k) / NR * panel, c, to + c, &m);
        }
}

#endif
