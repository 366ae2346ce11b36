/* flash_attention_sums.asc.c - what stands before and behind the backward of flash_attention: the
 * sums of dy y; gradients from their parts. */
#define FLASH_CODE static inline __aicore__
#include "flash_attention_backward.args.h"
#include "flash_strides.h"
#include "flash_units.h"
#include "shared/asc_lanes.h"

#define ASC_TEMPLATE "attention/flash_attention_sums.asc.h"
#include "shared/asc_each_type.h"
