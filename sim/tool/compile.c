/* compile.c - ascsim flags, ascsim lint: what gcc needs for a kernel of one's own, and what it can
 * say of it: pointers that lack their memory's qualifier, calls that CANN does not document. */
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

int tool_compile(char *const argv[], int descriptor, void (*read)(FILE *, void *), void *by)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0) {
        return -1;
    }
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], descriptor);
        close(ends[0]);
        close(ends[1]);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(ends[1]);
    FILE *output = fdopen(ends[0], "r");
    if (output) {
        read(output, by);
        fclose(output);
    }
    const int ended = child > 0 && waitpid(child, &status, 0) == child;
    return output && ended && WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status)
                                                                              : -1;
}

/* qualifier: that of print_in_words() */
static void tell_messages(FILE *messages, void *qualifier)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, messages) >= 0) {
        print_in_words(line, qualifier);
    }
    free(line);
}

/* gcc's own headers, such as stdint.h: a kernel finds no other of the machine's. */
static int own_headers(const char *compiler, char *folder, size_t size)
{
    char command[4400];
    snprintf(command, sizeof command, "%s -print-file-name=include", compiler);
    FILE *told = popen(command, "r");
    const int found = told && fgets(folder, (int)size, told);
    folder[found ? strcspn(folder, "\n") : 0] = 0;
    return (!told || pclose(told) == 0) && found;
}

/* The compiler, its options and what lint was given; each run puts its own behind.
 * Returns how many. */
static int lint_command(char **list, char *flags, const char *compiler, char *include,
                        char *headers, int argc, char **argv)
{
    int count = 0;
    list[count++] = (char *)compiler;
    for (char *flag = strtok(flags, " "); flag; flag = strtok(NULL, " ")) {
        list[count++] = flag;
    }
    char *own[] = {"-std=gnu11",
                   "-ffreestanding",
                   "-nostdinc",
                   "-isystem",
                   headers,
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
    return count;
}

/* Pointers and calls: what is wrong in one of the spaces would be said in each. */
static int lint_pointers(char **list, int count)
{
    int status = 0;
    list[count] = "-fsyntax-only";
    list[count + 2] = NULL;
    for (int i = 0; i < SPACES && status == 0; i++) {
        list[count + 1] = (char *)spaces[i].define;
        status = tool_compile(list, STDERR_FILENO, tell_messages, (char *)spaces[i].qualifier);
    }
    return status;
}

int tool_lint(int argc, char **argv)
{
    char include[4200], headers[4096], flags[] = ASCSIM_KERNEL_FLAGS, *list[LINT_ARGUMENTS + 64];
    const char *compiler = getenv("CC");
    int sources = 0;
    for (int i = 0; i < argc; i++) {
        sources += argv[i][0] != '-';
    }
    if (!sources || argc > LINT_ARGUMENTS) {
        return tool_bad(
            "lint takes a kernel's sources, and what gcc needs for them, such as -IFOLDER");
    }
    compiler = compiler && *compiler ? compiler : "gcc";
    include_option(include, sizeof include);
    if (!own_headers(compiler, headers, sizeof headers)) {
        return tool_bad("lint: %s cannot be run", compiler);
    }
    const int count = lint_command(list, flags, compiler, include, headers, argc, argv);
    const int status = lint_pointers(list, count);
    list[count] = "-E";
    list[count + 1] = "-fdirectives-only";
    list[count + 2] = NULL;
    const int foreign = status == 0 ? tool_foreign(list, include + strlen("-I")) : 0;
    if (status < 0 || foreign < 0) {
        return tool_bad("lint: %s cannot be run", compiler);
    }
    return status == 0 && foreign == 0 ? TOOL_CLEAN : TOOL_FAULTS;
}
