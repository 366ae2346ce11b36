/* src/simd/register_tile.h - the tile of a matrix product on the CPU: MR rows of NV vectors. Its
 * sums and one term's operands fill the vector registers. */
#ifndef TG_SIMD_REGISTER_TILE_H
#define TG_SIMD_REGISTER_TILE_H

#include "simd/simd.h"

#if VL == 16
enum { MR = 14, NV = 2 };
#elif VL == 8
enum { MR = 6, NV = 2 };
#elif SIMD_REGISTERS == 32
enum { MR = 8, NV = 2 };
#else
enum { MR = 4, NV = 2 };
#endif
enum { NR = NV * VL };

#endif
