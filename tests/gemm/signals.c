/* Signals that arrive while a product runs harm nothing: the heap around its buffers stays whole.
 * (Kernels of oneDNN 2.6 use the stack pointer for other things meanwhile.) So they wait, whichever
 * way oneDNN is entered, and are let in again. */
#include <dlfcn.h>
#include <pthread.h>
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

/* ---- the ways into oneDNN: what the library calls is here, and then there ---- */

static int entered, open_to_signals;

static void *entering(const char *name)
{
    sigset_t held;
    pthread_sigmask(SIG_SETMASK, NULL, &held);
    entered++;
    open_to_signals += !sigismember(&held, SIGALRM) || !sigismember(&held, SIGCHLD) ||
                       !sigismember(&held, SIGUSR2);
    return dlsym(RTLD_NEXT, name);
}

#pragma GCC visibility push(default)
int dnnl_sgemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
               int64_t ldc);
int dnnl_sgemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
               int64_t ldc)
{
    __typeof__(&dnnl_sgemm) next;
    *(void **)&next = entering("dnnl_sgemm");
    return next(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

int dnnl_primitive_execute(const void *primitive, void *stream, int count, const void *memory);
int dnnl_primitive_execute(const void *primitive, void *stream, int count, const void *memory)
{
    __typeof__(&dnnl_primitive_execute) next;
    *(void **)&next = entering("dnnl_primitive_execute");
    return next(primitive, stream, count, memory);
}
#pragma GCC visibility pop

/* One product by oneDNN, where it takes such ones. */
static void held(tg_ctx *ctx, tg_type type, void *data)
{
    int64_t shape[] = {N, N};
    const tg_tensor ta = tg_tensor_of(data, type, 2, shape), tb = ta;
    tg_tensor tc = tg_tensor_of((char *)data + N * N * 4, type, 2, shape);
    const tg_gemm_args args = {.a = &ta, .b = &tb, .c = &tc};
    const int impl = tg_find(ctx, "cpu/gemm.onednn");
    sigset_t before, after, mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &mine, &before);
    entered = 0;
    if (impl >= 0 && tg_impl_supported(ctx, impl) && tg_impl_accepts(ctx, impl, &args)) {
        EXPECT(tg_impl_run(ctx, impl, &args) == TG_OK, "%s", tg_last_error());
        EXPECT(entered, "oneDNN was entered by no way that is known here");
    }
    EXPECT(!open_to_signals, "signals arrive within oneDNN");
    pthread_sigmask(SIG_SETMASK, &before, &after);
    for (int number = 1; number < 32; number++)
        EXPECT(sigismember(&after, number) == (number == SIGUSR1), "signal %d after a product",
               number);
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
    static float both[2 * N * N];
    held(ctx, TG_F32, both);
    held(ctx, TG_BF16, both);
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
