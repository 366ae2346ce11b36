/* src/simd/simd.h - vectors of float, one source for every ISA level; every difference between
 * levels is in this folder.
 *
 * A file that includes this is compiled once per level; VL is the number of floats in a vector.
 * Element types in memory are EL_F32, EL_BF16, EL_F16; arithmetic is always f32. Functions that
 * take an `el` expect a constant after inlining: write the kernel once as an always-inline function
 * whose first argument is the type, and let EL_SPECIALIZE make the three copies.
 *
 * Conversions to 16 bits round to nearest even, keep subnormals, infinities and NaN at every level.
 */
#ifndef TG_SIMD_H
#define TG_SIMD_H

#include "simd_arithmetic.h"
#include "simd_convert.h"
#include "simd_exp.h"
#include "simd_lanes.h"
#include "simd_log.h"
#include "simd_memory.h"
#include "simd_neighbours.h"
#include "simd_pairs.h"
#include "simd_part.h"
#include "simd_sigmoid.h"

#endif
