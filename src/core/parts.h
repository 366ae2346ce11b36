/* src/core/parts.h - for implementations that are made of calls of other operators, and for those that such calls
 * run: memory first.
 *
 * An implementation that calls its parts one after another has written outputs when a later part finds no memory.
 * So it makes its calls twice. Between tg_reserve() and tg_reserved() a call runs its implementation up to the
 * point where it has all its memory, and writes nothing; the memory goes back to the context's
 * workspace, which keeps it. The same calls, made again, find it there: they do not fail.
 *
 * Implementations of the backend `cpu` that run as parts (gemm, cross_entropy, softmax_jsd) ask tg_reserving() at that point
 * and return TG_OK. Of others nothing is known: a call that they would run reserves nothing.
 */
#ifndef TG_CORE_PARTS_H
#define TG_CORE_PARTS_H

#include "core/services.h"

void tg_reserve(tg_ctx *ctx);
void tg_reserved(tg_ctx *ctx);
int tg_reserving(const tg_ctx *ctx);

/* Where the chunk after the one at row `first` begins. While reserving, the second and the last stand
 * for all that follow. */
static inline int64_t tg_next_chunk(const tg_ctx *ctx, int64_t first, int64_t chunk, int64_t rows)
{
    const int64_t next = first + chunk;
    return tg_reserving(ctx) && first > 0 && next < rows ? (rows - 1) / chunk * chunk : next;
}

#endif
