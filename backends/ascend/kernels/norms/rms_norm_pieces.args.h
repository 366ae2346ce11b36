/* rms_norm_pieces.args.h - how the kernels of rms_norm with a gate or a scale take rows: whole, or,
 * of rows that UB has no room for, in pieces. */
#ifndef RMS_NORM_PIECES_ARGS_H
#define RMS_NORM_PIECES_ARGS_H

#include "shared/asc_args.h"

#define RMS_NORM_PIECES TG_UB_OPTION(0) /* gone through twice, for their sums and for the rest */
#define RMS_NORM_WHOLE TG_UB_OPTION(1)

#endif
