/* indices.h - indices in a card's memory: those out of range are replaced, and tg_sync() tells. */
#ifndef ASCEND_INDICES_H
#define ASCEND_INDICES_H

#include "ascend.h"

/* *to = t with `instead` where an index is less than `least` or more than `most`, in memory for the
 * launches of this call; t itself where the operator's check has read it, in the host's memory, and
 * where t has no elements or is NULL, which makes *to one without data. what: "operator: argument",
 * a literal. offset: where it is given, indices behind its last number are not meant. */
tg_status ascend_look(tg_ctx *ctx, const char *what, const tg_tensor *t, int64_t least,
                      int64_t most, int64_t instead, const tg_tensor *offset, tg_tensor *to);
/* The same of boundaries, which rise from 0 to `most` at most. */
tg_status ascend_look_rising(tg_ctx *ctx, const char *what, const tg_tensor *t, int64_t most,
                             tg_tensor *to);

/* What is kept of a context for that: from when it chooses its card, to its end. */
tg_status ascend_indices_begin(tg_ctx *ctx, ascend_state *state);
void ascend_indices_end(ascend_state *state);
/* When all work has ended: the error of the first index that was out of range. */
tg_status ascend_indices_told(tg_ctx *ctx, ascend_state *state);

#endif
