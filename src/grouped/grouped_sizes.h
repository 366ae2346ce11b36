/* src/grouped/grouped_sizes.h - sizes of blocks: a part of grouped.c. */
#ifndef TG_GROUPED_SIZES_H
#define TG_GROUPED_SIZES_H

#include "grouped_cpu.h"
#include "simd/words.h"
#include "tiles.h"

enum {
    LEFT_LANES = TILES ? 2 * VL : MR, /* of a panel on the left; NR of one on the right */
    WORDS = 512,                      /* of terms that are packed at once */
    /* Terms of a matrix's rows, which are read a few lines at a time: these lines may all lie in a
     * few sets of the caches; and panels that are packed one after the other, of neighbours. */
    TERMS = PAIRS || VL == 16 ? 256 : WORDS,
    GROUP = PAIRS      ? 4
            : VL == 16 ? 2
                       : 1,
    /* Words from a lane to the next, with room for a vector. Words of several lanes are broadcast
     * at once: whole lines apart they would lie in one bank of the first cache, which gives one of
     * them in a cycle. A matrix unit loads whole lines. */
    LANE = WORDS + (TILES ? VL : 20),
    /* Of a task, with COLS and WORDS: what it has of memory stays in L2, which is larger beside a
     * matrix unit. */
    ROWS = TILES ? 256 : 168 / MR * MR,
    COLS = 512,         /* of a task, from both places */
    TASKS_A_THREAD = 8, /* are wanted: others wait at the end for the last one */
    /* Groups of at most so many rows are multiplied with a matrix that is not packed, whose lanes,
     * or terms, are rows. */
    FEW = TILES                  ? 4
          : SIMD_REGISTERS == 32 ? 16
                                 : 8,
    FEW_TERMS = TILES ? 8 : 16,
    FEW_WORDS = 4,   /* of terms that are rows, at a time */
    FEW_SUMS = 8192, /* of columns of such a task, and a part of its terms: near the first cache */
    AHEAD = 16384,   /* bytes between what is read there and what is asked for */
    LINE = 64,       /* bytes of a line of the caches */
    STRETCH = 16,    /* words that are multiplied between requests for memory */
    /* memory of a worker, in words: of the factor that is packed whole, of panels of the other
     * one, and of the sums */
    WHOLE = ROWS * LANE + NR * VL,
    PANEL = WORDS * NR > LEFT_LANES *LANE ? WORDS *NR : LEFT_LANES *LANE,
    MEMORY = WHOLE + PANEL + ROWS * COLS
};

static inline int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The size of parts of n, the fewest of at most `most` each, and all multiples of `unit`. */
static inline int64_t even_part(int64_t n, int64_t most, int64_t unit)
{
    const int64_t parts = (n + most - 1) / most;
    return parts < 1 ? unit : round_up((n + parts - 1) / parts, unit);
}

#endif
