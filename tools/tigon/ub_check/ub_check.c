/* tools/tigon/ub_check/ub_check.c - `tigon ub-check`: does a kernel fit into the Unified
 * Buffer of an NPU? */
#include <stdio.h>
#include <string.h>
#include <tigon/tigon.h>

#include "share/names.h"
#include "share/types.h"
#include "ub_check.h"

enum { MOST_KERNELS = 256 };

typedef struct ub_options {
    int json, power_of_two;
    const char *soc, *shape, *tile, *dtype, *liger;
    int64_t capacity_bits, cores, copies;
    cli_list buffers, with;
} ub_options;

/* The chip that --soc names, or the UB that the sources of tg_ub_capacity_bits() answer with. */
static int find_chip(const cli_usage *usage, const ub_options *o, ub_chip *chip)
{
    const tg_npu_chip *named = tg_npu_chip_find(o->soc ? o->soc : "910B4");
    int64_t given = o->capacity_bits;
    *chip = (ub_chip){.name = o->soc ? "?" : "an NPU"};
    if (o->soc && named && !given)
        given = 8 * named->ub_bytes;
    if (tg_ub_capacity_bits(given, o->soc, &chip->capacity_bits, &chip->source))
        return cli_error(usage, "%s", tg_last_error());
    if (!named)
        return cli_error(usage,
                         "--soc: found \"%s\", expected one of the chips that tigon ub-check "
                         "lists",
                         o->soc);
    if (o->soc) {
        chip->name = named->name;
        chip->source = o->capacity_bits ? "given" : "the table of chips";
    }
    chip->cores = o->cores ? (int)o->cores : named->vector_cores;
    return 0;
}

static int set_options(const cli_usage *usage, const tg_ub_kernel *kernel, const cli_list *with,
                       uint32_t *bits)
{
    *bits = 0;
    for (int i = 0; i < with->count; i++) {
        int found = -1;
        for (int n = 0; kernel->option && kernel->option[n]; n++)
            if (!strcmp(kernel->option[n], with->items[i]))
                found = n;
        if (found < 0)
            return cli_error(usage,
                             "--with: found \"%s\", expected an option of %s that tigon "
                             "ub-check lists",
                             with->items[i], kernel->name);
        *bits |= TG_UB_OPTION(found);
    }
    return 0;
}

/* What is wrong with the options together; 0 if nothing is. */
static int wrong_options(const cli_usage *usage, const ub_options *o, int operands)
{
    const int kinds = operands + (o->liger != NULL) + (o->buffers.count > 0);
    if (kinds > 1)
        return cli_error(usage, "an operator, --buffer, --liger: expected one of them");
    if (o->capacity_bits < 0 || o->cores < 0 || o->cores > 65535)
        return cli_error(usage, "--capacity-bits, --cores: expected numbers above 0");
    if (o->copies && (!o->liger || o->copies < 0 || o->copies > 8))
        return cli_error(usage, "--copies: expected 1 ... 8, with --liger");
    if (o->liger && (o->tile || o->power_of_two || o->with.count))
        return cli_error(usage, "--tile, --power-of-two, --with: not with --liger");
    if (!kinds && (o->shape || o->tile))
        return cli_error(usage, "--shape, --tile: expected an operator, --buffer or --liger");
    if (kinds && !o->shape && !(o->tile && !o->liger))
        return cli_error(usage, "expected --shape ROWSxCOLUMNS");
    return 0;
}

/* 1 for the kernel that stands for its operator, or whatever precedes the point of its name. */
static int is_first_variant(const tg_ub_kernel *k)
{
    char operator_name[128];
    snprintf(operator_name, sizeof operator_name, "%.*s", (int)strcspn(k->name, "."), k->name);
    return tg_ub_kernel_find(operator_name) == k;
}

/* A whole name is that of one kernel. The beginning of names stands for a kernel of each operator,
 * or, with a point in it, for all variants that begin so. Returns how many there are. */
static int find_kernels(const char *name, const tg_ub_kernel *list[MOST_KERNELS])
{
    int n = 0;
    list[0] = tg_ub_kernel_find(name);
    if (list[0])
        return 1;
    for (int i = 0; i < tg_ub_kernel_count() && n < MOST_KERNELS; i++) {
        const tg_ub_kernel *k = tg_ub_kernel_at(i);
        if (name_begins(k->name, name) && (strchr(name, '.') || is_first_variant(k)))
            list[n++] = k;
    }
    return n;
}

static int answer_kernel(const cli_usage *usage, const ub_options *o, ub_question *q, json *j)
{
    const int wrong = set_options(usage, q->kernel, &o->with, &q->problem.options);
    return wrong ? wrong : ub_report(usage, q, j);
}

/* The answers for kernels whose names begin alike; as JSON, an array of them. */
static int answer_all(const cli_usage *usage, const ub_options *o, ub_question *q,
                      const tg_ub_kernel *const *list, int n)
{
    json j = json_begin(stdout, 5), *const to = o->json ? &j : NULL;
    int status = 0;
    if (to) {
        json_object(to, NULL);
        json_array(to, "kernels");
    }
    for (int i = 0; i < n && status < 2; i++) {
        if (i && !to)
            printf("\n");
        q->kernel = list[i];
        const int one = answer_kernel(usage, o, q, to);
        status = one > status ? one : status;
    }
    if (to) {
        json_close(to);
        json_close(to);
        json_end(to);
    }
    return status;
}

static int answer_one(const cli_usage *usage, const ub_options *o, ub_question *q,
                      const tg_ub_kernel *kernel)
{
    json j = json_begin(stdout, 3);
    q->kernel = kernel;
    const int status = answer_kernel(usage, o, q, o->json ? &j : NULL);
    if (o->json && status < 2)
        json_end(&j);
    return status;
}

static int answer_operator(const cli_usage *usage, const ub_options *o, ub_question *q,
                           const char *name)
{
    const tg_ub_kernel *list[MOST_KERNELS];
    const int n = find_kernels(name, list);
    if (!n)
        return cli_error(usage,
                         "no kernel of \"%s\" declares its buffers; tigon ub-check lists those "
                         "that do",
                         name);
    return list[0] == tg_ub_kernel_find(name) ? answer_one(usage, o, q, list[0])
                                              : answer_all(usage, o, q, list, n);
}

static int answer(const cli_usage *usage, const ub_options *o, const char *op)
{
    static ub_declared declared = {.kernel = {.name = "--buffer"}};
    ub_question q = {.dtype = o->dtype};
    ub_size size = {0, 0};
    const int type = cli_type(usage, "--dtype", o->dtype);
    if (!type)
        return 2;
    const int dtype_bytes = (int)tg_type_size(type);
    if (o->shape && !ub_parse_size(o->shape, &size))
        return cli_error(usage, "--shape: found \"%s\", expected ROWSxCOLUMNS", o->shape);
    if (o->tile && !ub_parse_size(o->tile, &q.tile))
        return cli_error(usage, "--tile: found \"%s\", expected ROWSxCOLUMNS", o->tile);
    if (find_chip(usage, o, &q.chip))
        return 2;
    const ub_liger liger = {size, dtype_bytes, o->copies, &q.chip};
    if (o->liger)
        return ub_report_liger(usage, o->liger, &liger, o->json);
    for (int i = 0; i < o->buffers.count; i++)
        if (!ub_parse_buffer(o->buffers.items[i], &declared))
            return cli_error(usage,
                             "--buffer: found \"%s\", expected NAME:BYTES, such as x:4x2 or "
                             "rstd:4/row@1-2",
                             o->buffers.items[i]);
    /* Compilers count the whole UB; what CANN keeps for itself our own kernels leave alone. */
    q.ours = op != NULL;
    q.problem = (tg_ub_problem){.rows = o->shape ? size.rows : q.tile.rows,
                                .columns = o->shape ? size.columns : q.tile.columns,
                                .dtype_bytes = dtype_bytes,
                                .power_of_two = o->power_of_two};
    return op ? answer_operator(usage, o, &q, op) : answer_one(usage, o, &q, &declared.kernel);
}

int command_ub_check(int argc, char **argv)
{
    ub_options o = {.dtype = "f32"};
    const cli_option options[] = {
        {"--shape", CLI_TEXT, &o.shape, "RxC", "rows and columns of the problem"},
        {"--soc", CLI_TEXT, &o.soc, "NAME", "the chip; without it, the sources below"},
        {"--dtype", CLI_TEXT, &o.dtype, "TYPE", "of the data: f32 (default), bf16, f16"},
        {"--capacity-bits", CLI_INT, &o.capacity_bits, "N", "another capacity than the chip's"},
        {"--cores", CLI_INT, &o.cores, "N", "another number of vector cores"},
        {"--with", CLI_LIST, &o.with, "NAME", "an option of the kernel; may be given again"},
        {"--power-of-two", CLI_FLAG, &o.power_of_two, NULL, "tiles of powers of two"},
        {"--buffer", CLI_LIST, &o.buffers, "BUFFER",
         "a buffer of a kernel of your own; again for each"},
        {"--tile", CLI_TEXT, &o.tile, "RxC", "lay out this tile instead of choosing one"},
        {"--liger", CLI_TEXT, &o.liger, "KERNEL",
         "one of Liger's Triton kernels, or the beginning of their names"},
        {"--copies", CLI_INT, &o.copies, "N", "with --liger: of each buffer; without it, 1 and 2"},
        {"--json", CLI_FLAG, &o.json, NULL, "print the answer as one JSON object"},
        {0},
    };
    const cli_usage usage = {
        "tigon ub-check",
        "[OPERATOR]",
        "Does a kernel fit into the Unified Buffer of an Ascend NPU, with which tile, and what "
        "fills "
        "it?",
        "Without OPERATOR, --buffer and --liger: the kernels and chips that are known. OPERATOR "
        "may\n"
        "be the beginning of a name: rope stands for rope_forward and rope_backward (with --json: "
        "an\n"
        "array, \"kernels\"); or name a variant: rms_norm_forward.rows. The capacity is, in this "
        "order:\n"
        "--capacity-bits, that of --soc, ASCEND_UB_CAPACITY_BITS, what CANN says of the card, the "
        "table's for "
        "TIGON_SOC.\n"
        "\n"
        "BUFFER is NAME:BYTES[xCOPIES][/element|/row|/column|/fixed][@FROM[-TO]]: bytes for each\n"
        "element of a tile, and the steps of the kernel's body at which it is alive. Compilers "
        "report\n"
        "an overflow against the whole UB, and so does --buffer. A Triton kernel that loads 48000 "
        "f32\n"
        "at once, double-buffered:\n"
        "\n"
        "    tigon ub-check --buffer x:4x2 --tile 1x48000 --soc 910B4\n"
        "\n"
        "The exit status is 1 if it does not fit.",
        options,
        1};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    if (wrong_options(&usage, &o, parsed))
        return 2;
    if (!parsed && !o.buffers.count && !o.liger)
        return ub_list(o.json);
    return answer(&usage, &o, parsed ? argv[1] : NULL);
}
