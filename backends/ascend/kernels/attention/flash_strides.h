/* flash_strides.h - where the rows of a class of positions are; see attention.args.h. */
#ifndef FLASH_STRIDES_H
#define FLASH_STRIDES_H

#include "attention.args.h"
#include "shared/asc_common.h"

/* Steps of a tensor: from a batch, a position of a class, a head and a class to the next. */
typedef struct flash_strides {
    int64_t batch, row, head, phase, phases;
} flash_strides;

static inline __aicore__ flash_strides flash_strides_of(int64_t phases, int64_t dilation,
                                                        int64_t batch, int64_t row, int64_t head)
{
    flash_strides s;
    s.batch = batch;
    s.row = row * dilation;
    s.head = head;
    s.phase = row;
    s.phases = phases;
    return s;
}

/* Those of a tensor among a kernel's arguments, by its name. */
#define FLASH_STRIDES(t) flash_strides_of(phases, dilation, t##_batch, t##_row, t##_head)

/* head: a class of a head. */
static inline __aicore__ int64_t flash_at(flash_strides s, int64_t batch, int64_t row, int64_t head)
{
    return batch * s.batch + row * s.row + head / s.phases * s.head + head % s.phases * s.phase;
}

#endif
