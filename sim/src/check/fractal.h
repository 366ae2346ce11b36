/* check/fractal.h - what fractals of a core hold. */
#ifndef SIM_CHECK_FRACTAL_H
#define SIM_CHECK_FRACTAL_H

#include "parts.h"

enum { TILES = 64, FRACTAL = 512, OF_L0 = 65536 / FRACTAL, OF_L0C = 131072 / 1024, SIDE = 16 };

typedef struct tile {           /* of L1 */
    uint32_t from, end, number; /* number 0: in no order that is known */
    uint32_t column;            /* bytes from a column of blocks to the next */
    uint8_t type;
} tile;

typedef struct held {           /* by a fractal of L0A or L0B */
    uint32_t tile, row, column; /* tile 0: it is not known */
    uint8_t type, turned, typed;
} held;

typedef struct results { /* a fractal of L0C */
    uint16_t rows;       /* fractals of its tile on top of each other; 0: unknown */
    uint16_t row;        /* which of them it is */
} results;

struct check_fractals {
    tile tiles[TILES];
    int count, numbers;
    held l0[2][OF_L0];
    results l0c[OF_L0C];
};

static inline uint32_t fractal_offset(const sim_core *core, const sim_operand *o)
{
    return (uint32_t)(o->base - core->memory[o->space]);
}

/* The fractal of L0 at `at` of an operand. */
static inline held *fractal_held(sim_core *core, const sim_operand *to, int64_t at)
{
    const int64_t index = (to->base - core->memory[to->space] + at) / FRACTAL;
    return &core->shadow->fractals->l0[to->space == SIM_L0B][index % OF_L0];
}

/* fractal_product.c */
void fractal_multiply(sim_core *core, const sim_instr *instr);
void fractal_copy_out(sim_core *core, const sim_instr *instr);

#endif
