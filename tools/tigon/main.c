/* tools/tigon/main.c - the command `tigon`: one line a sub-command, each a folder or
 * a file of its own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/tigon.h>
#include <unistd.h>

#include "share/cli.h"

static const struct {
    const char *name;
    cli_command *run;
    const char *summary;
} commands[] = {
    {"info", command_info, "version, processor, devices, backends, settings"},
    {"list", command_list,
     "operators, their arguments and implementations; which implementation a call resolves to"},
    {"check", command_check,
     "compare every implementation with the reference, forward and backward"},
    {"numerics", command_numerics, "errors on hard inputs, beside the unfused composition's"},
    {"bench", command_bench, "measure speed and memory against the machine's own limits"},
    {"tune", command_tune, "measure how kernels should use this machine's memory"},
    {"plot", command_plot, "draw the results of tigon bench"},
    {"report", command_report, "an operator's port to an NPU: files, plan, parity, speed, risks"},
    {"ub-check", command_ub_check, "does a kernel fit into an NPU's Unified Buffer, and how"},
    {"profile", command_profile, "one call on the model of an NPU: where its time goes"},
    {"doctor", command_doctor, "which device calls will use, what is missing, and what to type"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int usage(FILE *out)
{
    fprintf(out, "usage: tigon COMMAND [options]\n\nFused operators for training language models: "
                 "what is there, is it right, is it fast.\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\nEach takes --json and --help. tigon --version prints the version.\n");
    return out == stdout ? 0 : 2;
}

/* Runs at every exit, of child processes too: a full disk may be noticed only when the
 * last bytes leave. */
static void close_output(void)
{
    errno = 0;
    if (!ferror(stdout) && !fflush(stdout) && (!fclose(stdout) || errno == EBADF))
        return;
    fprintf(stderr, "tigon: standard output cannot be written%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    _exit(1);
}

int main(int argc, char **argv)
{
    atexit(close_output);
    if (argc < 2)
        return usage(stderr);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return usage(stdout);
    if (!strcmp(argv[1], "--version"))
        return printf("tigon %s\n", tg_version()), 0;
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "tigon: no command \"%s\"\n\n", argv[1]);
    return usage(stderr);
}
