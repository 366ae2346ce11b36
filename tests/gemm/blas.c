/* Products by a BLAS that TIGON_BLAS names: those of this machine that are there, each in a process
 * of its own, on one thread and on several; what names none, or comes too late, is an error. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/test.h"

enum { M = 130, N = 1100, K = 70 };

static float a[M * K], b[N * K], c[M * N], one_thread[M * N];

/* c = a · bᵀ; the implementation that ran. */
static const char *multiply(tg_ctx *ctx)
{
    tg_tensor ta = tg_tensor_of(a, TG_F32, 2, (int64_t[]){M, K});
    tg_tensor tb = tg_tensor_of(b, TG_F32, 2, (int64_t[]){N, K});
    tg_tensor tc = tg_tensor_of(c, TG_F32, 2, (int64_t[]){M, N});
    EXPECT(tg_gemm(ctx, &(tg_gemm_args){.a = &ta, .b = &tb, .c = &tc, .trans_b = 1}) == TG_OK, "%s",
           tg_last_error());
    return tg_ctx_last_impl(ctx);
}

static void fill(void)
{
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i % 17 - 8);
    for (int i = 0; i < N * K; i++)
        b[i] = (float)(i % 13 - 6);
}

/* Small integers: every order of the sums gives the same. */
static int wrong(void)
{
    int wrong = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int p = 0; p < K; p++)
                sum += a[i * K + p] * b[j * K + p];
            wrong += sum != c[i * N + j];
        }
    return wrong;
}

static void check_products(const char *name)
{
    tg_ctx *ctx = new_context();
    fill();
    for (int threads = 1; threads <= 4; threads += 3) {
        EXPECT(tg_ctx_set_threads(ctx, threads) == TG_OK, "%s", tg_last_error());
        memset(c, 0xff, sizeof c);
        const char *impl = multiply(ctx);
        EXPECT(!strcmp(impl, "cpu/gemm.blas"), "%s: %s ran", name, impl);
        EXPECT(wrong() == 0, "%s, %d threads: %d results are wrong", name, threads, wrong());
    }
    for (int i = 0; i < M * K; i++)
        a[i] = 1 / (float)(i + 1);
    tg_ctx_set_threads(ctx, 1);
    multiply(ctx);
    memcpy(one_thread, c, sizeof c);
    tg_ctx_set_threads(ctx, 3);
    multiply(ctx);
    EXPECT(!memcmp(one_thread, c, sizeof c), "%s: the bits depend on the number of threads", name);
    /* It cannot be held to a ceiling. */
    EXPECT(tg_ctx_set_cpu_max(ctx, tg_cpu_level()) == TG_OK, "%s", tg_last_error());
    tg_ctx_destroy(ctx);
    setenv("TIGON_BLAS", "libother.so", 1);
    EXPECT(tg_ctx_create(&ctx) == TG_EINVAL && strstr(tg_last_error(), "libother.so") &&
               strstr(tg_last_error(), name),
           "%s", tg_last_error());
}

static void check_none(const char *name)
{
    tg_ctx *ctx;
    const tg_status status = tg_ctx_create(&ctx);
    if (!strcmp(name, "none")) {
        EXPECT(status == TG_OK && strcmp(multiply(ctx), "cpu/gemm.blas"), "%s: it ran", name);
        tg_ctx_destroy(ctx);
        return;
    }
    EXPECT(status == TG_ENOTFOUND && strstr(tg_last_error(), "TIGON_BLAS") &&
               strstr(tg_last_error(), name),
           "%s: %s", name, tg_last_error());
}

/* In a process of its own, which decides for one BLAS. */
static void in_process(const char *name, void (*check)(const char *))
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        failures = 0;
        setenv("TIGON_BLAS", name, 1);
        check(name);
        fflush(stdout);
        _exit(failures != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(status == 0, "%s: status %x", name, (unsigned)status);
}

int main(void)
{
    static const char *const libraries[] = {"libopenblas.so.0", "libblis.so.4", "libblas.so.3",
                                            "libmkl_rt.so.3", "libmkl_rt.so.2"};
    static const char *const others[] = {"none", "/nowhere/libblas.so", "libm.so.6"};
    unsetenv("TIGON_CPU_MAX");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        in_process(others[i], check_none);
    int found = 0;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
        if (!library)
            continue;
        /* Built without threads, OpenBLAS computes wrong products on several: it is refused. */
        int (*parallel)(void);
        *(void **)&parallel = dlsym(library, "openblas_get_parallel");
        const int safe = !parallel || parallel();
        found += safe;
        printf("%s%s\n", libraries[i], safe ? "" : ", refused");
        in_process(libraries[i], safe ? check_products : check_none);
    }
    if (!found && !failures) {
        printf("skipped: there is no BLAS here\n");
        return 77;
    }
    return report();
}
