/* compile.c - ascsim flags, ascsim lint: what gcc needs for a kernel of one's own, and what it can
 * say of it. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

/* Where libraries and headers are: PREFIX if this program is PREFIX/bin/ascsim and was installed,
 * else the build. */
static int find_prefix(char *prefix, size_t size)
{
    char header[4200];
    const ssize_t length = readlink("/proc/self/exe", prefix, size - 1);
    if (length <= 0) {
        return 0;
    }
    prefix[length] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(prefix, '/');
        if (!slash) {
            return 0;
        }
        *slash = 0;
    }
    snprintf(header, sizeof header, "%s/include/ascsim/ascsim.h", prefix);
    return access(header, R_OK) == 0;
}

/* The option that finds c_api/asc_simd.h. */
static void include_option(char *option, size_t size)
{
    char prefix[4096];
    const int installed = find_prefix(prefix, sizeof prefix);
    snprintf(option, size, "-I%s%s", installed ? prefix : "",
             installed ? "/include/ascsim" : ASCSIM_INCLUDE);
}

int tool_flags(int argc, char **argv)
{
    char prefix[4096], include[4200];
    const int installed = find_prefix(prefix, sizeof prefix);
    if (argc == 1 && strcmp(argv[0], "compile") == 0) {
        include_option(include, sizeof include);
        printf("-std=gnu11 -fPIC %s %s\n", ASCSIM_KERNEL_FLAGS, include);
        return TOOL_CLEAN;
    }
    if (argc == 1 && strcmp(argv[0], "link") == 0) {
        char built[4200];
        snprintf(built, sizeof built, "%s/" ASCSIM_LIBDIR, prefix);
        const char *libraries = installed ? built : ASCSIM_BUILT,
                   *hooks = installed ? built : ASCSIM_HOOKS;
        printf("-shared %s/libascsim_hooks.a -L%s -lascsim -Wl,-rpath,%s\n", hooks, libraries,
               libraries);
        return TOOL_CLEAN;
    }
    return tool_bad("flags takes `compile` or `link`, found `%s`", argc ? argv[0] : "");
}

/* ---- lint ---- */

enum { LINT_ARGUMENTS = 256 };

/* The memories of a core, each with its qualifier. gcc has two address spaces of its own for x86:
 * one is global memory's, the other is lent to each of these in turn. Something must stand before
 * __seg_fs: behind an if or for gcc takes it for a variable's name. */
static const struct {
    const char *qualifier, *define;
} spaces[] = {
    {"__ubuf__", "-DASC_LINT_UBUF=__attribute__(()) __seg_fs"},
    {"__cbuf__", "-DASC_LINT_CBUF=__attribute__(()) __seg_fs"},
    {"__ca__", "-DASC_LINT_CA=__attribute__(()) __seg_fs"},
    {"__cb__", "-DASC_LINT_CB=__attribute__(()) __seg_fs"},
    {"__cc__", "-DASC_LINT_CC=__attribute__(()) __seg_fs"},
    {"__fbuf__", "-DASC_LINT_FBUF=__attribute__(()) __seg_fs"},
};
enum { SPACES = sizeof spaces / sizeof *spaces };

/* What gcc calls the two address spaces, in the kernel's words. */
static void print_in_words(const char *line, const char *qualifier)
{
    const struct {
        const char *found, *means;
    } words[] = {{"__attribute__(()) ", ""}, {"__seg_fs", qualifier}, {"__seg_gs", "__gm__"}};
    while (*line) {
        size_t k = 0;
        while (k < sizeof words / sizeof *words &&
               strncmp(line, words[k].found, strlen(words[k].found)) != 0) {
            k++;
        }
        if (k < sizeof words / sizeof *words) {
            fputs(words[k].means, stderr);
            line += strlen(words[k].found);
        } else {
            fputc(*line++, stderr);
        }
    }
}

/* Runs the compiler with its messages in words; its exit status, -1: it did not run. */
static int run_compiler(char *const argv[], const char *qualifier)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0) {
        return -1;
    }
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(ends[1]);
    FILE *messages = fdopen(ends[0], "r");
    char *line = NULL;
    size_t room = 0;
    while (messages && getline(&line, &room, messages) >= 0) {
        print_in_words(line, qualifier);
    }
    free(line);
    if (messages) {
        fclose(messages);
    }
    const int ended = child > 0 && waitpid(child, &status, 0) == child;
    return ended && WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

int tool_lint(int argc, char **argv)
{
    char include[4200], flags[] = ASCSIM_KERNEL_FLAGS, *list[LINT_ARGUMENTS + 64];
    const char *compiler = getenv("CC");
    int count = 0, sources = 0;
    for (int i = 0; i < argc; i++) {
        sources += argv[i][0] != '-';
    }
    if (!sources || argc > LINT_ARGUMENTS) {
        return tool_bad(
            "lint takes a kernel's sources, and what gcc needs for them, such as -IFOLDER");
    }
    include_option(include, sizeof include);
    list[count++] = (char *)(compiler && *compiler ? compiler : "gcc");
    for (char *flag = strtok(flags, " "); flag; flag = strtok(NULL, " ")) {
        list[count++] = flag;
    }
    char *own[] = {"-std=gnu11",
                   "-fsyntax-only",
                   "-Werror",
                   "-ftrack-macro-expansion=0",
                   "-DASC_LINT_GM=__attribute__(()) __seg_gs",
                   include,
                   "-xc"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        list[count++] = own[i];
    }
    for (int i = 0; i < argc; i++) {
        list[count++] = argv[i];
    }
    list[count + 1] = NULL;
    int status = 0;
    for (int i = 0; i < SPACES && status == 0;
         i++) { /* what is wrong in one would be said in each */
        list[count] = (char *)spaces[i].define;
        status = run_compiler(list, spaces[i].qualifier);
    }
    if (status < 0) {
        return tool_bad("lint: %s cannot be run", list[0]);
    }
    return status == 0 ? TOOL_CLEAN : TOOL_FAULTS;
}
