/* What the CPU can do, as the levels that kernels are compiled for. */
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "core/ceiling.h"
#include "core/core.h"

static const struct {
    const char *name;
    uint64_t features; /* all that a machine of this level has */
} levels[] = {
    {"base", 0},
#if defined(__x86_64__)
    {"v2", TG_CPU_V2},
    {"v3", TG_CPU_V2 | TG_CPU_V3},
    {"v4", TG_CPU_V2 | TG_CPU_V3 | TG_CPU_V4},
    {"v4bf16", TG_CPU_V2 | TG_CPU_V3 | TG_CPU_V4 | TG_CPU_BF16},
#elif defined(__aarch64__)
    {"neon", TG_CPU_NEON},
#endif
};
enum { LEVELS = sizeof levels / sizeof *levels };

#if defined(__x86_64__)
/* What older compilers' __builtin_cpu_supports() has no word for. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Tiles of bf16, in the processor and saved by the operating system. */
static int has_amx(void)
{
    enum { BF16 = 1 << 22, TILE = 1 << 24, TILES_SAVED = 3 << 17 };
    unsigned a, b, c, d, saved, high;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (BF16 | TILE)) != (BF16 | TILE))
        return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    return (saved & TILES_SAVED) == TILES_SAVED;
}
#endif

static uint64_t machine_features;

static void find_features(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
    const int v2 = HAS("sse4.2") && HAS("ssse3") && HAS("popcnt");
    const int v3 = v2 && HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2") && has_f16c();
    const int v4 = v3 && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") &&
                   HAS("avx512vl");
    const int bf16 = v4 && HAS("avx512bf16");
    const uint64_t amx = bf16 && has_amx() ? TG_CPU_AMX : 0;
#undef HAS
    machine_features = levels[bf16 ? 4 : v4 ? 3 : v3 ? 2 : v2 ? 1 : 0].features | amx;
#else
    machine_features = levels[LEVELS - 1].features; /* aarch64 always has NEON */
#endif
}

/* Found once: a virtual machine takes microseconds for each question to the processor. */
uint64_t tg_cpu_features(void)
{
    static pthread_once_t found = PTHREAD_ONCE_INIT;
    pthread_once(&found, find_features);
    return machine_features;
}

static int tiles_permitted;

/* Asked when a product is about to use them, since frames of signals are larger from then on. */
static void ask_for_tiles(void)
{
#if defined(__x86_64__)
    enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    tiles_permitted = syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) == 0;
#endif
}

int tg_cpu_permit_tiles(void)
{
    static pthread_once_t asked = PTHREAD_ONCE_INIT;
    pthread_once(&asked, ask_for_tiles);
    return tiles_permitted;
}

uint64_t tg_cpu_slow_features(void)
{
    /* Products of pairs of bf16 run at twice the rate of f32's on AMD's cores, at half of it in the
     * vector units of Intel's. */
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") ? 0 : TG_CPU_BF16;
#else
    return 0;
#endif
}

static uint64_t process_features; /* set before the first context exists, and for good */

void tg_cpu_open(void)
{
    const char *level = getenv("TIGON_CPU_MAX");
    const int64_t ceiling = level && *level ? tg_cpu_level_features(level) : -1;
    process_features = tg_cpu_features() & (uint64_t)ceiling; /* -1: all */
}

uint64_t tg_cpu_process(void)
{
    return process_features;
}

int tg_cpu_is_held(void)
{
    return process_features != tg_cpu_features();
}

const char *tg_cpu_levels(void)
{
#if defined(__x86_64__)
    return "v2, v3, v4 or v4bf16";
#else
    return levels[LEVELS - 1].name;
#endif
}

int64_t tg_cpu_level_features(const char *level)
{
    for (int i = 0; i < LEVELS; i++)
        if (strcmp(levels[i].name, level) == 0)
            return (int64_t)levels[i].features;
    return -1;
}

const char *tg_cpu_level(void)
{
    const uint64_t features = tg_cpu_features();
    int i = LEVELS - 1;
    while (levels[i].features & ~features)
        i--;
    return levels[i].name;
}

const char *tg_cpu_needs(uint64_t needs)
{
    static const struct {
        uint64_t feature, implied; /* by a feature that is named instead */
        const char *name;
    } features[] = {{TG_CPU_V2, TG_CPU_V3 | TG_CPU_V4, "v2"},
                    {TG_CPU_V3, TG_CPU_V4, "v3"},
                    {TG_CPU_V4, 0, "v4"},
                    {TG_CPU_BF16, 0, "bf16"},
                    {TG_CPU_AMX, 0, "amx"},
                    {TG_CPU_NEON, 0, "neon"}};
    static _Thread_local char text[64];
    uint64_t unknown = needs;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        if ((needs & features[i].feature) && !(needs & features[i].implied))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "",
                                     features[i].name);
        unknown &= ~features[i].feature;
    }
    return unknown ? "an unknown feature" : text;
}
