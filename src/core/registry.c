/* Backends and implementations: what is built in, what plug-ins add. Entries are
 * only ever appended. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ceiling.h"
#include "core/core.h"

#define TG_TABLE(backend, name) extern const tg_impl tg_impls_##name[];
#define TG_PARTS_TABLE(backend, name) \
    TG_TABLE(backend, name)           \
    extern const char *const tg_calls_##name[];
#include "impl_tables.inc"
#undef TG_PARTS_TABLE
#undef TG_TABLE

static const struct {
    const char *backend;
    const tg_impl *impls;
    const char *const *calls;
} tables[] = {
#define TG_TABLE(backend, name) {#backend, tg_impls_##name, NULL},
#define TG_PARTS_TABLE(backend, name) {#backend, tg_impls_##name, tg_calls_##name},
#include "impl_tables.inc"
#undef TG_PARTS_TABLE
#undef TG_TABLE
};

#define TG_BUILT_IN(vendor) const tg_backend *tg_backend_##vendor(void);
#include "built_in.inc"
#undef TG_BUILT_IN

enum { TABLES = sizeof tables / sizeof *tables };

static reg_impl *impls[MAX_IMPLS];
static reg_backend *backends[MAX_BACKENDS];
static atomic_int impl_count, backend_count;
atomic_int tg_registry_generation;
/* Recursive: a backend's open() may call what looks into the registry, or fork(). */
static pthread_mutex_t load_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int begun;         /* under the lock */
static atomic_int opened; /* done */
static tg_status open_status;
static char open_message[512];

const reg_impl *tg_registry_impl(int impl)
{
    return impl >= 0 && impl < atomic_load(&impl_count) ? impls[impl] : NULL;
}

const reg_backend *tg_registry_backend(int backend)
{
    return backend >= 0 && backend < atomic_load(&backend_count) ? backends[backend] : NULL;
}

int tg_impl_count(void)
{
    tg_registry_open();
    return atomic_load(&impl_count);
}

int tg_backend_count(void)
{
    tg_registry_open();
    return atomic_load(&backend_count);
}

static tg_status add_impl(int backend, const tg_impl *impl, const char *const *calls)
{
    const int count = atomic_load(&impl_count);
    const int op = tg_op_by_name(impl->op);
    const char *vendor = backends[backend]->table.vendor;
    if (op < 0) {
        tg_log_line(NULL,
                    "tigon: backend %s has an implementation for %s, which is no operator of Tigon "
                    "%s; skipped",
                    vendor, impl->op, tg_version());
        return TG_OK;
    }
    const char *variant = impl->variant ? impl->variant : "";
    const size_t size = strlen(vendor) + strlen(impl->op) + strlen(variant) + 3;
    reg_impl *r = count < MAX_IMPLS ? malloc(sizeof *r + size) : NULL;
    if (!r)
        return tg_fail(TG_ENOMEM, "no memory for implementation %s/%s", vendor, impl->op);
    char *name = (char *)(r + 1);
    snprintf(name, size, "%s/%s%s%s", vendor, impl->op, *variant ? "." : "", variant);
    *r = (reg_impl){.impl = *impl, .index = count, .backend = backend, .op = op, .calls = calls};
    if (impl->needs & TG_CPU_PROCESS)
        r->impl.needs = tg_cpu_process();
    r->info = (tg_impl_info){name, vendor, variant, op, r->impl.needs, r->impl.takes};
    impls[count] = r;
    atomic_store(&impl_count, count + 1);
    backends[backend]->info.impls++;
    return TG_OK;
}

static tg_status add_backend(const tg_backend *table, const tg_backend *given, void *handle,
                             const char *path, int *number)
{
    const int count = atomic_load(&backend_count);
    reg_backend *b = count < MAX_BACKENDS ? calloc(1, sizeof *b + strlen(path) + 1) : NULL;
    if (!b)
        return tg_fail(TG_ENOMEM, "no memory for backend %s", table->vendor);
    char *path_copy = strcpy((char *)(b + 1), path);
    b->table = *table;
    b->given = given;
    b->handle = handle;
    b->info = (tg_backend_info){table->vendor, table->device, table->device_type,
                                table->module_path ? table->module_path : path_copy, 0};
    backends[count] = b;
    *number = count;
    atomic_store(&backend_count, count + 1);
    return TG_OK;
}

tg_status tg_registry_add(const tg_backend *table, const tg_backend *given, const tg_impl *list,
                          void *handle, const char *path)
{
    int number;
    TG_TRY(add_backend(table, given, handle, path, &number));
    for (; list->op; list++)
        TG_TRY(add_impl(number, list, NULL));
    atomic_fetch_add(&tg_registry_generation, 1);
    return TG_OK;
}

/* ---- opening ---- */

/* The built-in implementations of a backend: those that need a slow feature, or the others. */
static tg_status add_tables(int number, const char *name, int slow)
{
    for (int i = 0; i < TABLES; i++)
        for (const tg_impl *impl = tables[i].impls;
             impl->op && strcmp(tables[i].backend, name) == 0; impl++)
            if (((impl->needs & tg_cpu_slow_features()) != 0) == slow)
                TG_TRY(add_impl(number, impl, tables[i].calls));
    return TG_OK;
}

static tg_status add_built_in(void)
{
    static const char *const names[] = {"cpu", "ref"};
    for (int i = 0; i < 2; i++) {
        const tg_backend table = {TG_ABI, sizeof table,  names[i],
                                  "cpu",  TG_DEVICE_CPU, .module_path = "built in"};
        int number;
        TG_TRY(add_backend(&table, NULL, NULL, "built in", &number));
        TG_TRY(add_tables(number, names[i], 0));
        TG_TRY(add_tables(number, names[i], 1));
    }
    atomic_fetch_add(&tg_registry_generation, 1);
    return TG_OK;
}

/* Vendors' backends of this tree, as CMake lists them: taken as if from outside. */
static tg_status add_vendors(void)
{
#define TG_BUILT_IN(vendor) TG_TRY(tg_plugin_register("built in", tg_backend_##vendor()));
#include "built_in.inc"
#undef TG_BUILT_IN
    return TG_OK;
}

static tg_status load_path(const char *path)
{
    char *copy = strdup(path), *rest = copy;
    if (!copy)
        return tg_fail(TG_ENOMEM, "no memory for TIGON_BACKEND_PATH");
    tg_status status = TG_OK;
    for (char *file; status == TG_OK && (file = strsep(&rest, ":"));)
        if (*file)
            status = tg_plugin_load(file);
    free(copy);
    if (status != TG_OK) {
        char why[sizeof open_message];
        snprintf(why, sizeof why, "%s", tg_last_error());
        return tg_fail(status, "TIGON_BACKEND_PATH: %s", why);
    }
    return TG_OK;
}

static void guard(void)
{
    tg_lock_across_fork(&load_lock); /* before any other */
    tg_fork_open();
}

static void close_backends(void)
{
    for (int i = atomic_load(&backend_count) - 1; i >= 0; i--)
        if (backends[i]->table.close)
            backends[i]->table.close();
}

static void open_registry(void)
{
    tg_schema_open();
    tg_cpu_open();
    open_status = add_built_in();
    if (open_status == TG_OK)
        open_status = add_vendors();
    if (open_status == TG_OK)
        open_status = tg_tuning_open();
    const char *path = getenv("TIGON_BACKEND_PATH");
    if (open_status == TG_OK && path)
        open_status = load_path(path);
    snprintf(open_message, sizeof open_message, "%s", open_status == TG_OK ? "" : tg_last_error());
    if (open_status == TG_OK)
        tg_environment_warn();
    atexit(close_backends);
}

static void open_once(void)
{
    static pthread_once_t guarded = PTHREAD_ONCE_INIT;
    pthread_once(&guarded, guard);
    pthread_mutex_lock(&load_lock);
    if (!begun) {
        begun = 1;
        open_registry();
        atomic_store_explicit(&opened, 1, memory_order_release);
    }
    pthread_mutex_unlock(&load_lock);
}

tg_status tg_registry_open(void)
{
    if (!TG_LIKELY(atomic_load_explicit(&opened, memory_order_acquire)))
        open_once();
    return open_status == TG_OK ? TG_OK : tg_fail(open_status, "%s", open_message);
}

tg_status tg_backend_load(const char *path)
{
    if (!path || !*path)
        return tg_fail(TG_EINVAL, "tg_backend_load: path is %s, expected a file",
                       path ? "empty" : "NULL");
    TG_TRY(tg_registry_open());
    pthread_mutex_lock(&load_lock);
    const tg_status status = tg_plugin_load(path);
    pthread_mutex_unlock(&load_lock);
    return status;
}

static tg_status load_beside(const char *name)
{
    TG_TRY(tg_registry_open());
    pthread_mutex_lock(&load_lock);
    const tg_status status = tg_plugin_load_beside(name);
    pthread_mutex_unlock(&load_lock);
    return status;
}

tg_status tg_registry_bring(const char *device)
{
    return tg_backend_for_device(device) >= 0 ? TG_OK : load_beside(device);
}

tg_status tg_registry_bring_vendor(const char *name)
{
    char vendor[NAME_SIZE];
    const size_t length = strcspn(name, "/");
    if (length >= sizeof vendor)
        return TG_OK;
    snprintf(vendor, sizeof vendor, "%.*s", (int)length, name);
    return tg_registry_backend_by_vendor(vendor) >= 0 ? TG_OK : load_beside(vendor);
}

tg_status tg_backend_register(const tg_backend *backend)
{
    TG_TRY(tg_registry_open());
    pthread_mutex_lock(&load_lock);
    const tg_status status = tg_plugin_register("tg_backend_register", backend);
    pthread_mutex_unlock(&load_lock);
    return status;
}
