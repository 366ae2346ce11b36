/* model.h - what runtime_model.c and model_record.c share. */
#ifndef ASCEND_MODEL_H
#define ASCEND_MODEL_H

#include <ascsim.h>
#include <tigon/npu.h>

#include "ascend.h"

#define MODEL_FUNCTIONS(X) \
    X(chip_name)           \
    X(chip_fact)           \
    X(set_facts)           \
    X(open)                \
    X(close)               \
    X(error)               \
    X(map)                 \
    X(free)                \
    X(launch)              \
    X(faults)              \
    X(clear_faults)        \
    X(last_time)           \
    X(last_lines)          \
    X(last_ub)             \
    X(write_profile)       \
    X(write_trace)

/* The model's functions, once it is open. */
extern struct model_functions {
#define X(name) __typeof__(ascsim_##name) *name;
    MODEL_FUNCTIONS(X)
#undef X
} ascend_ascsim;

/* Faults make the call fail: on a card they would be wrong results, or worse. */
tg_status ascend_model_faults(ascsim *sim, const ascend_call *l, int stopped);
/* What the last launch took, on this chip. */
void ascend_model_time(const ascsim_time *time, const char *soc, tg_npu_launch *to);
/* Its calls, and what was used of the plan's buffers. */
tg_status ascend_model_record(ascsim *sim, tg_npu_record *to);

#endif
