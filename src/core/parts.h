/* src/core/parts.h - for implementations that are made of calls of other operators, and for those
 * that such calls run: memory first, and work beside other work.
 *
 * An implementation that calls its parts one after another has written outputs when a later
 * part finds no memory.
 * So it makes its calls twice. Between tg_reserve() and tg_reserved() a call runs its
 * implementation up to the point where it has all its memory, and writes nothing; the memory
 * goes back to the context's workspace, which keeps it. The same calls, made again, find it
 * there: they do not fail.
 *
 * It runs where those calls do. <family>_parts.c says which operators they are, each of which must
 * have an implementation on a device for the composition to be in the device's routes:
 *
 *   TG_PARTS_CALLS(fused_linear_jsd) = {"gemm", "softmax_jsd_forward", ..., NULL};
 *
 * Implementations of the backend `cpu` that run as parts (gemm, cross_entropy, softmax_jsd) ask
 * tg_reserving() at that point and return TG_OK. Of others nothing is known: a call that they would
 * run reserves nothing.
 */
#ifndef TG_CORE_PARTS_H
#define TG_CORE_PARTS_H

#include "core/services.h"

#define TG_PARTS_CALLS(family) const char *const tg_calls_##family##_parts[]

/* ---- memory first ---- */

void tg_reserve(tg_ctx *ctx);
void tg_reserved(tg_ctx *ctx);
int tg_reserving(const tg_ctx *ctx);
/* 1 while an implementation runs that another one called: it may have written outputs before. */
int tg_is_part(const tg_ctx *ctx);

/* Where the chunk after the one at row `first` begins. While reserving, the second and the last
 * stand for all that follow. */
static inline int64_t tg_next_chunk(const tg_ctx *ctx, int64_t first, int64_t chunk, int64_t rows)
{
    const int64_t next = first + chunk;
    return tg_reserving(ctx) && first > 0 && next < rows ? (rows - 1) / chunk * chunk : next;
}

/* 1 if the process could take so many bytes of address space now. For libraries that end the
 * process where they find no memory: they are asked only then. Other threads may take what is left
 * before they do: no more can be done from outside. */
int tg_memory_is_left(size_t bytes);

/* ---- work beside other work ----
 *
 * What an implementation calls between tg_side_begin() and tg_side_end(), the side, may run at the
 * same time as what it calls from there to tg_side_join(), or behind it: neither may need, or
 * write, what the other writes. On a device whose backend has no side (tg_backend.side), such as
 * the CPU, everything runs at once, in the order of the calls. So does a side within another one.
 *
 * Scratch memory that is taken in the side is given back by the join. An implementation that
 * returns an error leaves the join out: what of the side has not been put on the device by
 * then is forgotten. */
tg_status tg_side_begin(tg_ctx *ctx);
tg_status tg_side_end(tg_ctx *ctx);
tg_status tg_side_join(tg_ctx *ctx);
/* 1 if the context's device has a side, and t lies there: a second buffer is worth its memory. */
int tg_has_side(const tg_ctx *ctx, const tg_tensor *t);

#endif
