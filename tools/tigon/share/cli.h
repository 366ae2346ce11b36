/* tools/tigon/share/cli.h - options and the table of sub-commands. */
#ifndef TIGON_SHARE_CLI_H
#define TIGON_SHARE_CLI_H

#include <stdint.h>

/* ---- options of a sub-command: a table, ended by an entry without a name ---- */

typedef enum cli_kind {
    CLI_FLAG, /* int: set to 1 */
    CLI_TEXT, /* const char *: the last one given */
    CLI_INT,  /* int64_t */
    CLI_REAL, /* double */
    CLI_LIST  /* cli_list: each one given */
} cli_kind;

enum { CLI_LIST_MAX = 32 };

typedef struct cli_list {
    int count;
    const char *items[CLI_LIST_MAX];
} cli_list;

typedef struct cli_option {
    const char *name; /* "--json" */
    cli_kind kind;
    void *into;
    const char *value; /* what --help calls the value: "FILE"; NULL for a flag */
    const char *help;
} cli_option;

typedef struct cli_usage {
    const char *command;  /* "tigon check" */
    const char *operands; /* "[OPERATOR...]", NULL for none */
    const char *summary;  /* one sentence */
    const char *notes;    /* further text of --help, or NULL */
    const cli_option *options;
    int max_operands;
} cli_usage;

enum { CLI_HELP = -1, CLI_WRONG = -2 };

/* Reads argv[1..]: options are stored, operands are moved to argv[1..count]. Returns their count,
 * CLI_HELP if --help was given and printed, CLI_WRONG after a message on stderr. Values follow as
 * "--seed 7" or "--seed=7"; "--" ends the options. Neither a value nor an operand may be empty. */
int cli_parse(const cli_usage *usage, int argc, char **argv);

/* Cuts the words of a list, with commas between them, in place. Returns their count, or CLI_WRONG
 * after a message: one is empty, or there are more than max. */
int cli_words(const cli_usage *usage, const char *option, char *text, char **word, int max);

/* The option of commands that call operators, and what it does; NULL: nothing. */
#define CLI_DEVICE(into)                                                                        \
    {                                                                                           \
        "--device", CLI_TEXT, into, "NAME",                                                     \
            "the device of the calls: cpu, cuda, npu, npu-model, or a plug-in's (TIGON_DEVICE)" \
    }
void cli_use_device(const char *name);

/* The exit status of a sub-command whose cli_parse returned a negative number. */
int cli_exit(int parsed);

/* "tigon check: <message>" on stderr; returns 2, the exit status of wrong usage. */
int cli_error(const cli_usage *usage, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- sub-commands: main.c holds the table ---- */

/* Each gets its own arguments (argv[0] is its name) and returns the exit status: 0, 1 if what it
 * did failed, 2 for wrong usage. */
typedef int cli_command(int argc, char **argv);

cli_command command_info, command_list, command_check, command_numerics, command_bench,
    command_plot, command_ub_check, command_profile, command_report, command_doctor, command_tune;

#endif
