/* On a card: tg_move() writes the exclusive-or of what it reads, in every number of buffers, also
 * where one of them is read and written. Without a card, or without libtigon_cuda.so, the test is
 * skipped.
 *   cuda_move */
#include "../common/test.h"

enum { BYTES = 16 * 1031, WORDS = BYTES / 8 };

static uint64_t host[TG_MOST_MOVED][WORDS], result[WORDS];

static void check(tg_ctx *ctx, char *const *buffer, int reads, int writes, int first_written)
{
    const int there = tg_ctx_device_type(ctx);
    void *to[TG_MOST_MOVED];
    for (int i = 0; i < TG_MOST_MOVED; i++)
        EXPECT(tg_copy(ctx, buffer[i], there, host[i], TG_DEVICE_CPU, BYTES) == TG_OK, "%s",
               tg_last_error());
    for (int i = 0; i < writes; i++)
        to[i] = buffer[(first_written + i) % (2 * TG_MOST_MOVED)];
    EXPECT(tg_move(ctx, (const void *const *)buffer, reads, to, writes, BYTES) == TG_OK, "%s",
           tg_last_error());
    for (int i = 0; i < writes; i++) {
        EXPECT(tg_copy(ctx, result, TG_DEVICE_CPU, to[i], there, BYTES) == TG_OK &&
                   tg_sync(ctx) == TG_OK,
               "%s", tg_last_error());
        for (int k = 0; k < WORDS; k++) {
            uint64_t expected = 0;
            for (int j = 0; j < reads; j++)
                expected ^= host[j][k];
            if (result[k] == expected)
                continue;
            EXPECT(0, "%d read, %d written: word %d of the %dth is wrong", reads, writes, k, i);
            return;
        }
    }
}

int main(void)
{
    tg_ctx *ctx = new_context();
    char *buffer[2 * TG_MOST_MOVED];
    if (tg_ctx_set_device(ctx, "cuda") != TG_OK) {
        printf("not tested: %s\n", tg_last_error());
        return 77;
    }
    for (int i = 0; i < 2 * TG_MOST_MOVED; i++)
        EXPECT((buffer[i] = tg_alloc(ctx, BYTES)), "%s", tg_last_error());
    uint64_t state = 1;
    for (int i = 0; i < TG_MOST_MOVED; i++)
        for (int k = 0; k < WORDS; k++)
            host[i][k] = state = state * 6364136223846793005u + 1442695040888963407u;
    for (int reads = 0; reads <= TG_MOST_MOVED; reads++) {
        check(ctx, buffer, reads, TG_MOST_MOVED, TG_MOST_MOVED);
        check(ctx, buffer, reads, 1, 0);
        check(ctx, buffer, reads, 0, 0);
    }
    const void *odd = buffer[0] + 1;
    EXPECT(tg_move(ctx, &odd, 1, NULL, 0, 16) == TG_EINVAL, "%s", tg_last_error());
    for (int i = 0; i < 2 * TG_MOST_MOVED; i++)
        tg_free(ctx, buffer[i]);
    tg_ctx_destroy(ctx);
    return report();
}
