/* tools/tigon/share/types.h - the types of data, and those that a command line names. */
#ifndef TIGON_SHARE_TYPES_H
#define TIGON_SHARE_TYPES_H

#include <tigon/tigon.h>

#include "cli.h"

enum { DATA_TYPES = 3, TYPES_LISTED = 8 /* at most, by an option */ };

static const int data_types[DATA_TYPES] = {TG_F32, TG_BF16, TG_F16};

/* The type of data of that name; 0 after a message: there is none. */
int cli_type(const cli_usage *usage, const char *option, const char *name);
/* Those of a list with commas between the names. Returns their count, or
 * CLI_WRONG after a message. */
int cli_types(const cli_usage *usage, const char *option, const char *list,
              int types[TYPES_LISTED]);

#endif
