/* tools/tigon/share/types.c - types by their names: see types.h. */
#include "types.h"

#include <stdio.h>

int cli_type(const cli_usage *usage, const char *option, const char *name)
{
    const int type = tg_type_by_name(name);
    for (int k = 0; k < DATA_TYPES; k++)
        if (type == data_types[k])
            return type;
    cli_error(usage, "%s: found \"%s\", expected f32, bf16 or f16", option, name);
    return 0;
}

int cli_types(const cli_usage *usage, const char *option, const char *list, int types[TYPES_LISTED])
{
    char text[512], *word[TYPES_LISTED];
    snprintf(text, sizeof text, "%s", list);
    const int n = cli_words(usage, option, text, word, TYPES_LISTED);
    for (int i = 0; i < n; i++)
        if (!(types[i] = cli_type(usage, option, word[i])))
            return CLI_WRONG;
    return n;
}
