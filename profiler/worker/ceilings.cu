// Small kernels whose rate is known by construction: what this card, in this state, gives to code that does nothing else.
// Each is launched by ceilings.py, which counts its bytes or operations from the launch parameters; the loops below and
// the constants there belong together, and a test counts the instructions of the compiled loops.
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>

// What one launch is given. The same for all kernels; each reads what it needs.
struct Work {
    void *out;
    const void *in;
    size_t bytes;
    unsigned *sink;  // written under a condition that never holds, so that results count as used
    int blocks;
    int threads;
    int rounds;
};

namespace {

constexpr unsigned NEVER = 0x9e3779b9u;

__device__ unsigned scrambled(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

// Two BF16 numbers of random sign and mantissa, between 1 and 2 in size: operands that switch bits as real ones do.
__device__ uint32_t two_bf16(unsigned seed) { return (scrambled(seed) & 0x807f807fu) | 0x3f803f80u; }

// The same as one TF32 number: of 23 bits behind the point 10 count.
__device__ uint32_t one_tf32(unsigned seed) { return (scrambled(seed) & 0x807fe000u) | 0x3f800000u; }

__device__ uint4 load_streaming(const uint4 *address) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address));
    return v;
}

// ---- copy: DRAM, read and written ----------------------------------------------------------------------------------
// Proves what a kernel that reads each byte once and writes as many can move. The buffers are several times L2, so every
// byte comes from DRAM, and all but the last L2-full goes back to it inside the launch. One 16-byte element a thread and
// plain accesses: on an H200 that moves 4.25 TB/s (cudaMemcpyAsync: 4.22), four elements a thread 3.83, past L1 4.16, bulk
// copies through shared memory 3.91. Reads and writes that follow each other closely keep DRAM's open pages.
__global__ void copy_kernel(uint4 *out, const uint4 *in) {
    size_t at = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    out[at] = in[at];
}

// ---- read: DRAM, read only -----------------------------------------------------------------------------------------
// Proves what a reduction can read. DRAM turns around between reading and writing; without writes it is faster.
constexpr int READ_LOADS = 8;

__global__ void read_kernel(const uint4 *in, unsigned *sink) {
    size_t first = blockIdx.x * size_t(blockDim.x) * READ_LOADS + threadIdx.x;
    uint4 v[READ_LOADS];
#pragma unroll
    for (int j = 0; j < READ_LOADS; ++j) v[j] = load_streaming(in + first + j * blockDim.x);
    unsigned sum = 0;
#pragma unroll
    for (int j = 0; j < READ_LOADS; ++j) sum += v[j].x + v[j].y + v[j].z + v[j].w;
    if (sum == NEVER) *sink = sum;
}

// ---- l2_read: L2 to the multiprocessors ----------------------------------------------------------------------------
// Proves what L2 hands out when it always hits: a power of two of bytes well inside L2 is read over and over, past L1.
constexpr int L2_LOADS = 8;

__global__ void l2_read_kernel(const uint4 *in, unsigned mask, int rounds, unsigned *sink) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x, sum = 0;
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
        uint4 v[L2_LOADS];
#pragma unroll
        for (int j = 0; j < L2_LOADS; ++j) {
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w)
                         : "l"(in + (at & mask)));
            at += step;
        }
#pragma unroll
        for (int j = 0; j < L2_LOADS; ++j) sum += v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
    }
    if (sum == NEVER) *sink = sum;
}

// ---- shared_read: shared memory to registers -----------------------------------------------------------------------
// Proves what 16-byte loads without bank conflicts reach: a warp reads 512 neighbouring bytes, four wavefronts of 128.
constexpr int SHARED_LOADS = 8;
constexpr unsigned SHARED_WINDOW = 16384, SHARED_STEP = 4096;

__global__ void __launch_bounds__(1024) shared_read_kernel(int rounds, unsigned *sink) {
    __shared__ uint4 data[(SHARED_WINDOW + (SHARED_LOADS - 1) * SHARED_STEP) / sizeof(uint4)];
    for (unsigned i = threadIdx.x; i < sizeof(data) / sizeof(uint4); i += blockDim.x)
        data[i] = make_uint4(scrambled(i), scrambled(i + 1), scrambled(i + 2), scrambled(i + 3));
    __syncthreads();
    unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(data));
    unsigned offset = threadIdx.x * 16 % SHARED_WINDOW, sum = 0;
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
        uint4 v[SHARED_LOADS];
#pragma unroll
        for (int j = 0; j < SHARED_LOADS; ++j)
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w)
                         : "r"(base + offset + j * SHARED_STEP));
#pragma unroll
        for (int j = 0; j < SHARED_LOADS; ++j) sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
        offset = (offset + 512) % SHARED_WINDOW;  // another address each round, so that no load can be reused
    }
    if (sum == NEVER) *sink = sum;
}

// ---- ffma: FP32 multiply-adds --------------------------------------------------------------------------------------
// Proves what the FP32 pipes do on registers: 16 chains a thread hide the latency, and an operand used twice keeps the
// three reads of an FFMA on two register banks.
constexpr int FFMA_CHAINS = 16, FFMA_UNROLL = 8;

__global__ void __launch_bounds__(512) ffma_kernel(float scale, int rounds, unsigned *sink) {
    float a = scale * (1 + threadIdx.x), acc[FFMA_CHAINS];
#pragma unroll
    for (int j = 0; j < FFMA_CHAINS; ++j) acc[j] = 1.0f + 0.01f * j;
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int u = 0; u < FFMA_UNROLL; ++u)
#pragma unroll
            for (int j = 0; j < FFMA_CHAINS; ++j) acc[j] = fmaf(acc[j], a, acc[j]);
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < FFMA_CHAINS; ++j) sum += acc[j];
    if (__float_as_uint(sum) == NEVER) *sink = 1;
}

// ---- mma: mma.sync m16n8k16, BF16 into FP32 ------------------------------------------------------------------------
// Proves what the tensor pipe does for mma.sync on registers: eight independent tiles a warp, operands never reloaded.
constexpr int MMA_ROWS = 2, MMA_COLUMNS = 4, MMA_UNROLL = 4;

__global__ void __launch_bounds__(256) mma_kernel(int rounds, unsigned *sink) {
#if __CUDA_ARCH__ >= 800
    uint32_t a[MMA_ROWS][4], b[MMA_COLUMNS][2];
    float c[MMA_ROWS][MMA_COLUMNS][4] = {};
    unsigned seed = (blockIdx.x * blockDim.x + threadIdx.x) * 16;
#pragma unroll
    for (int i = 0; i < MMA_ROWS * 4; ++i) a[i / 4][i % 4] = two_bf16(seed + i);
#pragma unroll
    for (int i = 0; i < MMA_COLUMNS * 2; ++i) b[i / 2][i % 2] = two_bf16(seed + 8 + i);
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int t = 0; t < MMA_UNROLL * MMA_ROWS * MMA_COLUMNS; ++t) {
            int m = t / MMA_COLUMNS % MMA_ROWS, n = t % MMA_COLUMNS;
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(c[m][n][0]), "+f"(c[m][n][1]), "+f"(c[m][n][2]), "+f"(c[m][n][3])
                : "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b[n][0]), "r"(b[n][1]));
        }
    }
    float sum = 0;
#pragma unroll
    for (int t = 0; t < MMA_ROWS * MMA_COLUMNS * 4; ++t) sum += c[t / 16][t / 4 % 4][t % 4];
    if (__float_as_uint(sum) == NEVER) *sink = 1;
#endif
}

// The same for TF32, m16n8k8: half the operations of an instruction.
__global__ void __launch_bounds__(256) mma_tf32_kernel(int rounds, unsigned *sink) {
#if __CUDA_ARCH__ >= 800
    uint32_t a[MMA_ROWS][4], b[MMA_COLUMNS][2];
    float c[MMA_ROWS][MMA_COLUMNS][4] = {};
    unsigned seed = (blockIdx.x * blockDim.x + threadIdx.x) * 16;
#pragma unroll
    for (int i = 0; i < MMA_ROWS * 4; ++i) a[i / 4][i % 4] = one_tf32(seed + i);
#pragma unroll
    for (int i = 0; i < MMA_COLUMNS * 2; ++i) b[i / 2][i % 2] = one_tf32(seed + 8 + i);
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int t = 0; t < MMA_UNROLL * MMA_ROWS * MMA_COLUMNS; ++t) {
            int m = t / MMA_COLUMNS % MMA_ROWS, n = t % MMA_COLUMNS;
            asm volatile(
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(c[m][n][0]), "+f"(c[m][n][1]), "+f"(c[m][n][2]), "+f"(c[m][n][3])
                : "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b[n][0]), "r"(b[n][1]));
        }
    }
    float sum = 0;
#pragma unroll
    for (int t = 0; t < MMA_ROWS * MMA_COLUMNS * 4; ++t) sum += c[t / 16][t / 4 % 4][t % 4];
    if (__float_as_uint(sum) == NEVER) *sink = 1;
#endif
}

// ---- wgmma: wgmma m64n256k16, BF16 into FP32 -----------------------------------------------------------------------
// Proves what the tensor pipe does for wgmma with both operands in shared memory and nothing else to do: no copies, no
// barriers. Two blocks a multiprocessor, one warpgroup each, so that one works while the other drains.

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr int WGMMA_SLICES = 4, WGMMA_UNROLL = 4;  // k16 slices of a 128-byte row; passes over them a round

// Operand tile with rows of 128 bytes in the 128-byte swizzle: eight rows are 1024 bytes.
__device__ uint64_t descriptor(const void *tile) {
    uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(tile)) >> 4;
    return (address & 0x3fff) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

// clang-format off
#define WGMMA_M64N256(INSTRUCTION, TRANSPOSED) \
    asm volatile("wgmma.mma_async.sync.aligned." INSTRUCTION " "                                                        \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                              \
                 " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                    \
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                    \
                 " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                    \
                 " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                    \
                 " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                    \
                 " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "        \
                 " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "   \
                 "%128, %129, 1, 1, 1" TRANSPOSED ";"                                                                   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),      \
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
                   "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
                   "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
                   "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
                   "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), \
                   "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
                   "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), \
                   "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
                   "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), \
                   "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), \
                   "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), \
                   "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
                   "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127]) \
                 : "l"(a), "l"(b))
// clang-format on

__device__ void wgmma_m64n256k16(float (&d)[128], uint64_t a, uint64_t b) {
    WGMMA_M64N256("m64n256k16.f32.bf16.bf16", ", 0, 0");
}

// TF32 has no transposed operands, and no flags for them.
__device__ void wgmma_m64n256k8(float (&d)[128], uint64_t a, uint64_t b) {
    WGMMA_M64N256("m64n256k8.f32.tf32.tf32", "");
}
#endif

__global__ void __launch_bounds__(128) wgmma_kernel(int rounds, unsigned *sink) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ __align__(1024) uint32_t a[64 * 32];
    __shared__ __align__(1024) uint32_t b[256 * 32];
    for (int i = threadIdx.x; i < 64 * 32; i += blockDim.x) a[i] = two_bf16(blockIdx.x * 131071 + i);
    for (int i = threadIdx.x; i < 256 * 32; i += blockDim.x) b[i] = two_bf16(blockIdx.x * 524287 + 7919 + i);
    __syncthreads();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads through the async proxy
    __syncthreads();
    float d[128] = {};
    uint64_t from_a = descriptor(a), from_b = descriptor(b);
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int t = 0; t < WGMMA_UNROLL * WGMMA_SLICES; ++t)
            wgmma_m64n256k16(d, from_a + 2 * (t % WGMMA_SLICES), from_b + 2 * (t % WGMMA_SLICES));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 128; ++j) sum += d[j];
    if (__float_as_uint(sum) == NEVER) *sink = 1;
#endif
}

// The same for TF32: 32 values of k in a row of 128 bytes, 8 in a product.
__global__ void __launch_bounds__(128) wgmma_tf32_kernel(int rounds, unsigned *sink) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ __align__(1024) uint32_t a[64 * 32];
    __shared__ __align__(1024) uint32_t b[256 * 32];
    for (int i = threadIdx.x; i < 64 * 32; i += blockDim.x) a[i] = one_tf32(blockIdx.x * 131071 + i);
    for (int i = threadIdx.x; i < 256 * 32; i += blockDim.x) b[i] = one_tf32(blockIdx.x * 524287 + 7919 + i);
    __syncthreads();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads through the async proxy
    __syncthreads();
    float d[128] = {};
    uint64_t from_a = descriptor(a), from_b = descriptor(b);
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int t = 0; t < WGMMA_UNROLL * WGMMA_SLICES; ++t)
            wgmma_m64n256k8(d, from_a + 2 * (t % WGMMA_SLICES), from_b + 2 * (t % WGMMA_SLICES));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 128; ++j) sum += d[j];
    if (__float_as_uint(sum) == NEVER) *sink = 1;
#endif
}

int major_capability() {
    int device = 0, major = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    return major;
}

}  // namespace

#define KL_EXPORT extern "C" __attribute__((visibility("default"))) int

KL_EXPORT kl_copy(cudaStream_t stream, const Work *w) {
    copy_kernel<<<w->blocks, w->threads, 0, stream>>>(static_cast<uint4 *>(w->out), static_cast<const uint4 *>(w->in));
    return cudaGetLastError();
}

KL_EXPORT kl_read(cudaStream_t stream, const Work *w) {
    read_kernel<<<w->blocks, w->threads, 0, stream>>>(static_cast<const uint4 *>(w->in), w->sink);
    return cudaGetLastError();
}

KL_EXPORT kl_l2_read(cudaStream_t stream, const Work *w) {
    l2_read_kernel<<<w->blocks, w->threads, 0, stream>>>(static_cast<const uint4 *>(w->in),
                                                         unsigned(w->bytes / sizeof(uint4)) - 1, w->rounds, w->sink);
    return cudaGetLastError();
}

KL_EXPORT kl_shared_read(cudaStream_t stream, const Work *w) {
    shared_read_kernel<<<w->blocks, w->threads, 0, stream>>>(w->rounds, w->sink);
    return cudaGetLastError();
}

KL_EXPORT kl_ffma(cudaStream_t stream, const Work *w) {
    ffma_kernel<<<w->blocks, w->threads, 0, stream>>>(1e-12f, w->rounds, w->sink);
    return cudaGetLastError();
}

KL_EXPORT kl_mma(cudaStream_t stream, const Work *w) {
    if (major_capability() < 8) return cudaErrorNotSupported;
    mma_kernel<<<w->blocks, w->threads, 0, stream>>>(w->rounds, w->sink);
    return cudaGetLastError();
}

KL_EXPORT kl_wgmma(cudaStream_t stream, const Work *w) {
    if (major_capability() != 9) return cudaErrorNotSupported;  // later chips have another instruction
    wgmma_kernel<<<w->blocks, w->threads, 0, stream>>>(w->rounds, w->sink);
    return cudaGetLastError();
}

KL_EXPORT kl_mma_tf32(cudaStream_t stream, const Work *w) {
    if (major_capability() < 8) return cudaErrorNotSupported;
    mma_tf32_kernel<<<w->blocks, w->threads, 0, stream>>>(w->rounds, w->sink);
    return cudaGetLastError();
}

KL_EXPORT kl_wgmma_tf32(cudaStream_t stream, const Work *w) {
    if (major_capability() != 9) return cudaErrorNotSupported;  // later chips have another instruction
    wgmma_tf32_kernel<<<w->blocks, w->threads, 0, stream>>>(w->rounds, w->sink);
    return cudaGetLastError();
}
