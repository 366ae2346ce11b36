/* cublaslt.c - finds NVIDIA's cuBLASLt, where it is installed. */
#include "cublaslt.h"

#include <dlfcn.h>

#include "launch.h"
#include "library.h"

int cuda_open_cublaslt(cublaslt *lt)
{
    static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    const struct {
        const char *name;
        void **at;
    } functions[] = {
#define X(name, arguments) {#name, (void **)&lt->name},
        CUBLASLT_FUNCTIONS(X)
#undef X
    };
    void *library = cuda_open_library(files);
    int there = library != NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && there; i++)
        there = (*functions[i].at = dlsym(library, functions[i].name)) != NULL;
    if (!there)
        cuda_host->log(NULL,
                       "tigon: cuda: no cuBLASLt is found (libcublasLt.so.13 or .12; "
                       "TIGON_CUDA_LIBRARIES may name its folder): gemm is Tigon's own, which "
                       "is many times slower but for 16 bits on a Hopper card");
    return there;
}
