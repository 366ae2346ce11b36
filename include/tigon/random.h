/* tigon/random.h - numbers that are drawn, and what flash_attention drops by them: the same bits on
 * every device. For backends and for the library itself: integer arithmetic, inline, in C, in C++,
 * and in kernels of CUDA.
 *
 * Philox 4x32-10 makes four numbers of 32 bits of a counter of four and a key of two. Counters need
 * not be used in an order, so that a kernel draws what it is about to use, and no more.
 *
 * Where no scalar code will do, a vector of counters needs products of 32 bits by a constant, their
 * high halves, exclusive ors and sums. With products modulo 2^32 alone the high half is one of 16
 * bits by 16: of a = 2^16 a1 + a0 and b = 2^16 b1 + b0
 *   t = a1 b0 + (a0 b0 >> 16),   high = a1 b1 + (t >> 16) + ((a0 b1 + (t & 0xffff)) >> 16),
 * none of which overflows. (In Ascend C: asc_mul_scalar of int32_t, whose low 32 bits are those of
 * uint32_t, asc_shiftright of uint32_t, asc_and of uint16_t.) A machine without an exclusive or has
 * (a | b) - (a & b).
 */
#ifndef TIGON_RANDOM_H
#define TIGON_RANDOM_H

#include <stdint.h>

#ifdef __CUDACC__
#define TG_EVERYWHERE static __host__ __device__ inline
#else
#define TG_EVERYWHERE static inline
#endif

typedef struct tg_drawn {
    uint32_t word[4];
} tg_drawn;

/* Source: Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3. */
TG_EVERYWHERE tg_drawn tg_philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p = (uint64_t)0xd2511f53u * c0, q = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(q >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)q;
        c2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    const tg_drawn drawn = {{c0, c1, c2, c3}};
    return drawn;
}

/* ---- dropout of flash_attention ---- */

/* A probability is dropped if its number, of 16 bits, is below `least`, and else multiplied by
 * `factor`. least 0: there is no dropout. */
typedef struct tg_dropout {
    uint64_t seed;
    uint32_t offset, least;
    double factor;
} tg_dropout;

/* dropout is rounded to a multiple of 2^-16 below 1, so that the factor is exactly 1 over the share
 * of numbers that are kept. */
static inline tg_dropout tg_dropout_of(double dropout, int64_t seed, int64_t offset)
{
    const uint32_t next = (uint32_t)(dropout * 65536 + 0.5), least = next < 65536 ? next : 65535;
    const tg_dropout d = {(uint64_t)seed, (uint32_t)offset, least, 65536.0 / (65536.0 - least)};
    return d;
}

/* Of the arguments of either direction. */
#define TG_DROPOUT(args) tg_dropout_of((args)->dropout, (args)->seed, (args)->offset)

/* Four counters, 0 to 3, draw the numbers of a query and of 32 keys, those from 32 block on. Word w
 * of counter c has those of the keys 8 w + 2 c, in its low half, and 8 w + 2 c + 1: what a thread
 * has of the sums of a tensor core is one counter's. head: the number of the sequence times heads,
 * plus the head. Query and keys are counted within their sequence. */
TG_EVERYWHERE tg_drawn tg_dropout_draw(tg_dropout d, uint32_t head, uint32_t query, uint32_t block,
                                       uint32_t counter)
{
    return tg_philox(4 * block + counter, query, head, d.offset, d.seed);
}

/* The same 32 keys: bit 0 is set if the first of them is kept, and so on. */
TG_EVERYWHERE uint32_t tg_dropout_kept(tg_dropout d, uint32_t head, uint32_t query, uint32_t block)
{
    uint32_t kept = 0;
    for (uint32_t c = 0; c < 4; c++) {
        const tg_drawn drawn = tg_dropout_draw(d, head, query, block, c);
        for (uint32_t w = 0; w < 4; w++) {
            const uint32_t low = drawn.word[w] & 0xffff, high = drawn.word[w] >> 16;
            kept |= (uint32_t)(low >= d.least) << (8 * w + 2 * c);
            kept |= (uint32_t)(high >= d.least) << (8 * w + 2 * c + 1);
        }
    }
    return kept;
}

#endif
