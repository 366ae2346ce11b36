/* Settings of the environment, and what there looks like one but is none. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/blas.h"
#include "core/core.h"

extern char **environ;

static const char op_prefix[] = "TIGON_IMPL_"; /* then an operator */

static tg_status set_fallback_by_name(tg_ctx *ctx, const char *name, const char *who)
{
    if (strcmp(name, "error") == 0 || strcmp(name, "host") == 0)
        return tg_ctx_set_fallback(ctx, *name == 'h' ? TG_FALLBACK_HOST : TG_FALLBACK_ERROR);
    return tg_fail(TG_EINVAL, "%s: there is no policy %s, expected error or host", who, name);
}

static tg_status set_switch(tg_ctx *ctx, const char *value, const char *who,
                            tg_status (*set)(tg_ctx *ctx, int on))
{
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return tg_fail(TG_EINVAL, "%s is %s, expected 0 or 1", who, value);
    return set(ctx, *value == '1');
}

static tg_status set_strict_by_name(tg_ctx *ctx, const char *value, const char *who)
{
    return set_switch(ctx, value, who, tg_ctx_set_strict);
}

static tg_status set_batch_invariant_by_name(tg_ctx *ctx, const char *value, const char *who)
{
    return set_switch(ctx, value, who, tg_ctx_set_batch_invariant);
}

static tg_status set_verbose_by_name(tg_ctx *ctx, const char *value, const char *who)
{
    return set_switch(ctx, value, who, tg_ctx_set_verbose);
}

static tg_status set_impl_by_name(tg_ctx *ctx, const char *list, const char *who)
{
    return tg_ctx_use_list(ctx, -1, list, who);
}

static tg_status read_op_lists(tg_ctx *ctx)
{
    for (char **entry = environ; entry && *entry; entry++) {
        if (strncmp(*entry, op_prefix, sizeof op_prefix - 1) != 0)
            continue;
        char variable[96], name[96];
        const size_t length = strcspn(*entry, "=");
        snprintf(variable, sizeof variable, "%.*s", (int)length, *entry);
        snprintf(name, sizeof name, "%s", variable + sizeof op_prefix - 1);
        for (char *c = name; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        const int op = tg_op_by_name(name);
        if (op < 0)
            return tg_fail(TG_ENOTFOUND, "%s: there is no operator %s", variable, name);
        TG_TRY(tg_ctx_use_list(ctx, op, *entry + length + ((*entry)[length] == '='), variable));
    }
    return TG_OK;
}

static const struct {
    const char *name;
    tg_status (*set)(tg_ctx *ctx, const char *value,
                     const char *who); /* NULL: another part reads it */
} settings[] = {{"TIGON_CPU_MAX", tg_ctx_use_cpu_max},
                {"TIGON_STRICT", set_strict_by_name},
                {"TIGON_BATCH_INVARIANT", set_batch_invariant_by_name},
                {"TIGON_VERBOSE", set_verbose_by_name},
                {"TIGON_FALLBACK", set_fallback_by_name},
                {"TIGON_DEVICE", tg_ctx_use_device},
                {"TIGON_IMPL", set_impl_by_name},
                {"TIGON_TUNE", NULL},
                {"TIGON_BLAS", tg_blas_check},
                {"TIGON_BACKEND_PATH", NULL},
                {"TIGON_LIGER", NULL},
                {"TIGON_TRANSFORMERS", NULL}};
enum { SETTINGS = sizeof settings / sizeof *settings };

tg_status tg_ctx_read_environment(tg_ctx *ctx)
{
    for (int i = 0; i < SETTINGS; i++) {
        const char *value = getenv(settings[i].name);
        if (value && *value && settings[i].set)
            TG_TRY(settings[i].set(ctx, value, settings[i].name));
    }
    return read_op_lists(ctx);
}

/* ---- names that nobody reads ---- */

/* Insertions, deletions and replacements from a to b. */
static int distance(const char *a, size_t length, const char *b)
{
    enum { MOST = 128 };
    const int n = (int)strlen(b);
    int row[MOST];
    if (n >= MOST)
        return MOST;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; i < length; i++) {
        int corner = row[0];
        row[0] = (int)i + 1;
        for (int j = 1; j <= n; j++) {
            const int replaced = corner + (a[i] != b[j - 1]);
            const int other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            corner = row[j];
            row[j] = replaced < other ? replaced : other;
        }
    }
    return row[n];
}

typedef struct search {
    const char *name;
    size_t length;
    int least; /* distance of the nearest; 0: known */
    const char *nearest;
} search;

static void compare(search *s, const char *known)
{
    const int d = distance(s->name, s->length, known);
    if (s->nearest && d >= s->least)
        return;
    s->least = d;
    s->nearest = known;
}

/* Whether TIGON_<DEVICE>_... may be a name of a backend that is loaded when its device is chosen,
 * which tells its names then. */
static int is_of_backend_beside(const char *name, size_t length)
{
    char device[32], path[4096];
    const char *const word = name + sizeof "TIGON_" - 1;
    const size_t n = strcspn(word, "_=");
    if (n >= sizeof device || word + n >= name + length)
        return 0;
    for (size_t i = 0; i < n; i++)
        device[i] = (char)tolower((unsigned char)word[i]);
    device[n] = 0;
    return tg_plugin_path_beside(device, path, sizeof path);
}

static search look_up(const char *name, size_t length)
{
    search s = {name, length, 0, NULL};
    const reg_backend *b;
    if (is_of_backend_beside(name, length))
        return s;
    for (int i = 0; i < SETTINGS; i++)
        compare(&s, settings[i].name);
    for (int i = 0; (b = tg_registry_backend(i)); i++)
        for (const char *const *v = b->table.environment; v && *v; v++)
            compare(&s, *v);
    return s;
}

static int is_of_operators(const char *name)
{
    return strncmp(name, op_prefix, sizeof op_prefix - 1) == 0;
}

int tg_is_setting(const char *name)
{
    return strncmp(name, "TIGON_", 6) == 0 &&
           (is_of_operators(name) || look_up(name, strlen(name)).least == 0);
}

void tg_environment_warn(void)
{
    for (char **entry = environ; entry && *entry; entry++) {
        if (strncmp(*entry, "TIGON_", 6) != 0 || is_of_operators(*entry))
            continue;
        const int length = (int)strcspn(*entry, "=");
        const search s = look_up(*entry, (size_t)length);
        if (s.least > 0)
            tg_log_line(
                NULL,
                "tigon: nobody reads %.*s, which is in the environment; the nearest name is %s",
                length, *entry, s.nearest);
    }
}
