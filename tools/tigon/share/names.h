/* tools/tigon/share/names.h - operators that a command line names: each name is the beginning of
 * those that it stands for. */
#ifndef TIGON_SHARE_NAMES_H
#define TIGON_SHARE_NAMES_H

#include "cli.h"

int name_begins(const char *name, const char *with);
/* 1 if one of the n names stands for it; without names every one is wanted. */
int name_is_wanted(char *const *names, int n, const char *name);
/* 0, or the exit status after a message: one of the names stands for no operator. */
int names_unknown(const cli_usage *usage, char *const *names, int n);

#endif
