/* tools/tigon/doctor/doctor.c - `tigon doctor`: which device calls will use, what is missing, and
 * which implementation each operator resolves to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "formats/json.h"
#include "share/cli.h"
#include "share/names.h"

enum { INDENT = 11, WIDTH = 110 };

/* ---- text ---- */

/* Words of a line that goes on, indented, where it is longer than WIDTH; `at` characters of it
 * stand there already. */
static void print_wrapped(const char *text, int at, int indent)
{
    for (int n; *text; text += n) {
        n = (int)strcspn(text + 1, " ") + 1;
        if (at + n > WIDTH && at > indent) {
            at = printf("\n%*s", indent, "") - 1;
            text += *text == ' ';
            n -= n > 1;
        }
        at += printf("%.*s", n, text);
    }
    printf("\n");
}

static void print_line(const char *label, const char *text)
{
    const int at = printf("%*s%s", INDENT, "", label);
    print_wrapped(text, at, INDENT);
}

static void print_counts(const device *v)
{
    static const char *const words[STANDINGS] = {[STANDS_OWN] = "with implementations of its own",
                                                 [STANDS_COMPOSED] =
                                                     "made of calls of other operators",
                                                 [STANDS_CPU] = "the CPU's",
                                                 [STANDS_COPIED] = "the CPU's, with copies",
                                                 [STANDS_NONE] = "with none: an error"};
    printf("%*s%d operators", INDENT, "", tg_op_count());
    for (int s = 0, n = 0; s < STANDINGS; s++)
        if (v->count[s])
            printf("%s %d %s", n++ ? "," : ":", v->count[s],
                   s == STANDS_OWN && !strcmp(v->name, "cpu") ? "the CPU's" : words[s]);
    printf("\n");
}

static void print_ready(const doctor *d, const device *v)
{
    const char *ceiling = getenv("TIGON_CPU_MAX");
    const int used = !strcmp(v->name, d->chosen);
    printf("%s", used ? "calls run here" : "ready: ");
    if (!used)
        printf("TIGON_DEVICE=%s chooses it", v->name);
    if (strcmp(v->name, "cpu"))
        printf("%s%s\n", v->probe && *v->probe->name ? "; " : "", v->probe ? v->probe->name : "");
    else
        printf("; level %s%s%s, %d thread%s\n", tg_cpu_level(),
               ceiling && *ceiling ? ", held to " : "", ceiling && *ceiling ? ceiling : "",
               tg_ctx_threads(v->ctx), tg_ctx_threads(v->ctx) == 1 ? "" : "s");
    print_counts(v);
}

static void print_device(const doctor *d, const device *v)
{
    char text[DOCTOR_TEXT];
    printf("\n%-*s", INDENT, v->name);
    if ((int)strlen(v->name) >= INDENT)
        printf("\n%*s", INDENT, "");
    if (v->ctx) {
        print_ready(d, v);
    } else {
        snprintf(text, sizeof text, "cannot be used: %s", v->why);
        print_wrapped(text, INDENT, INDENT);
    }
    if (v->probe && *v->probe->library) {
        snprintf(text, sizeof text, "%s: %s", v->probe->library, v->probe->why);
        print_line("driver ", text);
    }
    for (int i = 0; i < tg_backend_count(); i++) {
        const tg_backend_info *b = tg_backend_at(i);
        if (strcmp(b->device, v->name) || !strcmp(b->module_path, "built in"))
            continue;
        snprintf(text, sizeof text, "%s: %d implementations", b->module_path, b->impls);
        print_line("library ", text);
    }
}

static void print_operators(const doctor *d, char *const *names, int n)
{
    for (int i = 0; i < d->n; i++) {
        const device *v = &d->list[i];
        if (!v->ctx)
            continue;
        printf("\n%s\n", v->name);
        for (int op = 0; op < tg_op_count(); op++) {
            int impl;
            const char *name = tg_op_at(op)->name;
            if (!name_is_wanted(names, n, name))
                continue;
            const standing s = doctor_stands(v, op, &impl);
            printf("  %-37s %-44s %s\n", name,
                   impl < 0 || s == STANDS_NONE ? "-" : tg_impl_at(impl)->full_name,
                   doctor_words(v, s, op, impl));
        }
    }
}

/* ---- JSON ---- */

static void json_device(json *j, const doctor *d, const device *v)
{
    static const char *const keys[STANDINGS] = {[STANDS_OWN] = "own",
                                                [STANDS_COMPOSED] = "composed",
                                                [STANDS_CPU] = "of_cpu",
                                                [STANDS_COPIED] = "of_cpu_copied",
                                                [STANDS_NONE] = "none"};
    json_object(j, NULL);
    json_text(j, "device", v->name);
    json_bool(j, "chosen", !strcmp(v->name, d->chosen));
    json_bool(j, "ready", v->ctx != NULL);
    json_text(j, "why", v->ctx ? NULL : v->why);
    json_text(j, "driver", v->probe && *v->probe->library ? v->probe->why : NULL);
    for (int s = 0; s < STANDINGS; s++)
        json_int(j, keys[s], v->count[s]);
    json_close(j);
}

static void json_operator(json *j, const doctor *d, int op)
{
    json_object(j, NULL);
    json_text(j, "name", tg_op_at(op)->name);
    json_array(j, "devices");
    for (int i = 0; i < d->n; i++) {
        int impl;
        const device *v = &d->list[i];
        if (!v->ctx)
            continue;
        const standing s = doctor_stands(v, op, &impl);
        json_object(j, NULL);
        json_text(j, "device", v->name);
        json_text(j, "implementation",
                  impl < 0 || s == STANDS_NONE ? NULL : tg_impl_at(impl)->full_name);
        json_text(j, "why", doctor_words(v, s, op, impl));
        json_close(j);
    }
    json_close(j);
    json_close(j);
}

static void print_json(const doctor *d, const char *verdict, char *const *names, int n)
{
    json j = json_begin(stdout, 3);
    json_object(&j, NULL);
    json_text(&j, "verdict", verdict);
    json_text(&j, "device", *d->wrong ? NULL : d->chosen);
    json_array(&j, "devices");
    for (int i = 0; i < d->n; i++)
        json_device(&j, d, &d->list[i]);
    json_close(&j);
    json_array(&j, "operators");
    for (int op = 0; op < tg_op_count(); op++)
        if (name_is_wanted(names, n, tg_op_at(op)->name))
            json_operator(&j, d, op);
    json_close(&j);
    json_close(&j);
    json_end(&j);
}

static void print_text(const doctor *d, const char *verdict, int operators, char *const *names,
                       int n)
{
    print_wrapped(verdict, 0, 0);
    for (int i = 0; !n && i < d->n; i++)
        print_device(d, &d->list[i]);
    if (operators || n)
        print_operators(d, names, n);
    else
        printf("\ntigon doctor --operators tells the same of each operator.\n");
}

int command_doctor(int argc, char **argv)
{
    int as_json = 0, operators = 0;
    const cli_option options[] = {
        {"--operators", CLI_FLAG, &operators, NULL,
         "tell as well which implementation each operator resolves to on each device"},
        {"--json", CLI_FLAG, &as_json, NULL, "print one JSON object, operators included"},
        {0},
    };
    const cli_usage usage = {
        "tigon doctor",
        "[OPERATOR...]",
        "Which device calls will use, what is missing, and what to type; then each device.",
        "OPERATOR, which may be the beginning of a name: of these alone which implementation a "
        "call on\n"
        "each device tries first. It may still turn a problem down; the next one of tigon list "
        "--resolve\n"
        "runs it then. The settings of the environment count. The exit status is 1 if they allow "
        "no call.",
        options,
        64};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    const int unknown = names_unknown(&usage, argv + 1, parsed);
    if (unknown)
        return unknown;
    static doctor d;
    char verdict[2 * DOCTOR_TEXT];
    const int bad = doctor_look(&d);
    doctor_verdict(&d, verdict, sizeof verdict);
    if (!bad && as_json)
        print_json(&d, verdict, argv + 1, parsed);
    else if (!bad)
        print_text(&d, verdict, operators, argv + 1, parsed);
    doctor_close(&d);
    return bad || *d.wrong;
}
