/* ascsim.c - the command of the model: ascsim chips|run|validate|flags|lint. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static const struct {
    const char *name, *what;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"chips", "[SOC]: what the model knows of the chips, from where, and how surely", tool_chips},
    {"run", "--soc SOC --kernel NAME --blocks N [--arg SPEC]... KERNEL.so: runs a kernel",
     tool_run},
    {"validate", "[EXAMPLE]... | --update FILE: published times beside modelled ones",
     tool_validate},
    {"flags", "compile | link: what gcc needs for a kernel of one's own", tool_flags},
    {"lint",
     "[gcc's options] KERNEL.c...: pointers that lack their qualifier, calls that CANN lacks",
     tool_lint},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

int tool_bad(const char *format, ...)
{
    va_list arguments;
    fputs("ascsim: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return TOOL_BAD;
}

const char *tool_value(int argc, char **argv, int *at)
{
    if (*at + 1 >= argc) {
        tool_bad("%s needs a value", argv[*at]);
        return NULL;
    }
    return argv[++*at];
}

static void print_facts(const char *soc)
{
    printf("Ascend%s, as the model has it (H official or measured, M measured by others, L one "
           "hint or fitted)\n",
           soc);
    for (const ascsim_fact *fact = ascsim_chip_facts(soc); fact->name; fact++) {
        printf("  %-28s %15.12g %-7s %c  %s\n", fact->name, fact->value, fact->unit,
               fact->confidence, fact->source);
    }
}

static void print_all(void)
{
    static const char *const shown[] = {"vector_cores", "clock_mhz", "ub_usable_bytes",
                                        "l2_bytes",     "hbm_bytes", "hbm_bytes_per_second"};
    printf("%-8s", "chip");
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        printf(" %20s", shown[i]);
    }
    for (int i = 0; ascsim_chip_name(i); i++) {
        printf("\n%-8s", ascsim_chip_name(i));
        for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) {
            printf(" %20.12g", ascsim_chip_fact(ascsim_chip_name(i), shown[k]));
        }
    }
    puts("\nascsim chips SOC prints all facts of one, with source and confidence");
}

int tool_chips(int argc, char **argv)
{
    if (argc > 1) {
        return tool_bad("chips takes one chip, found %d", argc);
    }
    if (argc == 0) {
        print_all();
        return TOOL_CLEAN;
    }
    if (!ascsim_chip_facts(argv[0])) {
        const char *why = ascsim_chip_refused(argv[0]);
        return tool_bad("chip %s %s; ascsim chips lists those that are known", argv[0],
                        why ? why : "is not known");
    }
    print_facts(argv[0]);
    return TOOL_CLEAN;
}

static void usage(FILE *out)
{
    fputs("ascsim: a model of an Ascend 910B. All times are modelled, none is "
          "measured.\n\n",
          out);
    for (int i = 0; i < COMMANDS; i++) {
        fprintf(out, "  ascsim %-9s %s\n", commands[i].name, commands[i].what);
    }
    fputs("\n`ascsim run --help` tells how arguments are written. Exit status: 0 clean, 1 faults "
          "were found, 2 a bad request.\n",
          out);
}

/* Runs at every exit: a full disk may be noticed only when the last bytes leave. */
static void close_output(void)
{
    errno = 0;
    if (!ferror(stdout) && !fflush(stdout) && (!fclose(stdout) || errno == EBADF)) {
        return;
    }
    fprintf(stderr, "ascsim: standard output cannot be written%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    _exit(TOOL_BAD);
}

int main(int argc, char **argv)
{
    atexit(close_output);
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? TOOL_BAD : TOOL_CLEAN;
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 2, argv + 2);
        }
    }
    tool_bad("no command `%s`", argv[1]);
    usage(stderr);
    return TOOL_BAD;
}
