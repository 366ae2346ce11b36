/* matmul.c - a product of matrices of halves, as the official matmul examples tile it: how is what
 * their steps differ in. */
#include "examples.h"
#include "matmul_core.h"

EXAMPLE __global__ __cube__ void matmul(__gm__ uint32_t *how, __gm__ half *a, __gm__ half *b,
                                        __gm__ half *c)
{
    asc_init();
    const matmul_share s = matmul_begin(how, a, b, c);
    const uint32_t tiles = matmul_tiles(&s);
    const uint32_t last_a = tiles * matmul_up(s.steps, s.how.packet_a);
    const uint32_t last_b = tiles * matmul_up(s.steps, s.how.packet_b);
    matmul_prime(&s);
    if (s.how.sets == 2 && tiles) {
        matmul_bring_b(&s, 0);
        matmul_bring_a(&s, 0);
    }
    for (uint32_t tile = 0; tile < tiles; tile++) {
        matmul_run_tile(&s, tile, last_a, last_b);
        matmul_copy_out(&s, tile);
    }
    matmul_drain(&s);
}
