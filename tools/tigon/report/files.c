/* tools/tigon/report/files.c - sources as they are installed (bin/../share/tigon/ascend), or in the
 * source tree that this command was built from. */
#include "files.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "share/file.h"

const char *files_name(const char *path)
{
    static const char folder[] = "backends/ascend/";
    const char *name = path;
    for (const char *at = path; (at = strstr(at, folder)); at = name)
        name = at + strlen(folder);
    return name;
}

char *files_text(const char *name)
{
    char self[PATH_MAX / 2], path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    snprintf(path, sizeof path, "%s/../%s/ascend/%s", self, TIGON_SHARE, name);
    char *text = file_text(path, NULL);
    snprintf(path, sizeof path, "%s/backends/ascend/%s", TIGON_SOURCE, name);
    return text ? text : file_text(path, NULL);
}

/* From " - " to the first sentence's end. */
void files_head(const char *text, char *head, size_t size)
{
    const char *at = strstr(text, " - ");
    size_t n = 0;
    for (at = at ? at + 3 : ""; *at && strncmp(at, "*/", 2) && n + 1 < size; at++) {
        const int line_goes_on = !strncmp(at, "\n * ", 4);
        if (*at == '\n' && !line_goes_on)
            break;
        head[n++] = line_goes_on ? ' ' : *at;
        at += line_goes_on ? 3 : 0;
        if (head[n - 1] == ' ' && n > 1 && head[n - 2] == '.')
            break;
    }
    while (n && isspace((unsigned char)head[n - 1]))
        n--;
    head[n] = '\0';
}
