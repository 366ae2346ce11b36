/* flash_attention_sums.asc.c - what stands before and behind the backward of flash_attention: the sums of dy y; gradients from their parts. */
#define FLASH_CODE static inline __aicore__
#include "asc_lanes.h"
#include "flash_attention_backward.args.h"
#include "flash_strides.h"
#include "flash_units.h"

#define ASC_TEMPLATE "flash_attention_sums.asc.h"
#include "asc_each_type.h"
