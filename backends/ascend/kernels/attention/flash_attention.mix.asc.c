/* flash_attention.mix.asc.c - attention without the matrix of scores. The cube core multiplies
 * tiles of scores, its two vector cores make exponentials of half the rows each, which the cube
 * core multiplies with v; all go through memory, slots that L2 holds. While the exponentials of a
 * tile are made, the scores of the next FLASH_AHEAD are, and the products with v of those before,
 * so that neither kind of core waits for a signal of the other. */
#include "flash_drawing.h"

#define ASC_TEMPLATE "attention/flash_attention.asc.h"
#include "shared/asc_each_type.h"
