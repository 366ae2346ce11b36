/* fork() in a program that has used the library: the child's calls end, and give
 * the parent's bits. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/test.h"

enum { M = 192, PATIENCE = 60 }; /* seconds, of a child */

static float a[M * M], b[M * M], c[M * M], y[M * M];
static uint16_t half[M * M];
static const int64_t square[] = {M, M};

/* gemm, which oneDNN runs, in f32 and bf16, and an implementation of ours: all of
 * them in parallel. */
static int call(tg_ctx *ctx, float *product, float *normal)
{
    tg_tensor ta = tg_tensor_of(a, TG_F32, 2, square), tb = tg_tensor_of(b, TG_F32, 2, square),
              tc = tg_tensor_of(product, TG_F32, 2, square),
              th = tg_tensor_of(half, TG_BF16, 2, square),
              ty = tg_tensor_of(normal, TG_F32, 2, square);
    return tg_gemm(ctx, &(tg_gemm_args){.a = &ta, .b = &tb, .c = &tc}) ||
           tg_gemm(ctx, &(tg_gemm_args){.a = &th, .b = &th, .c = &tc, .beta = 1}) ||
           tg_rms_norm_forward(ctx, &(tg_rms_norm_forward_args){.x = &tc, .y = &ty});
}

/* What a child does; 0 if it gets what the parent got. */
static int run_as_parent_did(tg_ctx *ctx)
{
    static float product[M * M], normal[M * M];
    memset(product, 0, sizeof product);
    if (call(ctx, product, normal))
        return printf("in the child: %s\n", tg_last_error()), 1;
    return memcmp(product, c, sizeof c) || memcmp(normal, y, sizeof y) ? 2 : 0;
}

static int with_new_context(void)
{
    tg_ctx *ctx = new_context();
    const int bad = run_as_parent_did(ctx);
    tg_ctx_destroy(ctx);
    return bad;
}

/* A thread that the child starts has a team of its own. */
static void *on_thread(void *bad)
{
    tg_ctx *ctx = new_context();
    tg_ctx_set_threads(ctx, 2);
    *(int *)bad = run_as_parent_did(ctx);
    tg_ctx_destroy(ctx);
    return NULL;
}

static int in_child(tg_ctx *ctx, int depth);

/* A child that does not end is ended, and counts as a failure. */
static int fork_and_wait(tg_ctx *ctx, int depth)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        const int bad = in_child(ctx, depth);
        fflush(stdout);
        _exit(bad);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("the child was ended by signal %d%s\n", WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    return status;
}

static int in_child(tg_ctx *ctx, int depth)
{
    int bad = (ctx ? run_as_parent_did(ctx) : 0) || with_new_context();
    pthread_t thread;
    if (!bad && !pthread_create(&thread, NULL, on_thread, &bad))
        pthread_join(thread, NULL);
    return bad || (depth > 0 && fork_and_wait(ctx, depth - 1) != 0);
}

/* ---- forks while another thread is inside calls ---- */

static atomic_int stop, calls;

static void *keep_calling(void *arg)
{
    static float product[M * M], normal[M * M];
    for (int i = 0; !atomic_load(&stop); i++) {
        tg_ctx *ctx = new_context();
        call(ctx, product, normal);
        tg_tensor small = tg_tensor_of(half, TG_BF16, 2, (int64_t[]){8 + i % 80, 8 + i % 80}),
                  out = small;
        out.data = (char *)arg; /* ever other shapes: oneDNN makes ever other primitives */
        tg_gemm(ctx, &(tg_gemm_args){.a = &small, .b = &small, .c = &out});
        tg_ctx_destroy(ctx);
        atomic_fetch_add(&calls, 1);
    }
    return NULL;
}

static void check_beside_calls(void)
{
    static uint16_t room[M * M];
    pthread_t thread;
    if (pthread_create(&thread, NULL, keep_calling, room))
        return;
    for (int i = 0; i < 20; i++) {
        const int before = atomic_load(&calls);
        for (int k = 0; atomic_load(&calls) == before && k < 10000; k++)
            usleep(100 + 37 * i);
        EXPECT(fork_and_wait(NULL, 0) == 0, "a fork beside calls of another thread");
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
}

int main(void)
{
    for (int i = 0; i < M * M; i++) {
        a[i] = (float)(i % 17) / 8 - 1;
        b[i] = (float)(i % 13) / 8 - 1;
        half[i] = (uint16_t)(0x3f00 + i % 64);
    }
    tg_ctx *ctx = new_context();
    tg_ctx_set_threads(ctx, 2);
    EXPECT(call(ctx, c, y) == 0, "%s", tg_last_error());
    EXPECT(fork_and_wait(ctx, 2) == 0, "the child, its child, or its child's");
    memset(c, 0, sizeof c);
    EXPECT(call(ctx, c, y) == 0, "the parent goes on: %s", tg_last_error());
    check_beside_calls();
    tg_ctx_destroy(ctx);
    return report();
}
