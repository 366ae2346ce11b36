/* hopper.cuh - instructions that GPUs have from compute capability 9.0 on, products of tiles 9.0
 * alone (HAS_WGMMA), a function each: barriers that count bytes, copies of tiles between device
 * memory and the shared memory of a cluster's blocks (TMA), products of tiles in shared memory by
 * four warps (wgmma). Addresses of shared memory are 32 bits wide. */
#ifndef CUDA_HOPPER_CUH
#define CUDA_HOPPER_CUH

#include <cuda.h>

#include "cluster.cuh"
#include "elements.cuh"

/* Defined where the compiler makes code for compute capability 9.0 and no other. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif

/* ---- barriers in shared memory ---- */

/* A phase ends when `count` threads have arrived and all bytes that were announced have come. */
__device__ __forceinline__ void init_barrier(uint32_t barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/* What was initialised is seen by the blocks of the cluster and by copies. */
__device__ __forceinline__ void fence_barriers()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive_and_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* At the barrier of the same address in a block of the cluster. It says that this thread has read,
 * and nothing of what it has written: an arrival that other blocks' threads learn that from takes a
 * fence of the whole card, as long as a product of two tiles. */
__device__ __forceinline__ void arrive_at(uint32_t barrier, int block)
{
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(barrier), "r"(block));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

/* 16 bytes to this address in a block of the cluster, counted at the barrier of this address
 * there. */
__device__ __forceinline__ void send_16(uint32_t to, int4 v, uint32_t barrier, int block)
{
    uint32_t there, counted;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(to), "r"(block));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counted) : "r"(barrier), "r"(block));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                 "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(there),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(counted)
                 : "memory");
}

/* Until the phase of this parity has ended. */
__device__ __forceinline__ void wait_barrier(uint32_t barrier, int parity)
{
    uint32_t ended;
    do {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(ended)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!ended);
}

/* A ring of stages: which comes next, and in which phase its barriers are. */
struct stage_ring {
    int stage, phase;
    __device__ __forceinline__ void step(int stages)
    {
        phase ^= ++stage == stages;
        stage = stage == stages ? 0 : stage;
    }
};

/* All threads of the cluster. */
__device__ __forceinline__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/* Of the threads that call it with this name, `threads` in all. */
__device__ __forceinline__ void named_barrier(int name, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/* The same without waiting. */
__device__ __forceinline__ void named_arrival(int name, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/* ---- copies of tiles ---- */

/* The tile at (x, y), x along the contiguous dimension; its bytes are counted at the barrier. What
 * lies outside is 0. */
__device__ __forceinline__ void load_tile(uint32_t to, const CUtensorMap *map, int x, int y,
                                          uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}

/* The same to this address in each block of the mask, where it is counted at the barrier of this
 * address. */
__device__ __forceinline__ void load_tile_to(uint16_t blocks, uint32_t to, const CUtensorMap *map,
                                             int x, int y, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
                 : "memory");
}

/* The same of three dimensions. */
__device__ __forceinline__ void load_tile(uint32_t to, const CUtensorMap *map, int x, int y, int z,
                                          uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void load_tile_to(uint16_t blocks, uint32_t to, const CUtensorMap *map,
                                             int x, int y, int z, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(blocks)
                 : "memory");
}

/* The same of four. */
__device__ __forceinline__ void load_tile(uint32_t to, const CUtensorMap *map, int x, int y, int z,
                                          int w, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void load_tile_to(uint16_t blocks, uint32_t to, const CUtensorMap *map,
                                             int x, int y, int z, int w, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier), "h"(blocks)
                 : "memory");
}

/* 16 bytes by this thread, of which the first `bytes` are copied and the others 0. */
__device__ __forceinline__ void load_16(uint32_t to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(bytes)
                 : "memory");
}

/* Arrives when all that this thread has had copied by load_16() is there. */
__device__ __forceinline__ void arrive_when_loaded(uint32_t barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/* What lies outside is not written. */
__device__ __forceinline__ void store_tile(const CUtensorMap *map, int x, int y, uint32_t from)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
        "r"(x), "r"(y), "r"(from)
        : "memory");
}

__device__ __forceinline__ void store_tile(const CUtensorMap *map, int x, int y, int z,
                                           uint32_t from)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
            map),
        "r"(x), "r"(y), "r"(z), "r"(from)
        : "memory");
}

/* Added to what is there, which is f32. */
__device__ __forceinline__ void add_tile(const CUtensorMap *map, int x, int y, uint32_t from)
{
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
                 "[%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"(x), "r"(y), "r"(from)
                 : "memory");
}

__device__ __forceinline__ void add_tile(const CUtensorMap *map, int x, int y, int z, uint32_t from)
{
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
                 "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(from)
                 : "memory");
}

__device__ __forceinline__ void end_stores()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until the stores that this thread has ended have read their shared memory; or have written. */
__device__ __forceinline__ void wait_for_stores_to_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ void wait_for_stores()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Ordinary stores of this thread to shared memory come before copies and products that read it. */
__device__ __forceinline__ void fence_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void store_number(uint32_t to, float a)
{
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(a) : "memory");
}

__device__ __forceinline__ void store_pair(uint32_t to, float a, float b)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(a), "f"(b) : "memory");
}

__device__ __forceinline__ void load_pair(uint32_t from, float &a, float &b)
{
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(a), "=f"(b) : "r"(from) : "memory");
}

/* Four matrices of 8 x 8 elements of 16 bits go to shared memory; lane l gives the address of row l
 * % 8 of matrix l / 8. */
__device__ __forceinline__ void store_matrices(uint32_t to, uint32_t a, uint32_t b, uint32_t c,
                                               uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

/* The same, rows and columns of each matrix exchanged. */
__device__ __forceinline__ void store_transposed(uint32_t to, uint32_t a, uint32_t b, uint32_t c,
                                                 uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

/* ---- products ---- */

/* How many registers a thread of this group of four warps has from here on. */
template <int COUNT> __device__ __forceinline__ void fewer_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> __device__ __forceinline__ void more_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

__device__ __forceinline__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void end_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until all but the last OPEN groups of products are there. */
template <int OPEN> __device__ __forceinline__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(OPEN) : "memory");
}

/* The operands of an instruction that has 128 numbers of a thread. */
#define NUMBERS_8(d, i)                                                                         \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define NUMBERS_32(d, i) \
    NUMBERS_8(d, i), NUMBERS_8(d, i + 8), NUMBERS_8(d, i + 16), NUMBERS_8(d, i + 24)

/* d = a b, or with `add` d += a b: 64 x 16 by 16 x 256 elements, given by descriptors of their
 * place in shared memory. A_ACROSS, B_ACROSS: k is not the contiguous dimension. */
#define MULTIPLY(TYPE)                                                                            \
    asm volatile("{\n"                                                                            \
                 ".reg .pred p;\n"                                                                \
                 "setp.ne.b32 p, %130, 0;\n"                                                      \
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " "                 \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "        \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "    \
                 "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "    \
                 "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, "    \
                 "%61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, "    \
                 "%76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, "    \
                 "%91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, "    \
                 "%105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, " \
                 "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "                  \
                 "%128, %129, p, 1, 1, %131, %132;\n"                                             \
                 "}"                                                                              \
                 : NUMBERS_32(d, 0), NUMBERS_32(d, 32), NUMBERS_32(d, 64), NUMBERS_32(d, 96)      \
                 : "l"(a), "l"(b), "r"(add), "n"(A_ACROSS), "n"(B_ACROSS))

template <class T, int A_ACROSS, int B_ACROSS>
__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, int add)
{
    if constexpr (std::is_same<T, bf16>::value)
        MULTIPLY("bf16");
    else
        MULTIPLY("f16");
}

#undef MULTIPLY
#undef NUMBERS_32
#undef NUMBERS_8

/* A matrix in shared memory of which 128 bytes along the contiguous dimension lie side by side,
 * 1024 bytes for 8 of them, swizzled as copies do that; `blocks`: bytes from one such column of 128
 * bytes to the next, where the matrix has several of them across k. */
__device__ __forceinline__ uint64_t descriptor_of(uint32_t address, int blocks)
{
    const uint64_t swizzled_by_128 = 1;
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(blocks >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | swizzled_by_128 << 62;
}

#endif
