/* validate_cube.c - ascsim validate: published times of products beside those of the model. */
#include <stdlib.h>
#include <string.h>

#include "matmul.h"
#include "tool.h"

void matmul(void);
void matmul_gelu(void);

typedef struct example {
    const char *name, *chip, *use;
    double time, mac, mte1, mte2;
    uint32_t part;
    ascsim_kernel kernel;
    uint32_t m, n, k, cores;
    matmul_how how;
} example;

static const example examples[] = {
#define PUBLISHED(name, chip, use, time, mac, mte1, mte2, part, kernel, m, n, k, cores, ...) \
    {name, #chip, use, time, mac, mte1, mte2, part, kernel, m, n, k, cores, {m, n, k, __VA_ARGS__}},
#include "validate_cube.inc"
#undef PUBLISHED
};
enum { EXAMPLES = sizeof examples / sizeof *examples, MATRICES = 4 };

/* Nothing multiplies faster than the cube does. */
static int check_peak(const example *example, const ascsim_time *time)
{
    const double a_cycle = ascsim_chip_fact(example->chip, "cube_operations_per_cycle");
    const double least = time->cube_operations / a_cycle / example->cores /
                         ascsim_chip_fact(example->chip, "clock_mhz");
    return time->task_us >= least
               ? 0
               : tool_bad("%s: %.1f us modelled, where the cube's peak takes %.1f", example->name,
                          time->task_us, least);
}

static int launch(ascsim *device, const example *example, ascsim_time *time)
{
    static const char *const names[MATRICES] = {"a", "b", "c", "out"};
    matmul_how how = example->how;
    how.m /= example->part;
    how.share_m = how.share_m < how.m ? how.share_m : how.m;
    const size_t bytes[MATRICES] = {2ull * how.m * how.k, 2ull * how.n * how.k,
                                    4ull * how.m * how.n, 2ull * how.m * how.n};
    ascsim_arg args[MATRICES + 2] = {[MATRICES + 1] = ASCSIM_U64(0)};
    matmul_how *given = ascsim_alloc(device, sizeof how, "how");
    void *memory[MATRICES];
    if (!given) {
        return tool_bad("%s", ascsim_error());
    }
    *given = how;
    args[0] = ASCSIM_POINTER(given);
    for (int i = 0; i < MATRICES; i++) { /* nothing is read or written: addresses are enough */
        memory[i] = aligned_alloc(512, bytes[i]);
        if (!memory[i] || ascsim_map(device, memory[i], bytes[i], names[i]) != 0) {
            return tool_bad("%s: no memory for %zu bytes", example->name, bytes[i]);
        }
        args[1 + i] = ASCSIM_POINTER(memory[i]);
    }
    const int count = example->kernel == matmul ? MATRICES : MATRICES + 2;
    int status = ascsim_launch(device, example->name, example->kernel, example->cores, args, count);
    status = status == 0 ? ascsim_last_time(device, time) : status;
    for (int i = 0; i < MATRICES; i++) {
        free(memory[i]);
    }
    return status == 0 ? check_peak(example, time)
                       : tool_bad("%s: %s", example->name, ascsim_error());
}

static int run_example(const example *example, FILE *out)
{
    ascsim *device = ascsim_open(&(ascsim_options){.soc = example->chip, .times_only = 1});
    ascsim_time time;
    const int status = device ? launch(device, example, &time) : tool_bad("%s", ascsim_error());
    ascsim_close(device);
    if (status == 0) {
        const double *busy = time.cube_busy_us;
        fprintf(out, "| %s | %s | %s ", example->name, example->chip, example->use);
        tool_print_pair(out, example->time, time.task_us * example->part, 1);
        tool_print_pair(out, example->mac, busy[ASCSIM_M] * example->part, 0);
        tool_print_pair(out, example->mte1, busy[ASCSIM_MTE1] * example->part, 0);
        tool_print_pair(out, example->mte2, busy[ASCSIM_MTE2] * example->part, 0);
        fputs("|\n", out);
        fflush(out);
    }
    return status;
}

int tool_print_cube_table(FILE *out, int count, char **names, int behind)
{
    int found = 0;
    for (int i = 0; i < EXAMPLES; i++) {
        if (!tool_wanted(examples[i].name, count, names)) {
            continue;
        }
        if (!found++) {
            fprintf(out,
                    "%s| example | chip | used for | us | model | error | mac us | model | error | "
                    "mte1 "
                    "us | model | error | mte2 us | model | error |\n"
                    "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
                    behind ? "\n" : "");
        }
        if (run_example(&examples[i], out) != 0) {
            return -1;
        }
    }
    return found;
}
