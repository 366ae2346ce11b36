/* tools/tigon/problem/edit.c - cases changed token by token; the text follows. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "parts.h"

const char pb_separators[PB_KINDS] = {
    [PB_SET] = '=',   [PB_DROP] = 0,   [PB_FILL] = '!',   [PB_OVER] = '@',  [PB_BESIDE] = '|',
    [PB_SHAPE] = '[', [PB_TYPE] = ':', [PB_EXPAND] = '^', [PB_SLICE] = '+', [PB_FLAG] = 0};

/* The text of the tokens, for people: what is too long for it is cut off. */
static void write_text(pb_case *c)
{
    size_t used = 0;
    c->text[0] = 0;
    for (int i = 0; i < c->ntokens && used < sizeof c->text; i++) {
        const pb_token *t = &c->token[i];
        const char separator[] = {pb_separators[t->kind], 0};
        used += (size_t)snprintf(c->text + used, sizeof c->text - used, "%s%s%s%s%s%s",
                                 i ? " " : "", t->kind == PB_DROP ? "-" : "", t->name, separator,
                                 t->value, t->kind == PB_SHAPE ? "]" : "");
    }
}

void pb_case_remove(pb_case *c, pb_token_kind kind, const char *name)
{
    int n = 0;
    for (int i = 0; i < c->ntokens; i++)
        if (c->token[i].kind != kind || (name && strcmp(c->token[i].name, name)))
            c->token[n++] = c->token[i];
    c->ntokens = n;
    write_text(c);
}

void pb_case_add(pb_case *c, pb_token_kind kind, const char *name, const char *value)
{
    if (c->ntokens == PB_TOKENS)
        return;
    pb_token *t = &c->token[c->ntokens++];
    *t = (pb_token){.kind = kind};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->value, sizeof t->value, "%s", value);
    write_text(c);
}

int pb_is_dimension(const pb_token *t)
{
    return t->kind == PB_SET && isupper((unsigned char)t->name[0]) && strcmp(t->name, "W") &&
           strcmp(t->name, "G");
}
