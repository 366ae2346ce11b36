/* tools/tigon/doctor/devices.c - finds the devices, and what becomes of each operator
 * there: see doctor.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/backend.h>

#include "doctor.h"
#include "share/impl_device.h"
#include "share/names.h"
#include "share/text.h"

enum { ROUTE = 64 };

/* ---- devices ---- */

static device *find(doctor *d, const char *name)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->list[i].name, name))
            return &d->list[i];
    return NULL;
}

/* The message without what the name of the device beside it says already. */
static const char *reason(const char *device_name)
{
    static const char *const known[] = {"tg_ctx_set_device: ", "no backend serves device ", NULL,
                                        ": "};
    const char *text = tg_last_error();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *skipped = known[i] ? known[i] : device_name;
        if (name_begins(text, skipped))
            text += strlen(skipped);
    }
    return text;
}

/* Choosing a device brings the library that lies beside libtigon for it. */
static int add(doctor *d, const char *name)
{
    if (find(d, name) || d->n == DOCTOR_DEVICES)
        return 0;
    device *v = &d->list[d->n++];
    snprintf(v->name, sizeof v->name, "%s", name);
    if (tg_ctx_create(&v->ctx))
        return fprintf(stderr, "tigon doctor: %s\n", tg_last_error()), -1;
    if (tg_ctx_set_device(v->ctx, name) == TG_OK)
        return 0;
    snprintf(v->why, sizeof v->why, "%s", reason(name));
    tg_ctx_destroy(v->ctx);
    v->ctx = NULL;
    return 0;
}

static void count_operators(device *v)
{
    int impl;
    for (int op = 0; v->ctx && op < tg_op_count(); op++)
        v->count[doctor_stands(v, op, &impl)]++;
}

int doctor_look(doctor *d)
{
    const tg_probe *probes;
    const char *asked = getenv("TIGON_DEVICE");
    tg_ctx *ctx = NULL;
    int bad = 0;
    if (tg_ctx_create(&ctx))
        snprintf(d->wrong, sizeof d->wrong, "%s", tg_last_error());
    else
        snprintf(d->chosen, sizeof d->chosen, "%s", tg_ctx_device(ctx));
    tg_ctx_destroy(ctx);
    d->asked = asked && *asked;
    unsetenv("TIGON_DEVICE");
    if (*d->wrong && tg_ctx_create(&ctx))
        return 0; /* whatever the device: nothing more can be told */
    tg_ctx_destroy(*d->wrong ? ctx : NULL);

    const int nprobes = tg_device_probes(&probes);
    bad = add(d, "cpu");
    for (int i = 0; !bad && i < nprobes; i++)
        bad = add(d, probes[i].device);
    for (int i = 0; !bad && i < tg_backend_count(); i++)
        bad = add(d, tg_backend_at(i)->device);
    for (int i = 0; i < nprobes; i++) {
        device *v = find(d, probes[i].device);
        if (v)
            v->probe = &probes[i];
    }
    for (int i = 0; !bad && i < d->n; i++)
        count_operators(&d->list[i]);
    return bad;
}

void doctor_close(doctor *d)
{
    for (int i = 0; i < d->n; i++)
        tg_ctx_destroy(d->list[i].ctx);
}

/* ---- operators ---- */

standing doctor_stands(const device *v, int op, int *impl)
{
    int impls[ROUTE];
    const char *fallback = getenv("TIGON_FALLBACK");
    const int n = tg_resolve(v->ctx, op, impls, ROUTE);
    *impl = n ? impls[0] : -1;
    if (!n)
        return STANDS_NONE;
    if (tg_impl_at(*impl)->takes & TG_TAKES_ANY_DEVICE)
        return STANDS_COMPOSED;
    if (!strcmp(impl_device(*impl), v->name))
        return STANDS_OWN;
    if (tg_ctx_device_type(v->ctx) == TG_DEVICE_CPU)
        return STANDS_CPU;
    return fallback && !strcmp(fallback, "host") ? STANDS_COPIED : STANDS_NONE;
}

/* An implementation of the device's own is there, though settings may leave it out. */
static int has_own(const device *v, int op)
{
    for (int i = 0; i < tg_impl_count(); i++)
        if (tg_impl_at(i)->op == op && !strcmp(impl_device(i), v->name))
            return 1;
    return 0;
}

/* "the CPU's", "the device's own"; of another backend that serves the CPU, "acme's" */
static const char *owner(const device *v, const char *backend)
{
    static char text[64];
    if (!strcmp(backend, "cpu"))
        return "the CPU's";
    if (strcmp(v->name, "cpu"))
        return "the device's own";
    snprintf(text, sizeof text, "%s's", backend);
    return text;
}

const char *doctor_words(const device *v, standing s, int op, int impl)
{
    static const char *const none[STANDINGS] = {
        [STANDS_CPU] = "the CPU's: the device has none",
        [STANDS_COPIED] = "the CPU's, with copies: the device has none",
        [STANDS_NONE] = "an error: the device has none; TIGON_FALLBACK=host takes the CPU's"};
    static const char *const named[STANDINGS] = {[STANDS_CPU] = "the CPU's, as settings ask",
                                                 [STANDS_COPIED] =
                                                     "the CPU's, with copies, as settings ask",
                                                 [STANDS_NONE] = "an error, as settings ask"};
    if (s == STANDS_OWN)
        return owner(v, tg_impl_at(impl)->backend);
    if (s == STANDS_COMPOSED)
        return "made of calls of other operators";
    return (impl < 0 || has_own(v, op) ? named : none)[s];
}

/* ---- the verdict ---- */

/* A device whose driver counts some, and which calls do not use. */
static int tell_unused(const device *v, const char *chosen, char *text, size_t size)
{
    if (!v->probe || !v->probe->count || !strcmp(v->name, "cpu") || !strcmp(v->name, chosen))
        return 0;
    text_add(text, size, "; %s is here", *v->probe->name ? v->probe->name : "a card");
    if (v->ctx)
        text_add(text, size, ", and TIGON_DEVICE=%s uses it", v->name);
    else
        text_add(text, size, ", but device %s cannot be used: %s", v->name, v->why);
    return !v->ctx;
}

void doctor_verdict(const doctor *d, char *text, size_t size)
{
    static const char *const settings[] = {"TIGON_IMPL", "TIGON_STRICT", "TIGON_CPU_MAX",
                                           "TIGON_FALLBACK", "TIGON_BACKEND_PATH"};
    int missing = 0;
    text[0] = '\0';
    if (*d->wrong) {
        text_add(text, size, "No call can run: %s", d->wrong);
        return;
    }
    text_add(text, size, "Calls run on %s%s", d->chosen, d->asked ? ", as TIGON_DEVICE asks" : "");
    for (int i = 0; i < (int)(sizeof settings / sizeof *settings); i++)
        if (getenv(settings[i]) && *getenv(settings[i]))
            text_add(text, size, ", with %s=%s", settings[i], getenv(settings[i]));
    for (int i = 0; i < d->n; i++) {
        const device *v = &d->list[i];
        missing += tell_unused(v, d->chosen, text, size);
        if (strcmp(v->name, d->chosen) || !v->ctx)
            continue;
        if (v->count[STANDS_NONE])
            text_add(text, size, "; %d operators have no implementation there",
                     v->count[STANDS_NONE]);
        missing += v->count[STANDS_NONE] > 0;
        if (strcmp(v->name, "cpu") || tg_find(v->ctx, "cpu/gemm.onednn") >= 0)
            continue;
        text_add(text, size,
                 "; this build lacks oneDNN, which makes products faster (Debian: "
                 "apt-get install libdnnl-dev, then build again)");
        missing++;
    }
    text_add(text, size, missing ? "" : "; nothing is missing");
}
