/* npu/chips.h - the table of chips, for the other files of this folder. */
#ifndef TIGON_NPU_CHIPS_H
#define TIGON_NPU_CHIPS_H

#include "tigon/npu.h"

/* "the table of chips, 910B4", for a chip of the table. */
const char *npu_chip_source(const tg_npu_chip *chip);

#endif
