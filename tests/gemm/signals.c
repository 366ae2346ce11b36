/* Signals that arrive while a product runs harm nothing: the heap around its buffers stays whole. (Kernels of oneDNN 2.6
 * use the stack pointer for other things meanwhile.) */
#include <signal.h>
#include <sys/time.h>

#include "../common/test.h"

enum { N = 320, ROUNDS = 600, BLOCKS = 64, BLOCK = 24000 };

static volatile sig_atomic_t count;

static void on_alarm(int number)
{
    (void)number;
    count++;
}

int main(void)
{
    static float a[N * N], b[N * N], c[N * N];
    int64_t shape[] = {N, N};
    const tg_tensor ta = tg_tensor_of(a, TG_F32, 2, shape), tb = tg_tensor_of(b, TG_F32, 2, shape);
    tg_tensor tc = tg_tensor_of(c, TG_F32, 2, shape);
    const tg_gemm_args args = {.a = &ta, .b = &tb, .c = &tc};
    unsigned char *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(BLOCK);
        memset(block[i], 0xa5, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i += 2) { /* holes between them, for whoever allocates */
        free(block[i]);
        block[i] = NULL;
    }
    tg_ctx *ctx = new_context();
    tg_ctx_set_threads(ctx, 1);
    signal(SIGALRM, on_alarm);
    const struct itimerval often = {{0, 97}, {0, 97}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < ROUNDS; i++)
        EXPECT(tg_gemm(ctx, &args) == TG_OK, "%s", tg_last_error());
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 1; i < BLOCKS; i += 2) {
        int changed = 0;
        for (int k = 0; k < BLOCK; k++)
            changed += block[i][k] != 0xa5;
        EXPECT(!changed, "%d bytes of somebody's memory changed", changed);
        free(block[i]);
    }
    EXPECT(count > 0, "no signal arrived");
    tg_ctx_destroy(ctx);
    return report();
}
