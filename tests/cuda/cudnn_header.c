/* What backends/cuda/host/cudnn.h declares of cuDNN is what the library's own header says: this
 * compiles. */
#include <cudnn.h>

#include "../../backends/cuda/host/cudnn.h"

#define X(ours, theirs, value) _Static_assert((int)(ours) == (int)(theirs), #ours " is " #theirs);
DNN_VALUES(X)
#undef X

/* A call of ours through each of their functions: as many arguments, each pointer or number where
 * they have one. */
#define VOID(x) ((void *)(x))
int main(void)
{
    int64_t count = 0;
    (void)sizeof(cudnnCreate(VOID(0)));
    (void)sizeof(cudnnSetStream(VOID(0), (cudaStream_t)0));
    (void)sizeof(cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)0, VOID(0)));
    (void)sizeof(cudnnBackendDestroyDescriptor(VOID(0)));
    (void)sizeof(cudnnBackendFinalize(VOID(0)));
    (void)sizeof(cudnnBackendSetAttribute(VOID(0), (cudnnBackendAttributeName_t)0,
                                          (cudnnBackendAttributeType_t)0, count, VOID(0)));
    (void)sizeof(cudnnBackendGetAttribute(VOID(0), (cudnnBackendAttributeName_t)0,
                                          (cudnnBackendAttributeType_t)0, count, &count, VOID(0)));
    (void)sizeof(cudnnBackendExecute(VOID(0), VOID(0), VOID(0)));
    return 0;
}
