/* src/simd/tiles.h - the tiles of a matrix unit (AMX), for files that are compiled for it;
 * elsewhere opening and closing is nothing. */
#ifndef TG_SIMD_TILES_H
#define TG_SIMD_TILES_H

#include <stdint.h>

#if defined(__AMX_BF16__) || defined(__AMXBF16__) /* Clang before 16 */
#define TILES 1
#include <immintrin.h>

/* All eight tiles as large as they may be: 16 rows of 64 bytes. Of the thread,
 * until tiles_close(). */
static inline void tiles_open(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } all = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&all);
}

static inline void tiles_close(void)
{
    _tile_release();
}
#else
#define TILES 0
static inline void tiles_open(void)
{
}

static inline void tiles_close(void)
{
}
#endif

#endif
