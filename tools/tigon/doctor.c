/* tools/tigon/doctor.c - `tigon doctor`: which implementation each operator resolves to on each device, and why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/tigon.h>

#include "formats/json.h"
#include "share/cli.h"
#include "share/impl_device.h"

enum { DEVICES = 16, ROUTE = 32, WHY = 512 };

/* One device that some backend serves. */
typedef struct device {
    const char *name;
    int type;
    tg_ctx *ctx; /* of that device; NULL: it cannot be used */
    char why[WHY];
    int own, passed_on; /* operators with implementations of its own, and without */
} device;

typedef struct doctor {
    device list[DEVICES];
    int n;
} doctor;

static int known(const doctor *d, const char *name)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->list[i].name, name))
            return 1;
    return 0;
}

/* Settings of the environment count, but for the device. */
static int find_devices(doctor *d)
{
    unsetenv("TIGON_DEVICE");
    for (int i = 0; i < tg_backend_count(); i++) {
        const tg_backend_info *b = tg_backend_at(i);
        if (known(d, b->device) || d->n == DEVICES)
            continue;
        device *v = &d->list[d->n++];
        *v = (device){.name = b->device, .type = b->device_type};
        if (tg_ctx_create(&v->ctx))
            return fprintf(stderr, "tigon doctor: %s\n", tg_last_error()), -1;
        if (tg_ctx_set_device(v->ctx, v->name) == TG_OK)
            continue;
        snprintf(v->why, sizeof v->why, "%s", tg_last_error());
        tg_ctx_destroy(v->ctx);
        v->ctx = NULL;
    }
    return 0;
}

/* The first implementation of the device itself that a call tries; -1: it has none, and *otherwise is the implementation that runs
 * instead, -1 for none. */
static int resolve(const device *v, int op, int *otherwise)
{
    int impls[ROUTE];
    int n = tg_resolve(v->ctx, op, impls, ROUTE);
    n = n < ROUTE ? n : ROUTE;
    *otherwise = n ? impls[0] : -1;
    for (int i = 0; i < n; i++)
        if (impl_is_of(v->ctx, impls[i]))
            return impls[i];
    return -1;
}

/* What becomes of an operator on a device, in words. */
static void verdict(const device *v, int op, const char **impl, const char **why)
{
    int otherwise;
    const int own = resolve(v, op, &otherwise);
    *impl = own >= 0         ? tg_impl_at(own)->full_name
            : otherwise >= 0 ? tg_impl_at(otherwise)->full_name
                             : "";
    if (own >= 0 && own == otherwise)
        *why = strcmp(impl_device(own), v->name) ? "made of calls of other operators" : "its own";
    else if (own >= 0)
        *why = "its own, behind another that was named";
    else if (v->type == TG_DEVICE_CPU)
        *why = otherwise >= 0 ? "not exported: the CPU's implementation"
                              : "not exported: an error, as settings ask";
    else
        *why = "not exported: an error, or the CPU's implementation with copies if "
               "TIGON_FALLBACK=host";
}

static void count_impls(doctor *d)
{
    for (int i = 0; i < d->n; i++)
        for (int op = 0; d->list[i].ctx && op < tg_op_count(); op++) {
            int otherwise;
            const int own = resolve(&d->list[i], op, &otherwise) >= 0;
            d->list[i].own += own;
            d->list[i].passed_on += !own;
        }
}

static void print_text(const doctor *d, int wanted, char **names)
{
    const char *impl, *why;
    printf("devices\n");
    for (int i = 0; i < d->n; i++) {
        const device *v = &d->list[i];
        if (v->ctx)
            printf("  %-10s ready: %d operators have implementations of its own, %d have none\n",
                   v->name, v->own, v->passed_on);
        else
            printf("  %-10s cannot be used: %s\n", v->name, v->why);
    }
    for (int op = 0; op < tg_op_count(); op++) {
        if (wanted && strncmp(tg_op_at(op)->name, names[0], strlen(names[0])))
            continue;
        printf("\n%s\n", tg_op_at(op)->name);
        for (int i = 0; i < d->n; i++) {
            if (!d->list[i].ctx)
                continue;
            verdict(&d->list[i], op, &impl, &why);
            printf("  %-10s %-44s %s\n", d->list[i].name, impl, why);
        }
    }
}

static void print_json(const doctor *d, int wanted, char **names)
{
    const char *impl, *why;
    json j = json_begin(stdout, 3);
    json_object(&j, NULL);
    json_array(&j, "devices");
    for (int i = 0; i < d->n; i++) {
        const device *v = &d->list[i];
        json_object(&j, NULL);
        json_text(&j, "device", v->name);
        json_bool(&j, "ready", v->ctx != NULL);
        json_text(&j, "why", v->ctx ? NULL : v->why);
        json_int(&j, "own", v->own);
        json_int(&j, "not_exported", v->passed_on);
        json_close(&j);
    }
    json_close(&j);
    json_array(&j, "operators");
    for (int op = 0; op < tg_op_count(); op++) {
        if (wanted && strncmp(tg_op_at(op)->name, names[0], strlen(names[0])))
            continue;
        json_object(&j, NULL);
        json_text(&j, "name", tg_op_at(op)->name);
        json_array(&j, "devices");
        for (int i = 0; i < d->n; i++) {
            if (!d->list[i].ctx)
                continue;
            verdict(&d->list[i], op, &impl, &why);
            json_object(&j, NULL);
            json_text(&j, "device", d->list[i].name);
            json_text(&j, "implementation", *impl ? impl : NULL);
            json_text(&j, "why", why);
            json_close(&j);
        }
        json_close(&j);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    json_end(&j);
}

int command_doctor(int argc, char **argv)
{
    int as_json = 0;
    const cli_option options[] = {
        {"--json", CLI_FLAG, &as_json, NULL, "print one JSON object"},
        {0},
    };
    const cli_usage usage = {
        "tigon doctor",
        "[OPERATOR]",
        "Which implementation each operator resolves to on each device, and why.",
        "OPERATOR may be the beginning of a name. An implementation may still turn a problem down; "
        "the next "
        "one of\n"
        "tigon list --resolve runs it then. The settings of the environment count.",
        options,
        1};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    static doctor d;
    if (find_devices(&d))
        return 1;
    count_impls(&d);
    (as_json ? print_json : print_text)(&d, parsed, argv + 1);
    for (int i = 0; i < d.n; i++)
        tg_ctx_destroy(d.list[i].ctx);
    return 0;
}
