/* validate.c - ascsim validate: the published times of official examples beside those of the
 * model. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "examples.h"
#include "tool.h"

/* The kernels of examples/: the last argument of an example's kernel call. */
void bank_add(void);
void copy_once(void);
void add_tiles(void);
void copy_shared(void);
void copy_whole(void);
void nd2nz(void);

enum { PARAMETERS = 6 };

typedef struct outcome {
    double time, busy[ASCSIM_PIPES];
} outcome;

typedef struct example {
    const char *name, *chip, *use;
    double time, vector;
    int (*run)(ascsim *device, const uint32_t *with, outcome *outcome);
    uint32_t with[PARAMETERS];
} example;

static int launch(ascsim *device, const char *name, ascsim_kernel kernel, int64_t blocks,
                  const ascsim_arg *args, int count, outcome *outcome)
{
    ascsim_time time;
    const ascsim_fault *faults;
    if (ascsim_launch(device, name, kernel, blocks, args, count) != 0 ||
        ascsim_last_time(device, &time) != 0) {
        return tool_bad("%s: %s", name, ascsim_error());
    }
    if (ascsim_faults(device, &faults) != 0) {
        ascsim_report_faults(device, stderr);
        return TOOL_FAULTS;
    }
    outcome->time = time.task_us;
    memcpy(outcome->busy, time.busy_us, sizeof outcome->busy);
    return 0;
}

/* An input of zeros, or an output that nobody has written. */
static void *matrix(ascsim *device, const char *name, uint64_t elements, int input)
{
    void *memory = ascsim_alloc(device, elements * 2, name);
    if (memory && input) {
        memset(memory, 0, elements * 2);
        ascsim_written(device, memory, elements * 2);
    }
    if (!memory) {
        tool_bad("%s", ascsim_error());
    }
    return memory;
}

/* What 100 adds take beyond none. */
static int run_bank(ascsim *device, const uint32_t *with, outcome *outcome)
{
    enum { TIMES = 100 };
    ascsim_arg args[] = {ASCSIM_U32(with[0]), ASCSIM_U32(with[1]), ASCSIM_U32(with[2]),
                         ASCSIM_U32(with[3]), ASCSIM_U32(with[4]), ASCSIM_U32(with[5]),
                         ASCSIM_U32(0)};
    if (launch(device, "bank_add", bank_add, 1, args, 7, outcome) != 0) {
        return TOOL_FAULTS;
    }
    double *vector = &outcome->busy[ASCSIM_V];
    const double before = *vector;
    args[6] = ASCSIM_U32(TIMES);
    const int status = launch(device, "bank_add", bank_add, 1, args, 7, outcome);
    *vector = (*vector - before) / TIMES;
    return status;
}

/* A copy's own time. */
static int run_once(ascsim *device, const uint32_t *with, outcome *outcome)
{
    void *memory = matrix(device, "memory", with[0] / 2, !with[1]);
    const ascsim_arg args[] = {ASCSIM_POINTER(memory), ASCSIM_U32(with[0]), ASCSIM_U32(with[1])};
    const int status =
        memory ? launch(device, "copy_once", copy_once, 1, args, 3, outcome) : TOOL_BAD;
    outcome->time = outcome->busy[with[1] ? ASCSIM_MTE3 : ASCSIM_MTE2];
    return status;
}

/* Copies in from it read past L2. */
static int stream(ascsim *device, const void *memory)
{
    return ascsim_stream(device, memory) == 0 ? 0 : tool_bad("%s", ascsim_error());
}

static int run_add(ascsim *device, const uint32_t *with, outcome *outcome)
{
    enum { SIDE = 8192 };
    void *x = matrix(device, "x", SIDE * SIDE, 1), *y = matrix(device, "y", SIDE * SIDE, 1);
    void *z = matrix(device, "z", SIDE * SIDE, 0);
    const ascsim_arg args[] = {ASCSIM_POINTER(x),  ASCSIM_POINTER(y), ASCSIM_POINTER(z),
                               ASCSIM_U32(SIDE),   ASCSIM_U32(SIDE),  ASCSIM_U32(with[1]),
                               ASCSIM_U32(with[2])};
    if (x && y && with[3] && (stream(device, x) != 0 || stream(device, y) != 0)) {
        return TOOL_BAD;
    }
    return x && y && z ? launch(device, "add_tiles", add_tiles, with[0], args, 7, outcome)
                       : TOOL_BAD;
}

static int run_shared(ascsim *device, const uint32_t *with, outcome *outcome)
{
    void *x = matrix(device, "x", (uint64_t)with[0] * with[1], 1);
    const ascsim_arg args[] = {ASCSIM_POINTER(x),   ASCSIM_U32(with[0]), ASCSIM_U32(with[1]),
                               ASCSIM_U32(with[2]), ASCSIM_U32(with[3]), ASCSIM_U32(with[4]),
                               ASCSIM_U32(with[5])};
    return x ? launch(device, "copy_shared", copy_shared, 48, args, 7, outcome) : TOOL_BAD;
}

static int run_whole(ascsim *device, const uint32_t *with, outcome *outcome)
{
    void *x = matrix(device, "x", (uint64_t)with[0] * with[1], 1);
    const ascsim_arg args[] = {ASCSIM_POINTER(x),   ASCSIM_U32(with[0]), ASCSIM_U32(with[1]),
                               ASCSIM_U32(with[2]), ASCSIM_U32(with[3]), ASCSIM_U32(with[4])};
    return x && stream(device, x) == 0
               ? launch(device, "copy_whole", copy_whole, 48, args, 6, outcome)
               : TOOL_BAD;
}

static int run_nd2nz(ascsim *device, const uint32_t *with, outcome *outcome)
{
    enum { SIDE = 8192 };
    void *x = matrix(device, "x", SIDE * SIDE, 1), *z = matrix(device, "z", SIDE * SIDE, 0);
    const ascsim_arg args[] = {ASCSIM_POINTER(x), ASCSIM_POINTER(z), ASCSIM_U32(SIDE),
                               ASCSIM_U32(SIDE), ASCSIM_U32(with[0])};
    return x && z ? launch(device, "nd2nz", nd2nz, 48, args, 5, outcome) : TOOL_BAD;
}

static const example examples[] = {
#define PUBLISHED(name, chip, use, task, vector, run, ...) \
    {name, #chip, use, task, vector, run, {__VA_ARGS__}},
#include "validate_examples.inc"
#undef PUBLISHED
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

void tool_print_pair(FILE *out, double published, double modelled, int digits)
{
    if (published > 0) {
        fprintf(out, "| %.*f | %.*f | %+.1f %% ", digits, published, digits, modelled,
                100 * (modelled / published - 1));
    } else {
        fputs("| | | ", out);
    }
}

static int run_example(const example *example, FILE *out)
{
    /* The published layouts use UB to its end, the 256 bytes too that the C API reserves. */
    const int64_t ub = (int64_t)ascsim_chip_fact(example->chip, "ub_bytes");
    ascsim *device = ascsim_open(&(ascsim_options){.soc = example->chip, .ub_bytes = ub});
    outcome outcome = {0};
    if (!device) {
        return tool_bad("%s", ascsim_error());
    }
    const int status = example->run(device, example->with, &outcome);
    ascsim_close(device);
    if (status == 0) {
        fprintf(out, "| %s | %s | %s ", example->name, example->chip, example->use);
        tool_print_pair(out, example->time, outcome.time, example->time < 1 ? 4 : 1);
        tool_print_pair(out, example->vector, outcome.busy[ASCSIM_V], example->vector < 1 ? 4 : 2);
        fputs("|\n", out);
        fflush(out);
    }
    return status;
}

int tool_wanted(const char *example, int count, char **names)
{
    for (int i = 0; i < count; i++) {
        if (strncmp(example, names[i], strlen(names[i])) == 0) {
            return 1;
        }
    }
    return count == 0;
}

static int print_table(FILE *out, int count, char **names)
{
    int status = 0, found = 0;
    for (int i = 0; i < EXAMPLES && status == 0; i++) {
        if (tool_wanted(examples[i].name, count, names)) {
            if (!found) {
                fputs("| example | chip | used for | us | model | error | vector us | model | "
                      "error |\n"
                      "|---|---|---|---:|---:|---:|---:|---:|---:|\n",
                      out);
            }
            status = run_example(&examples[i], out);
            found++;
        }
    }
    const int others = status == 0 ? tool_print_cube_table(out, count, names, found) : 0;
    if (status != 0 || others < 0) {
        return status ? status : TOOL_BAD;
    }
    return found + others ? 0 : tool_bad("validate: no example begins with `%s`", names[0]);
}

static const char begin_mark[] = "<!-- ascsim validate -->\n",
                  end_mark[] = "<!-- end: ascsim validate -->\n";

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    if (text) {
        text[fread(text, 1, (size_t)size, file)] = 0;
    }
    fclose(file);
    return text;
}

/* Writes the table between the marks of a document. */
static int update(const char *path)
{
    char *text = read_all(path), *table = NULL;
    size_t size;
    char *begin = text ? strstr(text, begin_mark) : NULL;
    const char *end = begin ? strstr(begin, end_mark) : NULL;
    if (!end) {
        free(text);
        return tool_bad("%s: cannot be read, or lacks the lines %s", path,
                        "<!-- ascsim validate --> and its end");
    }
    FILE *memory = open_memstream(&table, &size);
    int status = memory ? print_table(memory, 0, NULL) : TOOL_BAD;
    status = memory && fclose(memory) != 0 ? TOOL_BAD : status;
    FILE *file = status == 0 ? fopen(path, "wb") : NULL;
    if (file) {
        *begin = 0;
        fprintf(file, "%s%s%s%s", text, begin_mark, table, end);
        status = fclose(file) == 0 ? 0 : tool_bad("%s: %s", path, strerror(errno));
    }
    free(text);
    free(table);
    return status;
}

int tool_validate(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[0], "--update") == 0) {
        return update(argv[1]);
    }
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] == '-') {
            return tool_bad(
                "validate takes the beginnings of examples' names, or --update FILE; found %s",
                argv[i]);
        }
    }
    return print_table(stdout, argc, argv);
}
