/* library.c - where NVIDIA's own libraries may lie. */
#include "library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *open_in(const char *folder, int length, const char *file)
{
    char path[4096];
    if (length == 0)
        return NULL;
    const int size = snprintf(path, sizeof path, "%.*s/%s", length, folder, file);
    return size < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* folders: separated by colons. */
static void *open_in_list(const char *folders, const char *file)
{
    void *library = NULL;
    while (folders && *folders && !library) {
        const size_t length = strcspn(folders, ":");
        library = open_in(folders, (int)length, file);
        folders += length + (folders[length] == ':');
    }
    return library;
}

/* pattern: of folders. */
static void *open_in_matches(const char *root, const char *pattern, const char *file)
{
    char path[4096];
    glob_t found;
    void *library = NULL;
    if (snprintf(path, sizeof path, "%s%s", root, pattern) >= (int)sizeof path ||
        glob(path, 0, NULL, &found))
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && !library; i++)
        library = open_in(found.gl_pathv[i], (int)strlen(found.gl_pathv[i]), file);
    globfree(&found);
    return library;
}

static void *open_in_wheels(const char *file)
{
    static const char *const roots[] = {"/usr/local", "/usr"};
    static const char in_packages[] = "/lib/python3*/*-packages/nvidia/*/lib";
    const char *environment = getenv("VIRTUAL_ENV");
    void *library = environment ? open_in_matches(environment, in_packages, file) : NULL;
    for (size_t i = 0; i < sizeof roots / sizeof *roots && !library; i++)
        library = open_in_matches(roots[i], in_packages, file);
    return library;
}

void *cuda_open_library(const char *const *files)
{
    void *library = NULL;
    for (; *files && !library; files++) {
        library = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            library = open_in_list(getenv("TIGON_CUDA_LIBRARIES"), *files);
        if (!library)
            library = open_in_list("/usr/local/cuda/lib64", *files);
        if (!library)
            library = open_in_wheels(*files);
    }
    return library;
}
