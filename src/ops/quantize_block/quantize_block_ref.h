/* What the files of the reference share: quantize_block itself. */
#ifndef TG_QUANTIZE_BLOCK_REF_H
#define TG_QUANTIZE_BLOCK_REF_H

#include "core/services.h"

void quantize_block_ref(const tg_quantize_block_args *args);

#endif
