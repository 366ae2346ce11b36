/* run.c - ascsim run: any kernel compiled against c_api/asc_simd.h, checked and timed. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum { ARGUMENTS = 64 };

static const char help[] =
    "ascsim run --soc SOC --kernel NAME --blocks N [--arg SPEC]... [options] KERNEL.so\n"
    "Runs a kernel on the model, reports its faults and, on the model's clock, its time.\n"
    "\n"
    "  --soc SOC        910B1, 910B2, 910B3, 910B4, 910C (default 910B4)\n"
    "  --kernel NAME    the function, as C knows it\n"
    "  --blocks N       blocks (default: the chip's cores of the kernel's kind)\n"
    "  --arg SPEC       the next argument of the kernel:\n"
    "                     TYPE:VALUE          a scalar: i32, u32, i64, u64, f32\n"
    "                     TYPE[COUNT]=FILL    a buffer of i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 "
    "f32\n"
    "                   FILL: none (never written: the default), zeros, ramp, random, @FILE, or a "
    "number; then, if wanted,\n"
    "                   ,print or ,print=N (elements shown after the run) and ,save=FILE\n"
    "  --seed N         a permuted legal schedule, and other random fills (default 0: as soon as "
    "possible)\n"
    "  --threads N      of the host (default: its processors)\n"
    "  --ub-bytes N     usable bytes of UB (default: the chip's)\n"
    "  --profile DIR    msprof's tables as CSV, lines.csv, pipeline.svg\n"
    "  --trace          with --profile: trace.json as well, some 200 bytes an instruction\n"
    "  --check-only     no times: faster\n"
    "\n"
    "  ascsim run --soc 910B4 --kernel scale --arg 'f32[100000]=ramp' --arg "
    "'f32[100000]=none,print' --arg u32:100000 \\\n"
    "      libascsim_examples.so\n";

typedef struct request {
    ascsim_options options;
    const char *kernel, *library, *profile, *spec[ARGUMENTS];
    int64_t blocks;
    int count, help, trace;
} request;

static int number(const char *option, const char *text, int64_t least, int64_t *value)
{
    char *end;
    *value = text ? strtoll(text, &end, 0) : 0;
    if (!text) {
        return TOOL_BAD;
    }
    return *end || end == text || *value < least
               ? tool_bad("%s %s: expected a number of at least %lld", option, text,
                          (long long)least)
               : 0;
}

static int parse_option(request *to, int argc, char **argv, int *at)
{
    const char *name = argv[*at];
    int64_t value = 0;
    if (strcmp(name, "--check-only") == 0) {
        to->options.timing = ASCSIM_TIME_NONE;
        return 0;
    }
    if (strcmp(name, "--trace") == 0) {
        to->trace = 1;
        return 0;
    }
    const char *text = tool_value(argc, argv, at);
    int status = text ? 0 : TOOL_BAD;
    if (strcmp(name, "--soc") == 0) {
        to->options.soc = text;
    } else if (strcmp(name, "--kernel") == 0) {
        to->kernel = text;
    } else if (strcmp(name, "--profile") == 0) {
        to->profile = text;
    } else if (strcmp(name, "--blocks") == 0) {
        status = number(name, text, 1, &to->blocks);
    } else if (strcmp(name, "--seed") == 0) {
        status = number(name, text, 0, &value);
        to->options.seed = (uint64_t)value;
    } else if (strcmp(name, "--threads") == 0) {
        status = number(name, text, 1, &value);
        to->options.threads = (int)value;
    } else if (strcmp(name, "--ub-bytes") == 0) {
        status = number(name, text, 1, &to->options.ub_bytes);
    } else if (strcmp(name, "--arg") == 0 && to->count < ARGUMENTS) {
        to->spec[to->count++] = text;
    } else {
        return tool_bad("run: option %s is not known (or there are more than %d arguments)", name,
                        ARGUMENTS);
    }
    return status;
}

static int parse(request *to, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            to->help = 1;
            return 0;
        }
        if (argv[i][0] == '-') {
            if (parse_option(to, argc, argv, &i) != 0) {
                return TOOL_BAD;
            }
        } else if (to->library) {
            return tool_bad("run takes one library, found %s and %s", to->library, argv[i]);
        } else {
            to->library = argv[i];
        }
    }
    if (!to->kernel || !to->library) {
        return tool_bad("run needs --kernel NAME and a library; ascsim run --help");
    }
    if (to->profile && to->options.timing == ASCSIM_TIME_NONE) {
        return tool_bad("--profile needs times, --check-only leaves them out");
    }
    if (to->trace && !to->profile) {
        return tool_bad("--trace needs --profile DIR, where it is written");
    }
    to->options.trace = to->profile != NULL;
    return 0;
}

static int write_files(ascsim *device, const request *request)
{
    const int failed = ascsim_write_profile(device, request->profile) != 0;
    const int64_t left_out =
        request->trace && !failed ? ascsim_write_trace(device, request->profile) : 0;
    if (failed || left_out < 0) {
        return tool_bad("%s", ascsim_error());
    }
    if (left_out) {
        printf("  trace.json holds the first instructions; %lld are left out\n",
               (long long)left_out);
    }
    return 0;
}

/* What happened; the exit status. */
static int report(ascsim *device, const request *request, const tool_buffer *buffers, int launched)
{
    const ascsim_fault *faults;
    const int count = ascsim_faults(device, &faults);
    ascsim_report_faults(device, stdout);
    for (int i = 0; i < request->count; i++) {
        if (tool_buffer_finish(&buffers[i], i) != 0) {
            return TOOL_BAD;
        }
    }
    if (launched != 0) {
        tool_bad("%s", ascsim_error());
        return count ? TOOL_FAULTS : TOOL_BAD;
    }
    if (request->options.timing == ASCSIM_TIME_ON) {
        ascsim_print_profile(device, stdout);
    }
    if (request->profile && write_files(device, request) != 0) {
        return TOOL_BAD;
    }
    return count ? TOOL_FAULTS : TOOL_CLEAN;
}

/* What --arg says of the parameter, in the words of --help. */
static void describe(const tool_parameter *p, char *text, size_t size)
{
    static const char *const kinds[] = {"a buffer", "an integer", "a float", "a type of its own"};
    if (p->bytes > 0) {
        snprintf(text, size, "%s%s of %d bytes", kinds[p->kind],
                 p->kind == TOOL_POINTER ? " with elements" : "", p->bytes);
    } else {
        snprintf(text, size, "%s", kinds[p->kind]);
    }
}

/* A kernel that gets other arguments than it takes runs on whatever the registers hold. */
static int check_arguments(const request *request)
{
    tool_parameter parameters[ARGUMENTS];
    char names[1024] = "", expected[64];
    const int count = tool_signature(request->library, request->kernel, parameters, ARGUMENTS);
    if (count < 0) {
        fprintf(stderr,
                "ascsim: %s does not tell what %s takes (it was compiled without -g, or readelf is "
                "missing): the arguments are not checked\n",
                request->library, request->kernel);
        return 0;
    }
    for (int i = 0, n = 0; i < count && n < (int)sizeof names - 70; i++) {
        n += sprintf(names + n, "%s%s", i ? ", " : "", parameters[i].name);
    }
    if (count != request->count) {
        return tool_bad("%s takes %d arguments (%s): found %d --arg, expected %d", request->kernel,
                        count, names, request->count, count);
    }
    for (int i = 0; i < count; i++) {
        describe(&parameters[i], expected, sizeof expected);
        if (!tool_buffer_suits(request->spec[i], &parameters[i])) {
            return tool_bad("%s: argument %d, %s: found --arg %s, expected %s", request->kernel,
                            i + 1, parameters[i].name, request->spec[i], expected);
        }
    }
    return 0;
}

static int run_on(ascsim *device, const request *request, ascsim_kernel kernel)
{
    tool_buffer buffers[ARGUMENTS];
    ascsim_arg args[ARGUMENTS];
    for (int i = 0; i < request->count; i++) {
        if (tool_buffer_parse(&buffers[i], device, request->spec[i],
                              request->options.seed + (uint64_t)i + 1) != 0) {
            return TOOL_BAD;
        }
        args[i] = buffers[i].arg;
    }
    if (check_arguments(request) != 0) {
        return TOOL_BAD;
    }
    return report(
        device, request, buffers,
        ascsim_launch(device, request->kernel, kernel, request->blocks, args, request->count));
}

int tool_run(int argc, char **argv)
{
    request request = {.options.soc = "910B4"};
    if (parse(&request, argc, argv) != 0) {
        return TOOL_BAD;
    }
    if (request.help) {
        fputs(help, stdout);
        return TOOL_CLEAN;
    }
    char path[4096];
    snprintf(path, sizeof path, "%s%s", strchr(request.library, '/') ? "" : "./", request.library);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return tool_bad("%s", dlerror());
    }
    void *kernel = dlsym(library, request.kernel);
    if (!kernel) {
        return tool_bad("%s has no function %s", request.library, request.kernel);
    }
    ascsim *device = ascsim_open(&request.options);
    if (!device) {
        return tool_bad("%s", ascsim_error());
    }
    ascsim_kernel call;
    int cubes, vectors;
    memcpy(&call, &kernel, sizeof call);
    ascsim_kernel_cores(call, &cubes, &vectors);
    if (!request.blocks) {
        request.blocks =
            (int64_t)ascsim_chip_fact(request.options.soc, cubes ? "cube_cores" : "vector_cores");
    }
    const int status = run_on(device, &request, call);
    ascsim_close(device);
    return status;
}
