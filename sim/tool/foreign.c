/* foreign.c - what a kernel says beside the list of calls: a built-in function of the compiler,
 * which needs no declaration, or instructions of the machine that it is compiled on. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static int is_of_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether this place begins such a word; `length`: of the word. */
static int is_foreign(const char *line, const char *at, int *length)
{
    static const struct {
        const char *text;
        int prefix;
    } words[] = {{"__builtin_", 1}, {"__atomic_", 1}, {"__sync_", 1}, {"asm", 0}, {"__asm__", 0}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t size = strlen(words[i].text);
        if ((at > line && is_of_word(at[-1])) || strncmp(at, words[i].text, size) != 0 ||
            (!words[i].prefix && is_of_word(at[size]))) {
            continue;
        }
        *length = 0;
        while (is_of_word(at[*length])) {
            (*length)++;
        }
        return 1;
    }
    return 0;
}

static int report(const char *line, const char *file, int number)
{
    int found = 0, length;
    for (const char *at = line; *at; at++) {
        if (is_foreign(line, at, &length)) {
            fprintf(stderr, "%s:%d: error: %.*s is no call that CANN documents for this chip\n",
                    file, number, length, at);
            found++;
        }
    }
    return found;
}

typedef struct search {
    const char *headers;
    int found;
} search;

/* The preprocessor's output with macros as they are written, `# number "file"` before what a file
 * has; how much of the kernel's own is foreign. */
static void read_source(FILE *source, void *by)
{
    search *of = by;
    char *line = NULL, file[4200] = "";
    size_t room = 0;
    int number = 0, own = 0;
    while (getline(&line, &room, source) >= 0) {
        if (sscanf(line, "# %d \"%4199[^\"]\"", &number, file) == 2) {
            own = file[0] != '<' && strncmp(file, of->headers, strlen(of->headers)) != 0 &&
                  !strstr(strrchr(line, '"'), " 3");
            continue;
        }
        of->found += own ? report(line, file, number) : 0;
        number++;
    }
    free(line);
}

int tool_foreign(char *const compile[], const char *headers)
{
    search of = {headers, 0};
    const int status = tool_compile(compile, STDOUT_FILENO, read_source, &of);
    return status == 0 ? of.found : -1;
}
