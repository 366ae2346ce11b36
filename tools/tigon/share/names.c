/* tools/tigon/share/names.c - operators by the beginnings of their names: see names.h. */
#include "names.h"

#include <string.h>
#include <tigon/tigon.h>

int name_begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

int name_is_wanted(char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (name_begins(name, names[i]))
            return 1;
    return !n;
}

int names_unknown(const cli_usage *usage, char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        int op = 0;
        while (op < tg_op_count() && !name_begins(tg_op_at(op)->name, names[i]))
            op++;
        if (op == tg_op_count())
            return cli_error(usage, "no operator begins with \"%s\"; tigon list has them all",
                             names[i]);
    }
    return 0;
}
