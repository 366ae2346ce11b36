/* tools/tigon/share/marked.c - replaces the text between two markers of a document: see marked.h. */
#include "marked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

static int failed(const char *command, const char *file, const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", command, file, what);
    return -1;
}

static int write_file(const char *path, const char *before, size_t n, const char *text,
                      const char *after)
{
    char beside[4096];
    snprintf(beside, sizeof beside, "%s.new", path);
    FILE *out = fopen(beside, "wb");
    if (!out)
        return -1;
    fwrite(before, 1, n, out);
    fputs(text, out);
    fputs(after, out);
    const int bad = ferror(out);
    return fclose(out) || bad || rename(beside, path) ? -1 : 0;
}

/* What stands between the markers, from *from to *to; -1 after a message. */
static int find(const char *command, const char *file, const char *name, char *document,
                char **from, char **to)
{
    char begin[128], end[128], missing[256];
    snprintf(begin, sizeof begin, "<!-- %s -->\n", name);
    snprintf(end, sizeof end, "<!-- end: %s -->\n", name);
    *from = strstr(document, begin);
    *to = *from ? strstr(*from, end) : NULL;
    if (*to) {
        *from += strlen(begin);
        return 0;
    }
    const char *line = *from ? end : begin;
    snprintf(missing, sizeof missing, "there is no line \"%.*s\"", (int)strcspn(line, "\n"), line);
    return failed(command, file, missing);
}

/* text: NULL to look for the markers alone. */
static int replace(const char *command, const char *file, const char *name, const char *text)
{
    char *from, *to, *document = file_text(file, NULL);
    if (!document)
        return failed(command, file, strerror(errno));
    int status = find(command, file, name, document, &from, &to);
    if (!status && text && write_file(file, document, (size_t)(from - document), text, to))
        status = failed(command, file, strerror(errno));
    free(document);
    return status;
}

char *marked_text(const char *command, const char *file, const char *name)
{
    char *from, *to, *document = file_text(file, NULL), *text = NULL;
    if (!document)
        failed(command, file, strerror(errno));
    else if (!find(command, file, name, document, &from, &to))
        text = strndup(from, (size_t)(to - from));
    free(document);
    return text;
}

int marked_check(const char *command, const char *file, const char *name)
{
    return replace(command, file, name, NULL);
}

int marked_replace(const char *command, const char *file, const char *name, const char *text)
{
    return replace(command, file, name, text);
}
