/* signature.c - the parameters of a kernel, from the debug information of its library as readelf
 * prints it. */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

/* One entry of the information: a function, a parameter, a type. */
typedef struct entry {
    unsigned long at, type; /* type: the entry of its type; 0: none, void */
    int level, bytes;
    char tag[32], name[64], encoding[16];
} entry;

typedef struct entries {
    entry *list;
    size_t count, room;
} entries;

static entry *append(entries *all)
{
    if (all->count == all->room) {
        all->room = all->room ? 2 * all->room : 1024;
        all->list = realloc(all->list, all->room * sizeof *all->list);
    }
    entry *new = &all->list[all->count++];
    *new = (entry){0};
    return new;
}

/* What readelf says in brackets of how a value is kept: "(indirect string, offset: 0x2b1): scale",
 * "(data1) 8". */
static const char *behind_form(const char *value)
{
    while (*value == '(' && strchr(value, ')'))
        value = strchr(value, ')') + 1 + strspn(strchr(value, ')') + 1, ": ");
    return value;
}

/* "    <2f>   DW_AT_byte_size   : 8" */
static void read_attribute(entry *of, const char *line)
{
    const char *attribute = strstr(line, "DW_AT_"), *colon = strchr(line, ':');
    if (!attribute || !colon)
        return;
    const char *value = behind_form(colon + 1 + strspn(colon + 1, " \t"));
    attribute += 6;
    if (!strncmp(attribute, "name ", 5))
        snprintf(of->name, sizeof of->name, "%.*s", (int)strcspn(value, "\n"), value);
    else if (!strncmp(attribute, "type ", 5))
        sscanf(value, "<%lx>", &of->type);
    else if (!strncmp(attribute, "byte_size ", 10))
        of->bytes = atoi(value);
    else if (!strncmp(attribute, "encoding ", 9))
        sscanf(value, "%*d (%15[^)]", of->encoding);
}

/* Lines that begin an entry: " <1><2e>: Abbrev Number: 6 (DW_TAG_base_type)"; number 0 ends a list
 * of children. */
static void read_lines(entries *all, FILE *from)
{
    char line[4096];
    while (fgets(line, sizeof line, from)) {
        entry begun = {0};
        if (sscanf(line, " <%d><%lx>: Abbrev Number: %*d (DW_TAG_%31[^)]", &begun.level, &begun.at,
                   begun.tag) == 3)
            *append(all) = begun;
        else if (all->count && !strstr(line, "Abbrev Number"))
            read_attribute(&all->list[all->count - 1], line);
    }
}

static entries read_library(const char *library)
{
    char command[4200];
    entries all = {0};
    FILE *pipe = NULL;
    if (!strchr(library, '\''))
        pipe = snprintf(command, sizeof command, "readelf --debug-dump=info '%s' 2>/dev/null",
                        library) < (int)sizeof command
                   ? popen(command, "r")
                   : NULL;
    if (pipe) {
        read_lines(&all, pipe);
        pclose(pipe);
    }
    return all;
}

static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* A type without what typedefs and qualifiers say; NULL: void, or not told. */
static const entry *type_of(const entries *all, const entry *of)
{
    for (int steps = 0; of && steps < 64; steps++) {
        const entry wanted = {.at = of->type};
        of = of->type ? bsearch(&wanted, all->list, all->count, sizeof wanted, by_place) : NULL;
        if (of && strcmp(of->tag, "typedef") && strcmp(of->tag, "const_type") &&
            strcmp(of->tag, "volatile_type"))
            return of;
    }
    return NULL;
}

static tool_parameter parameter_of(const entries *all, const entry *of)
{
    tool_parameter p = {.kind = TOOL_OTHER};
    const entry *type = type_of(all, of);
    snprintf(p.name, sizeof p.name, "%s", of->name);
    if (!type)
        return p;
    p.bytes = type->bytes;
    if (!strcmp(type->tag, "pointer_type")) {
        const entry *target = type_of(all, type);
        p.kind = TOOL_POINTER;
        p.bytes = target ? target->bytes : 0;
    } else if (!strcmp(type->tag, "enumeration_type")) {
        p.kind = TOOL_INTEGER;
    } else if (!strcmp(type->tag, "base_type")) {
        p.kind = strcmp(type->encoding, "float") ? TOOL_INTEGER : TOOL_FLOAT;
    }
    return p;
}

int tool_signature(const char *library, const char *function, tool_parameter *list, int room)
{
    const entries all = read_library(library);
    int count = -1;
    for (size_t i = 0; i < all.count && count < 0; i++) {
        const entry *f = &all.list[i];
        if (strcmp(f->tag, "subprogram") || strcmp(f->name, function))
            continue;
        count = 0;
        for (size_t k = i + 1; k < all.count && all.list[k].level > f->level; k++)
            if (all.list[k].level == f->level + 1 && !strcmp(all.list[k].tag, "formal_parameter") &&
                count < room)
                list[count++] = parameter_of(&all, &all.list[k]);
    }
    free(all.list);
    return count;
}
