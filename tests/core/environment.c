/* The environment's settings: each right value works, each wrong one is an error that
 * names the variable. */
#include "../common/test.h"

static void expect_status(const char *name, const char *value, tg_status expected)
{
    tg_ctx *ctx = NULL;
    setenv(name, value, 1);
    const tg_status status = tg_ctx_create(&ctx);
    EXPECT(status == expected, "%s=%s: %s, expected %s (%s)", name, value, tg_status_name(status),
           tg_status_name(expected), tg_last_error());
    EXPECT(status == TG_OK || (!ctx && strstr(tg_last_error(), name)),
           "%s=%s: the message is \"%s\"", name, value, tg_last_error());
    tg_ctx_destroy(ctx);
    unsetenv(name);
}

/* ---- names that nobody reads ---- */

static char lines[4096];

static void keep(void *user, const char *line)
{
    (void)user;
    snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", line);
}

/* They are told when the library is first used, once each, with the nearest name. */
static void check_unknown(void)
{
    setenv("TIGON_VERBOS", "1", 1);
    setenv("TIGON_DEVIC", "", 1);
    setenv("TIGON_SOK", "910B1", 1);
    setenv("TIGON_ASCEND_SEED", "1", 1); /* of a backend */
    setenv("TIGON_LIGER", "1", 1);       /* of the Python package, as the next one is */
    setenv("TIGON_TRANSFORMERS", "1", 1);
    setenv("TIGON_STRICT", "0", 1);
    setenv("TIGONISH", "1", 1);
    tg_set_log(keep, NULL);
    for (int i = 0; i < 2; i++)
        tg_ctx_destroy(new_context());
    tg_set_log(NULL, NULL);
    const char *const expected[][2] = {{"TIGON_VERBOS,", "TIGON_VERBOSE"},
                                       {"TIGON_DEVIC,", "TIGON_DEVICE"},
                                       {"TIGON_SOK,", "TIGON_SOC"}};
    int n = 0;
    for (const char *c = lines; *c; c++)
        n += *c == '\n';
    EXPECT(n == 3, "%d lines: %s", n, lines);
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(lines, expected[i][0]);
        EXPECT(at && strstr(at, expected[i][1]), "no line on %s: %s", expected[i][0], lines);
    }
    unsetenv("TIGON_VERBOS");
    unsetenv("TIGON_DEVIC");
    unsetenv("TIGON_SOK");
    unsetenv("TIGON_ASCEND_SEED");
    unsetenv("TIGON_LIGER");
    unsetenv("TIGON_TRANSFORMERS");
    unsetenv("TIGON_STRICT");
}

static void check_is_setting(void)
{
    const struct {
        const char *name;
        int is;
    } names[] = {
        {"TIGON_LIGER", 1},
        {"TIGON_TRANSFORMERS", 1},
        {"TIGON_BACKEND_PATH", 1},
        {"TIGON_SOC", 1},
        {"TIGON_IMPL_DYT_FORWARD", 1},
        {"TIGON_LIGERS", 0},
        {"TIGON_", 0},
        {"HOME", 0},
        {"OMP_NUM_THREADS", 0},
        {"TIGON_DEVICE=", 0},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        EXPECT(tg_is_setting(names[i].name) == names[i].is, "%s: %d, expected %d", names[i].name,
               !names[i].is, names[i].is);
}

int main(void)
{
    check_unknown();
    check_is_setting();
    const struct {
        const char *name, *good, *bad;
        tg_status error;
    } settings[] = {
        {"TIGON_DEVICE", "cpu", "tpu", TG_ENOTFOUND},
        {"TIGON_IMPL", "unfused,cpu", "cpu,foo", TG_ENOTFOUND},
        {"TIGON_IMPL_RMS_NORM_FORWARD", "ref/rms_norm_forward", "ref/rms_norm_backward",
         TG_ENOTFOUND},
        {"TIGON_IMPL_SOFTMAX_FORWARD", "ref,cpu", "nobody", TG_ENOTFOUND},
        {"TIGON_IMPL_RSM_NORM", "", "cpu", TG_ENOTFOUND},
        {"TIGON_STRICT", "1", "yes", TG_EINVAL},
        {"TIGON_VERBOSE", "0", "2", TG_EINVAL},
        {"TIGON_BATCH_INVARIANT", "1", "on", TG_EINVAL},
        {"TIGON_CPU_MAX", tg_cpu_level(), "v5", TG_EINVAL},
        {"TIGON_FALLBACK", "host", "maybe", TG_EINVAL},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (*settings[i].good)
            expect_status(settings[i].name, settings[i].good, TG_OK);
        expect_status(settings[i].name, settings[i].bad, settings[i].error);
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strncmp(settings[i].name, "TIGON_IMPL_", 11) != 0)
            expect_status(settings[i].name, "", TG_OK); /* empty: not set */
    EXPECT(tg_ctx_create(NULL) == TG_EINVAL, "%s", tg_last_error());
    EXPECT(tg_backend_load("/nowhere/libnone.so") == TG_ENOTFOUND &&
               strstr(tg_last_error(), "libnone"),
           "%s", tg_last_error());
    EXPECT(tg_backend_load("") == TG_EINVAL && tg_backend_load(NULL) == TG_EINVAL, "%s",
           tg_last_error());
    EXPECT(strcmp(tg_status_name(TG_ENOMEM), "TG_ENOMEM") == 0 &&
               strcmp(tg_status_name((tg_status)5), "TG_?") == 0,
           "names");
    return report();
}
