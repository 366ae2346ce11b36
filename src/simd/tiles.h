/* src/simd/tiles.h - the tiles of a matrix unit (AMX), for files compiled for it. */
#ifndef TG_SIMD_TILES_H
#define TG_SIMD_TILES_H

#include <immintrin.h>
#include <stdint.h>

/* All eight tiles as large as they may be: 16 rows of 64 bytes. Of the thread, until tiles_close(). */
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

#endif
