/* tools/tigon/problem/fills.c - each fill: the value of element i, by a seeded generator
 * that needs no state. */
#include "fills.h"

#include <math.h>
#include <string.h>

/* Uniform bits of element i; stream tells apart several draws for one element. */
static uint64_t bits_of(const filler *f, int64_t i, uint64_t stream)
{
    return fill_mix(f->key + fill_mix((uint64_t)i + stream * 0x632be59bd9b4e019u));
}

/* Mean 0, variance 1, within 3.5: the sum of four uniform numbers. */
static double normal(const filler *f, int64_t i)
{
    const uint64_t b = bits_of(f, i, 0);
    const double sum = (double)(b & 0xffff) + (double)(b >> 16 & 0xffff) +
                       (double)(b >> 32 & 0xffff) + (double)(b >> 48);
    return (sum + 2 - 0x2p16) / 0x1p16 * 1.7320508075688772;
}

static double smallest(const filler *f)
{
    return f->type == TG_F16 ? 0x1p-22 : 0x1p-130;
}

static int64_t target_of(const filler *f, int64_t i)
{
    return f->target ? (int64_t)pb_get(f->target, i / f->cols) : -1;
}

static double fill_normal(const filler *f, int64_t i)
{
    return normal(f, i);
}

/* About one element in a row is a thousand times larger. */
static double fill_outlier(const filler *f, int64_t i)
{
    const int64_t row = i / f->cols;
    const int hit = (int64_t)(bits_of(f, row, 1) % (uint64_t)f->cols) == i % f->cols;
    return normal(f, i) * (hit ? 1000 : 1);
}

/* A deviation of 1 far away from zero, where 16 bits just tell the values apart. */
static double fill_far(const filler *f, int64_t i)
{
    return normal(f, i) + 1000;
}

/* 1000 and the numbers of the type next to it: a deviation of one rounding. */
static double fill_neighbours(const filler *f, int64_t i)
{
    const double step = f->type == TG_BF16 ? 4 : f->type == TG_F16 ? 0.5 : 0x1p-14;
    return 1000 + step * ((double)(bits_of(f, i, 0) % 3) - 1);
}

/* One element in a row is ten thousand times larger than the others. */
static double fill_spike(const filler *f, int64_t i)
{
    const int hit = (int64_t)(bits_of(f, i / f->cols, 1) % (uint64_t)f->cols) == i % f->cols;
    return normal(f, i) * (hit ? 1e4 : 1);
}

/* What leaves the end of a row out has nothing. */
static double fill_last(const filler *f, int64_t i)
{
    return i % f->cols == f->cols - 1 ? 1000 + 1000 * fabs(normal(f, i)) : 0;
}

/* Rows whose first elements say nothing of their mean. */
static double fill_risen(const filler *f, int64_t i)
{
    return normal(f, i) + (i % f->cols < f->cols / 4 ? 0 : 100);
}

static double fill_large(const filler *f, int64_t i)
{
    return normal(f, i) * 1e4;
}

static double fill_offset(const filler *f, int64_t i)
{
    return normal(f, i) + (i / f->cols % 2 ? -1e4 : 1e4);
}

/* Rows at heights up to the largest of their type, all elements equal there but for those
 * that lie so far below that they count for nothing; in every fifth row so far that the
 * difference overflows. */
static double fill_heights(const filler *f, int64_t i)
{
    static const double f16[] = {1e4, -1e4, 65504, -65504, 2048};
    static const double others[] = {1e4, -1e9, 8e9, 1e10, -1e30, 3e38, -0x1.fep127};
    const int64_t row = i / f->cols;
    const int narrow = f->type == TG_F16, kinds = narrow ? 5 : 7;
    const double height = narrow ? f16[row % kinds] : others[row % kinds];
    const int64_t kept = (int64_t)(bits_of(f, row, 1) % (uint64_t)f->cols);
    if (bits_of(f, i, 2) % 4 || i % f->cols == kept || i % f->cols == target_of(f, i))
        return height;
    return height > 0 ? -height : height < -1e38 ? -(double)INFINITY : 2 * height;
}

/* Weights of a linear layer: products of a normal row with them have variance 1. */
static double fill_layer(const filler *f, int64_t i)
{
    return normal(f, i) / sqrt((double)f->cols);
}

/* Of f32: what is multiplied with it overflows soon. */
static double fill_huge(const filler *f, int64_t i)
{
    return normal(f, i) * 0x1p100;
}

static double fill_tiny(const filler *f, int64_t i)
{
    return normal(f, i) * smallest(f);
}

static double fill_positive(const filler *f, int64_t i)
{
    return fabs(normal(f, i)) + 0x1p-10;
}

static double fill_zeros(const filler *f, int64_t i)
{
    (void)f, (void)i;
    return 0;
}

static double fill_ones(const filler *f, int64_t i)
{
    (void)f, (void)i;
    return 1;
}

/* Few distinct values: most maxima are tied. */
static double fill_ties(const filler *f, int64_t i)
{
    return (double)(bits_of(f, i, 0) % 3) - 1;
}

/* A quarter of -inf, but never a whole row nor the target. */
static double fill_neginf(const filler *f, int64_t i)
{
    const int64_t kept = (int64_t)(bits_of(f, i / f->cols, 1) % (uint64_t)f->cols);
    const int hit = bits_of(f, i, 2) % 4 == 0 && i % f->cols != kept;
    return hit && i % f->cols != target_of(f, i) ? -(double)INFINITY : normal(f, i);
}

/* Every third row is -inf throughout. */
static double fill_neginf_rows(const filler *f, int64_t i)
{
    return i / f->cols % 3 == 0 ? -(double)INFINITY : normal(f, i);
}

static double fill_nan(const filler *f, int64_t i)
{
    return i / f->cols % 3 == 0 && i % f->cols == f->cols / 2 ? (double)NAN : normal(f, i);
}

/* Nothing that is finite. */
static double fill_nan_neginf(const filler *f, int64_t i)
{
    return bits_of(f, i, 0) % 2 ? (double)NAN : -(double)INFINITY;
}

/* The target's logit stands out by 12: its probability is nearly 1 and p - 1 about 1e-4. */
static double fill_confident(const filler *f, int64_t i)
{
    const double margin = log((double)f->cols) + 8.5;
    return normal(f, i) + (i % f->cols == target_of(f, i) ? margin : 0);
}

/* Logarithms of probabilities that add up to about 1. */
static double fill_logp(const filler *f, int64_t i)
{
    return normal(f, i) - 0.5 - log((double)f->cols);
}

static double fill_probabilities(const filler *f, int64_t i)
{
    return exp(fill_logp(f, i));
}

/* A quarter of them so small that their probabilities are 0 in f32. */
static double fill_logp_rare(const filler *f, int64_t i)
{
    return fill_logp(f, i) - (bits_of(f, i, 2) % 4 == 0 ? 200 : 0);
}

/* Probabilities next to 1. */
static double fill_logp_sure(const filler *f, int64_t i)
{
    return -0x1p-10 * fabs(normal(f, i));
}

static double fill_index(const filler *f, int64_t i)
{
    return (double)(bits_of(f, i, 0) % (uint64_t)(f->t->limit > 0 ? f->t->limit : 1));
}

static double fill_ignored(const filler *f, int64_t i)
{
    (void)i;
    return (double)f->ignored;
}

static double fill_some_ignored(const filler *f, int64_t i)
{
    return i % 3 == 1 ? (double)f->ignored : fill_index(f, i);
}

/* All indices the same: duplicates. */
static double fill_same(const filler *f, int64_t i)
{
    (void)i;
    return fill_index(f, 0);
}

/* Low indices are named far more often than high ones. */
static double fill_uneven(const filler *f, int64_t i)
{
    const double u = (double)(bits_of(f, i, 0) >> 11) * 0x1p-53;
    return floor((double)f->t->limit * u * u * u * u);
}

/* All indices from the last to the first, which is its own inverse; -1 where there is none left. */
static double fill_reversed(const filler *f, int64_t i)
{
    return i < f->t->limit ? (double)(f->t->limit - 1 - i) : -1;
}

/* The same, with -1 in place of some, of which none is another's inverse. */
static double fill_reversed_part(const filler *f, int64_t i)
{
    const int64_t inverse = f->t->limit - 1 - i;
    return (i < inverse ? i : inverse) % 4 == 2 ? -1 : fill_reversed(f, i);
}

/* ---- boundaries of sequences: they ascend from 0 to limit - 1 ---- */

static int64_t rows_of(const filler *f)
{
    return f->t->limit > 0 ? f->t->limit - 1 : 0;
}

/* Most sequences are short, some are empty, the last ones are long. */
static double fill_ascending(const filler *f, int64_t i)
{
    const int64_t all = f->cols - 1;
    if (i == 0 || i >= all)
        return i == 0 ? 0 : (double)rows_of(f);
    const double jitter = 0.9 * (double)(bits_of(f, i, 0) >> 11) * 0x1p-53;
    const double at = ((double)i + jitter) / (double)all;
    return floor((double)rows_of(f) * at * at);
}

/* The same without the last quarter of the rows. */
static double fill_ascending_part(const filler *f, int64_t i)
{
    return floor(0.75 * fill_ascending(f, i));
}

/* All as long. */
static double fill_even(const filler *f, int64_t i)
{
    return f->cols > 1 ? floor((double)rows_of(f) * (double)i / (double)(f->cols - 1)) : 0;
}

/* One long sequence, and all others of 64 behind it. */
static double fill_one_long(const filler *f, int64_t i)
{
    return i == 0 ? 0 : fmax(0, (double)rows_of(f) - 64.0 * (double)(f->cols - 1 - i));
}

static const fill fills[] = {
    {"normal", fill_normal},
    {"outlier", fill_outlier},
    {"large", fill_large},
    {"offset", fill_offset},
    {"heights", fill_heights},
    {"far", fill_far},
    {"neighbours", fill_neighbours},
    {"spike", fill_spike},
    {"last", fill_last},
    {"risen", fill_risen},
    {"layer", fill_layer},
    {"huge", fill_huge},
    {"tiny", fill_tiny},
    {"positive", fill_positive},
    {"zeros", fill_zeros},
    {"ones", fill_ones},
    {"ties", fill_ties},
    {"neginf", fill_neginf},
    {"nan", fill_nan},
    {"nan_neginf", fill_nan_neginf},
    {"neginf_rows", fill_neginf_rows},
    {"index", fill_index},
    {"confident", fill_confident},
    {"ignored", fill_ignored},
    {"some_ignored", fill_some_ignored},
    {"same", fill_same},
    {"uneven", fill_uneven},
    {"reversed", fill_reversed},
    {"reversed_part", fill_reversed_part},
    {"logp", fill_logp},
    {"probabilities", fill_probabilities},
    {"logp_rare", fill_logp_rare},
    {"logp_sure", fill_logp_sure},
    {"ascending", fill_ascending},
    {"ascending_part", fill_ascending_part},
    {"even", fill_even},
    {"one_long", fill_one_long},
};

const fill *fill_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        if (!strcmp(fills[i].name, name))
            return &fills[i];
    return NULL;
}
