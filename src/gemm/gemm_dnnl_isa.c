/* src/gemm/gemm_dnnl_isa.c - what oneDNN may use of the processor. It has one limit for the whole
 * process, which holds from its first primitive on: here it is set to the process's ceiling,
 * TIGON_CPU_MAX, whatever ONEDNN_MAX_CPU_ISA says.
 */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

#include "core/ceiling.h"
#include "gemm_dnnl.h"

static struct {
    pthread_once_t once;
    int held;      /* oneDNN uses no more than the process may */
    int pays_bf16; /* its products of bf16 run faster than those of f32 */
} isa = {.once = PTHREAD_ONCE_INIT};

static void set_isa(void)
{
    isa.held = 1;
#if defined(__x86_64__)
    static const struct {
        uint64_t feature;
        dnnl_cpu_isa_t limit;
    } levels[] = {{TG_CPU_BF16, dnnl_cpu_isa_avx512_core_bf16},
                  {TG_CPU_V4, dnnl_cpu_isa_avx512_core},
                  {TG_CPU_V3, dnnl_cpu_isa_avx2},
                  {0, dnnl_cpu_isa_sse41}};
    if (tg_cpu_is_held()) {                           /* no case: under TIGON_CPU_MAX alone, */
        int i = 0;                                    /* which tests/gemm sets */
        while (levels[i].feature & ~tg_cpu_process()) /* no case: as above */
            i++;                                      /* no case: as above */
        const unsigned limit = levels[i].limit;       /* no case: as above */
        /* Refused if the program has used oneDNN before. no case: as above */
        dnnl_set_max_cpu_isa(limit);
        isa.held = !(dnnl_get_effective_cpu_isa() & ~limit); /* no case: as above */
    }
    /* In matrix units, and on AMD's cores, but not in the vector units of Intel's. */
    const unsigned found = dnnl_get_effective_cpu_isa();
    const unsigned amx = dnnl_cpu_isa_avx512_core_amx, bf16 = dnnl_cpu_isa_avx512_core_bf16;
    __builtin_cpu_init();
    /* no case: of all but this processor */
    isa.pays_bf16 = (found & amx) == amx || ((found & bf16) == bf16 && __builtin_cpu_is("amd"));
#endif
}

int gemm_isa_takes(int type)
{
    pthread_once(&isa.once, set_isa);
    /* no case: of all but this processor, without a ceiling */
    return isa.held && (type == TG_BF16 ? isa.pays_bf16 : type == TG_F32);
}
