/* tuning.c - how kernels of the CPU use memory: what differs from machine to machine. `tigon
 * tune` measures it. */
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/core.h"
#include "simd/ahead.h"

/* stream: outputs of more bytes are written past the caches, since they are gone from there before
 * anyone reads them. */
typedef struct tuning {
    int64_t stream;
    v_distances ahead;
} tuning;

v_distances v_distance;

static _Atomic int64_t stream_bytes;

/* ---- the table ---- */

/* x86: family and models of a maker, with so many processors at most, since what a cache keeps
 * depends on how many share it. The first line that fits counts; the last one fits all. */
static const struct machine {
    const char *maker; /* as the processor says it; NULL: any */
    unsigned family, first, last;
    int processors;
    tuning of;
} machines[] = {
    /* Emerald Rapids, two cores of it: `tigon tune --rounds 15` finds outputs of 16 MiB, read next,
     * 1.2 to 1.3 times as fast when written past the caches, those of 8 MiB as fast either way, and
     * other distances less than 1 % faster */
    {"GenuineIntel", 6, 207, 207, 2, {8 << 20, {2048, 8192, 16384}}},
    /* 16 cores of one, with 300 MiB of last cache: `tigon tune --rounds 15`, three times on two
     * machines, finds outputs of 16 to 64 MiB, read next, 1.28, 1.32 and 1.37 times as fast in the
     * caches, and other distances less than 1 % faster */
    {"GenuineIntel", 6, 207, 207, 16, {64 << 20, {2048, 8192, 16384}}},
    /* chosen on two cores of a Cascade Lake */
    {NULL, 0, 0, 0, INT_MAX, {16 << 20, {2048, 8192, 16384}}},
};

static int fits(const struct machine *m)
{
#if defined(__x86_64__)
    unsigned a, b, c, d, maker[3];
    if (m->maker && __get_cpuid(0, &a, &maker[0], &maker[2], &maker[1]) &&
        !memcmp(m->maker, maker, sizeof maker) && __get_cpuid(1, &a, &b, &c, &d)) {
        const unsigned family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
        const unsigned model = (a >> 4 & 15) + (a >> 16 & 15) * 16;
        return family == m->family && model >= m->first && model <= m->last &&
               tg_processors() <= m->processors;
    }
#endif
    return !m->maker;
}

static void use(const tuning *t)
{
    v_distance = t->ahead;
    atomic_store_explicit(&stream_bytes, t->stream, memory_order_relaxed);
}

/* ---- settings by name ---- */

static const struct setting {
    const char *name;
    size_t at;
} settings[] = {
    {"stream", offsetof(tuning, stream)},
    {"pass", offsetof(tuning, ahead.pass)},
    {"exps", offsetof(tuning, ahead.exps)},
    {"rows", offsetof(tuning, ahead.rows)},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static int64_t *value_of(tuning *t, const char *name, size_t length)
{
    for (int i = 0; i < SETTINGS; i++)
        if (strlen(settings[i].name) == length && !strncmp(settings[i].name, name, length))
            return (int64_t *)((char *)t + settings[i].at);
    return NULL;
}

static tuning now(void)
{
    return (tuning){atomic_load_explicit(&stream_bytes, memory_order_relaxed), v_distance};
}

int64_t tg_tuned(const char *name)
{
    tuning t = now();
    const int64_t *value = value_of(&t, name, strlen(name));
    return value ? *value : -1;
}

static tg_status read_settings(const char *text, const char *who)
{
    tuning t = now();
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, "=,");
        int64_t *value = value_of(&t, at, length);
        char *end = NULL;
        if (!value)
            return tg_fail(TG_ENOTFOUND,
                           "%s: there is no setting %.*s; there are stream, pass, exps and rows",
                           who, (int)length, at);
        *value = at[length] == '=' ? strtoll(at + length + 1, &end, 10) : -1;
        if (!end || end == at + length + 1 || (*end && *end != ',') || *value < 0)
            return tg_fail(TG_EINVAL, "%s: found %.*s, expected %.*s=<a number of bytes>", who,
                           (int)strcspn(at, ","), at, (int)length, at);
        at = *end ? end + 1 : end;
    }
    use(&t);
    return TG_OK;
}

tg_status tg_tuning_open(void)
{
    const struct machine *m = machines;
    const char *text = getenv("TIGON_TUNE");
    while (!fits(m))
        m++;
    use(&m->of);
    return text ? read_settings(text, "TIGON_TUNE") : TG_OK;
}

tg_status tg_tune(const char *text)
{
    TG_TRY(tg_registry_open());
    return read_settings(text ? text : "", "tg_tune");
}

int tg_streams(int64_t bytes)
{
    return bytes > atomic_load_explicit(&stream_bytes, memory_order_relaxed);
}
