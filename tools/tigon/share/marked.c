/* tools/tigon/share/marked.c - replaces the text between two markers of a
 * document: see marked.h. */
#include "marked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char *command, const char *file, const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", command, file, what);
    return -1;
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

/* The document with its markers found, to be freed; NULL after a message. */
static char *open_document(const char *command, const char *file, const char *name, char **from,
                           char **to)
{
    char *document = file_text(file, NULL);
    if (!document)
        failed(command, file, strerror(errno));
    else if (!find(command, file, name, document, from, to))
        return document;
    free(document);
    return NULL;
}

char *marked_text(const char *command, const char *file, const char *name)
{
    char *from, *to, *document = open_document(command, file, name, &from, &to);
    char *text = document ? strndup(from, (size_t)(to - from)) : NULL;
    free(document);
    return text;
}

int marked_check(const char *command, const char *file, const char *name)
{
    char *from, *to, *document = open_document(command, file, name, &from, &to);
    const int status = document ? 0 : -1;
    free(document);
    return status;
}

typedef struct splice {
    const char *document, *from, *to;
    file_writer write;
    const void *arg;
} splice;

static void write_splice(FILE *out, const void *arg)
{
    const splice *s = arg;
    fwrite(s->document, 1, (size_t)(s->from - s->document), out);
    s->write(out, s->arg);
    fputs(s->to, out);
}

int marked_write(const char *command, const char *file, const char *name, file_writer write,
                 const void *arg)
{
    char *from, *to, *document = open_document(command, file, name, &from, &to);
    if (!document)
        return -1;
    const splice s = {document, from, to, write, arg};
    const int status =
        file_write(file, write_splice, &s) ? failed(command, file, strerror(errno)) : 0;
    free(document);
    return status;
}
