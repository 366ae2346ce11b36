/* execute/vector.h - run functions, and the arithmetic of consecutive lanes. */
#ifndef SIM_EXECUTE_VECTOR_H
#define SIM_EXECUTE_VECTOR_H

#include <string.h>

#include "model/model.h"

/* A loop over lanes: compiled for several levels of x86-64, whose results are the same (nothing is
 * contracted). */
#if defined(__x86_64__)
#define SIM_LOOP __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define SIM_LOOP
#endif

/* Before a loop of which no step reads what an earlier one wrote. */
#if defined(__clang__)
#define SIM_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define SIM_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* dst[0..count) from consecutive lanes; a source may be dst itself. */
typedef void sim_lanes(const sim_instr *instr, void *dst, const void *src0, const void *src1,
                       int count);

sim_lanes *sim_lanes_of(const sim_instr *instr); /* by op, type, from, extra[0] */
sim_lanes *sim_float_lanes(sim_op op);
sim_lanes sim_mixed_lanes; /* by way of float: half, and operations of two types */
sim_lanes *sim_integer_lanes(sim_op op, sim_type type);
sim_lanes *sim_bits_lanes(sim_op op, int bytes); /* copy, duplicate, logic: by width alone */
sim_lanes *sim_convert_lanes(sim_type type, sim_type from, asc_round how);

void sim_run_vector(sim_core *core, const sim_instr *instr);
void sim_run_reduction(sim_core *core, const sim_instr *instr);
void sim_run_compare(sim_core *core, const sim_instr *instr);
void sim_run_cmp_mask(sim_core *core, const sim_instr *instr);
void sim_run_select(sim_core *core, const sim_instr *instr);
void sim_run_brcb(sim_core *core, const sim_instr *instr);
void sim_run_gather(sim_core *core, const sim_instr *instr);
void sim_run_gather_datablock(sim_core *core, const sim_instr *instr);
void sim_run_compact(sim_core *core, const sim_instr *instr);
void sim_run_transpose(sim_core *core, const sim_instr *instr);
void sim_run_bitsort(sim_core *core, const sim_instr *instr);
void sim_run_mrgsort4(sim_core *core, const sim_instr *instr);
void sim_run_copy(sim_core *core, const sim_instr *instr); /* move.c */

/* One repeat of an operand as consecutive bytes: where it lies if it is so, else collected into
 * `buffer` (256 B). */
const void *sim_load_step(const sim_operand *operand, uint32_t step, void *buffer);
/* Puts the lanes of `step` that the mask selects where dst has them; `lanes` may be where they
 * belong already. */
void sim_store_step(const sim_instr *instr, uint32_t step, const void *lanes);
/* The lanes of `step` that are selected: 128 bits. Returns how many lanes from the first on are
 * selected if these are all that are, else -1. */
int sim_step_mask(const sim_instr *instr, uint32_t lanes, uint32_t step, uint64_t bits[2]);

static inline float sim_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint32_t sim_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- half.c ---- */

float sim_half_to_float(uint16_t half);
uint16_t sim_float_to_half(float value); /* to nearest even, not saturated */
uint16_t sim_float_to_half_as(double value, asc_round how);
void sim_widen(float *to, const uint16_t *from, int count);
/* mode: of the instruction. */
void sim_narrow(uint16_t *to, const float *from, int count, int mode);

enum { SIM_HALF_MAX = 0x7bff, SIM_HALF_LANES = SIM_REPEAT / 2 };

#endif
