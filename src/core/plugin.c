/* Backends from outside: loading, checking, and finding the symbols of one that has no table. */
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

/* ---- the services that open() gets ---- */

static void (*service_default_of(tg_ctx *ctx, const char *op))(void)
{
    (void)ctx; /* of each call */
    const int id = tg_op_by_name(op);
    return id < 0 ? NULL : tg_default_calls[id];
}

static tg_status service_call(tg_ctx *ctx, const char *op, const void *args)
{
    const int id = tg_op_by_name(op);
    if (id < 0)
        return tg_fail(TG_ENOTFOUND, "there is no operator %s", op);
    return tg_call(ctx, id, args);
}

static void service_log(tg_ctx *ctx, const char *format, ...)
{
    char text[512];
    va_list values;
    va_start(values, format);
    tg_format(text, sizeof text, format, values);
    va_end(values);
    tg_log_line(ctx, "%s", text);
}

static int service_verbose(const tg_ctx *ctx)
{
    return ctx->verbose;
}

const tg_host tg_host_services = {
    TG_ABI,          sizeof(tg_host),     service_default_of, service_call,           tg_fail,
    service_log,     tg_workspace,        tg_parallel_for,    tg_ctx_threads,         tg_ctx_stream,
    service_verbose, tg_device_workspace, tg_ctx_slot,        tg_ctx_batch_invariant,
};

/* ---- symbols of a shared object, read from its dynamic section ---- */

typedef struct symbols {
    const ElfW(Sym) * table;
    const char *names;
    size_t count;
} symbols;

/* The GNU hash table names no count: the last chain's end tells it. */
static size_t gnu_hash_count(const uint32_t *hash)
{
    const uint32_t buckets = hash[0], offset = hash[1], bloom = hash[2];
    const uint32_t *bucket = hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < offset)
        return offset;
    while (!(chain[last - offset] & 1u))
        last++;
    return last + 1;
}

static symbols read_symbols(void *handle)
{
    symbols s = {0};
    struct link_map *map;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return s;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        const void *p = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_SYMTAB)
            s.table = p;
        else if (d->d_tag == DT_STRTAB)
            s.names = p;
        else if (d->d_tag == DT_HASH)
            s.count = ((const uint32_t *)p)[1];
        else if (d->d_tag == DT_GNU_HASH && s.count == 0)
            s.count = gnu_hash_count(p);
    }
    if (!s.table || !s.names)
        s.count = 0;
    return s;
}

/* Implementations for all symbols <vendor>_<operator>; the caller frees *list. */
static tg_status discover(const char *path, void *handle, const char *vendor, tg_impl **list)
{
    const symbols s = read_symbols(handle);
    const size_t prefix = strlen(vendor);
    tg_impl *impls = calloc(TG_OP_COUNT + 1, sizeof *impls);
    if (!impls)
        return tg_fail(TG_ENOMEM, "%s: no memory for its implementations", path);
    int count = 0;
    for (size_t i = 0; i < s.count; i++) {
        const char *name = s.names + s.table[i].st_name;
        if (s.table[i].st_shndx == SHN_UNDEF || strncmp(name, vendor, prefix) != 0 ||
            name[prefix] != '_')
            continue;
        const int op = tg_op_by_name(name + prefix + 1);
        if (op < 0 || count == TG_OP_COUNT) {
            free(impls);
            return tg_fail(TG_EINVAL,
                           "%s: symbol %s carries the vendor's prefix but %s names no operator; "
                           "make it static or hidden "
                           "if it is not meant as one",
                           path, name, name + prefix + 1);
        }
        impls[count].op = tg_ops[op].name;
        impls[count].variant = "";
        impls[count].takes = TG_TAKES_FLOATS;
        *(void **)&impls[count].run.any = dlsym(handle, name);
        count++;
    }
    *list = impls;
    if (count > 0)
        return TG_OK;
    free(impls);
    return tg_fail(TG_EINVAL,
                   "%s: it has neither a table of implementations nor a symbol %s_<operator>", path,
                   vendor);
}

/* ---- loading ---- */

/* A table from outside as one of this version: fields that an older, smaller one lacks are 0. */
static tg_status read_table(const char *path, const tg_backend *from, tg_backend *to)
{
    const size_t least = offsetof(tg_backend, module_path); /* it names vendor and device */
    if (!from)
        return tg_fail(TG_EINVAL, "%s: the table of the backend is NULL", path);
    if (from->abi != TG_ABI)
        return tg_fail(TG_EABI, "%s: built for ABI %u, expected ABI %u, of Tigon %s", path,
                       from->abi, TG_ABI, tg_version());
    if (from->size < least || from->size > sizeof *to)
        return tg_fail(TG_EABI, "%s: its table has %u bytes, expected %zu to %zu%s", path,
                       from->size, least, sizeof *to,
                       from->size < least ? "" : ": it was built against a newer Tigon");
    *to = (tg_backend){0};
    memcpy(to, from, from->size);
    return TG_OK;
}

static tg_status check_table(const char *path, const tg_backend *b)
{
    if (!b->vendor || !islower((unsigned char)b->vendor[0]))
        return tg_fail(TG_EINVAL,
                       "%s: vendor is %s, expected a name of lower-case letters and digits", path,
                       b->vendor ? b->vendor : "NULL");
    for (const char *c = b->vendor; *c; c++)
        if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c))
            return tg_fail(TG_EINVAL,
                           "%s: vendor is %s, expected a name of lower-case letters and digits",
                           path, b->vendor);
    if (!b->device || !*b->device || strlen(b->device) >= NAME_SIZE)
        return tg_fail(TG_EINVAL, "%s: device is %s, expected a name of 1 to %d characters", path,
                       b->device ? b->device : "NULL", NAME_SIZE - 1);
    if (!tg_device_type_is_known(b->device_type))
        return tg_fail(TG_EINVAL, "%s: device_type is %d, expected one of TG_DEVICE_*", path,
                       b->device_type);
    const int other = tg_registry_backend_by_vendor(b->vendor);
    if (other >= 0)
        return tg_fail(TG_EINVAL, "%s: vendor %s is already there, from %s", path, b->vendor,
                       tg_registry_backend(other)->info.module_path);
    return TG_OK;
}

/* A table from outside takes its place in the registry. handle: of dlopen, NULL for
 * the program's own. */
static tg_status take(const char *path, const tg_backend *from, void *handle)
{
    tg_backend table;
    TG_TRY(read_table(path, from, &table));
    TG_TRY(check_table(path, &table));
    tg_impl *found = NULL;
    if (!table.impls && !handle)
        return tg_fail(TG_EINVAL,
                       "%s: impls is NULL, expected a table; symbols are found in a "
                       "shared library alone",
                       path);
    if (!table.impls)
        TG_TRY(discover(path, handle, table.vendor, &found));
    tg_status status = table.open ? table.open(&tg_host_services) : TG_OK;
    if (status != TG_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", tg_last_error());
        free(found);
        return tg_fail(status, "%s: open() failed: %s", path, *why ? why : tg_status_name(status));
    }
    status = tg_registry_add(&table, from, found ? found : table.impls, handle, path);
    free(found);
    return status;
}

static tg_status load_file(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return tg_fail(TG_ENOTFOUND, "%s: cannot be loaded: %s", path, dlerror());
    if (tg_registry_has_handle(handle))
        return TG_OK;
    const tg_backend *(*entry)(void);
    *(void **)&entry = dlsym(handle, "tg_backend_entry");
    if (!entry)
        return tg_fail(TG_EINVAL, "%s: it has no symbol tg_backend_entry", path);
    return take(path, entry(), handle);
}

/* Code of the file runs from dlopen() on: should it crash, the last line of the log tells where. */
tg_status tg_plugin_load(const char *name)
{
    char here[4096];
    const int in_folder = !strchr(name, '/') &&
                          snprintf(here, sizeof here, "./%s", name) < (int)sizeof here &&
                          access(here, F_OK) == 0;
    const char *const path = in_folder ? here : name;
    tg_log_line(NULL, "tigon: loading %s", path);
    return load_file(path);
}

int tg_plugin_path_beside(const char *name, char *path, size_t size)
{
    Dl_info here;
    const char *slash;
    path[0] = '\0';
    for (const char *c = name; *c; c++)
        if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c))
            return 0;
    if (!dladdr((void *)&tg_plugin_load_beside, &here) || !here.dli_fname ||
        !(slash = strrchr(here.dli_fname, '/')))
        return 0;
    const int n = snprintf(path, size, "%.*s/libtigon_%s.so", (int)(slash - here.dli_fname),
                           here.dli_fname, name);
    return n < (int)size && access(path, F_OK) == 0;
}

tg_status tg_plugin_load_beside(const char *name)
{
    char path[4096];
    return tg_plugin_path_beside(name, path, sizeof path) ? load_file(path) : TG_OK;
}

tg_status tg_plugin_register(const char *where, const tg_backend *table)
{
    return take(where, table, NULL);
}
