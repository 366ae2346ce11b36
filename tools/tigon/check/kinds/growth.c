/* tools/tigon/check/kinds/growth.c - how large the process is: what only grows when something is
 * never given back. */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>

#include "kinds.h"

static int64_t entries(const char *folder)
{
    int64_t n = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == EMFILE || errno == ENFILE ? NO_FILE_LEFT : 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

void process_measure(process_size *s)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
#ifdef __GLIBC__
    const struct mallinfo2 heap = mallinfo2();
    s->heap = (int64_t)(heap.uordblks + heap.hblkhd);
#else
    s->heap = 0;
#endif
    s->mapped = pages;
    s->files = entries("/proc/self/fd");
    s->threads = entries("/proc/self/task");
}
