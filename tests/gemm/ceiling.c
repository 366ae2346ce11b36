/* Which instructions does oneDNN use for products? Those of TIGON_CPU_MAX at most, in the whole
 * process, and a context with a lower ceiling than that does without oneDNN.
 *   onednn_ceiling v2|v3|v4|v4bf16    TIGON_CPU_MAX
 *   onednn_ceiling none               not set: oneDNN may use what the processor has
 *   onednn_ceiling late               v2, but the program has used oneDNN before: it cannot be
 *                                     held any more */
#include <oneapi/dnnl/dnnl.h>

#include "../common/test.h"

enum { N = 96 };
static const char onednn[] = "cpu/gemm.onednn";

static const struct level {
    const char *name;
    unsigned isa; /* the most that oneDNN may use */
} levels[] = {{"v2", dnnl_cpu_isa_sse41},
              {"v3", dnnl_cpu_isa_avx2},
              {"v4", dnnl_cpu_isa_avx512_core},
              {"v4bf16", dnnl_cpu_isa_avx512_core_bf16}};
enum { LEVELS = sizeof levels / sizeof *levels };

static int has(const char *level)
{
    int own = LEVELS - 1, asked = LEVELS - 1;
    while (own >= 0 && strcmp(levels[own].name, tg_cpu_level()))
        own--;
    while (asked >= 0 && strcmp(levels[asked].name, level))
        asked--;
    return asked <= own;
}

/* The implementation that multiplies two matrices of ones. */
static const char *impl_of(tg_ctx *ctx, tg_type type)
{
    static char a[4 * N * N];
    static float c[N * N];
    const int64_t shape[] = {N, N};
    tg_tensor in = tg_tensor_of(a, type, 2, shape), out = tg_tensor_of(c, TG_F32, 2, shape);
    for (int i = 0; i < N * N; i++) {
        if (type == TG_F32)
            ((float *)a)[i] = 1;
        else
            ((unsigned short *)a)[i] = 0x3f80;
    }
    EXPECT(tg_gemm(ctx, &(tg_gemm_args){.a = &in, .b = &in, .c = &out}) == TG_OK, "%s",
           tg_last_error());
    EXPECT(c[0] == N && c[N * N - 1] == N, "the product is %g, expected %d", (double)c[0], N);
    return tg_ctx_last_impl(ctx);
}

static void use_onednn(void)
{
    float a[4] = {1, 1, 1, 1}, c[4];
    EXPECT(dnnl_sgemm('N', 'N', 2, 2, 2, 1, a, 2, a, 2, 0, c, 2) == dnnl_success, "dnnl_sgemm");
}

/* A lower ceiling of one context: oneDNN, which would use more, is not asked. */
static void check_lower(tg_ctx *ctx, const char *level)
{
    for (int i = 0; i < LEVELS && strcmp(levels[i].name, level); i++) {
        EXPECT(tg_ctx_set_cpu_max(ctx, levels[i].name) == TG_OK, "%s", tg_last_error());
        for (int type = 0; type < 2; type++) {
            const char *impl = impl_of(ctx, type ? TG_BF16 : TG_F32);
            EXPECT(strcmp(impl, onednn), "up to %s: %s ran, under %s", levels[i].name, impl, level);
        }
    }
}

int main(int argc, char **argv)
{
    const char *level = argc > 1 ? argv[1] : "none";
    const int late = !strcmp(level, "late"), none = !strcmp(level, "none");
    if (!none && !has(late ? "v3" : level)) {
        printf("this processor has no %s\n", level);
        return 77;
    }
    if (none)
        unsetenv("TIGON_CPU_MAX");
    else
        setenv("TIGON_CPU_MAX", late ? "v2" : level, 1);
    if (late)
        use_onednn();

    tg_ctx *ctx = new_context();
    const int f32 = !strcmp(impl_of(ctx, TG_F32), onednn),
              bf16 = !strcmp(impl_of(ctx, TG_BF16), onednn);
    const unsigned used = dnnl_get_effective_cpu_isa();
    printf("TIGON_CPU_MAX %s: %s in f32, %s in bf16, oneDNN's instructions 0x%x\n",
           none ? "not set" : level, f32 ? "oneDNN" : "our own", bf16 ? "oneDNN" : "our own", used);
    EXPECT(f32 == !late, "%s: oneDNN %s", level, f32 ? "ran" : "did not run");
    for (int i = 0; i < LEVELS; i++)
        EXPECT(strcmp(levels[i].name, level) || !(used & ~levels[i].isa),
               "oneDNN uses 0x%x, at %s 0x%x at most", used, level, levels[i].isa);
    /* any level is below matrix units */
    const int amx = (used & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
    check_lower(ctx, amx ? "" : none ? tg_cpu_level() : level);
    tg_ctx_destroy(ctx);
    return report();
}
