/* execute/cube.h - run functions of the cube core, and what their instructions carry. */
#ifndef SIM_EXECUTE_CUBE_H
#define SIM_EXECUTE_CUBE_H

#include "model/model.h"

enum {
    SIM_FRACTAL = 512,
    SIM_FRACTAL_ROWS = 16,
    SIM_RESULTS = 1024
}; /* bytes of 16 x 16 results */

/* Elements of a fractal's row. */
static inline uint32_t sim_row_elements(sim_type type)
{
    return SIM_BLOCK / sim_type_bytes[type];
}
static inline uint32_t sim_fractals(uint32_t elements, uint32_t each)
{
    return (elements + each - 1) / each;
}

/* mmad: extra[] */
enum { SIM_MMAD_M, SIM_MMAD_K, SIM_MMAD_N, SIM_MMAD_K1 /* fractals from row to row of L0A */ };
/* copies out of L0C: extra[] */
enum { SIM_FIX_N, SIM_FIX_M, SIM_FIX_DST, SIM_FIX_SRC, SIM_FIX_HOW, SIM_FIX_ND };
/* their extra[SIM_FIX_HOW] */
#define SIM_FIX_QUANT(how) ((QuantModes)((how)&15))
#define SIM_FIX_RELU(how) ((how) >> 4 & 3)
#define SIM_FIX_SPLIT(how) ((how) >> 6 & 1)
#define SIM_FIX_NZ2ND(how) ((how) >> 7 & 1)
/* The order of QuantMode_t. */
typedef enum QuantModes {
    FIX_NONE,
    FIX_F16,
    FIX_BF16,
    FIX_DEQ,
    FIX_DEQ_EACH,
    FIX_QUANT,
    FIX_QUANT_EACH,
    FIX_REQUANT,
    FIX_REQUANT_EACH,
    FIX_MODES
} QuantModes;

void sim_run_pieces(sim_core *core,
                    const sim_instr *instr); /* as they lie: dst and src of equal pieces */
void sim_run_nd2nz(sim_core *core, const sim_instr *instr);
void sim_run_load3d(sim_core *core, const sim_instr *instr);
void sim_run_transposed(sim_core *core, const sim_instr *instr);
void sim_run_bias(sim_core *core, const sim_instr *instr);
void sim_run_fill(sim_core *core, const sim_instr *instr);
void sim_run_mmad(sim_core *core, const sim_instr *instr);
void sim_run_fix(sim_core *core, const sim_instr *instr);

#endif
