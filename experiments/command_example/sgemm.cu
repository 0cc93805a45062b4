// A program of one's own: C = A B in FP32, as people keep them on disk. It has a main, makes its own data, checks itself and
// prints its time; the ladder builds it with its own command and runs it as it is (command_example.yaml).
//
//   sgemm --m=4096 --n=4096 --k=4096
//
// A block of 256 threads makes 128 x 128 of C, a thread 8 x 8 of it, over slices of 8 of K in shared memory.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#define CHECK(call)                                                                              \
    do {                                                                                         \
        const cudaError_t status = (call);                                                       \
        if (status != cudaSuccess) {                                                             \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            std::exit(2);                                                                        \
        }                                                                                        \
    } while (0)

constexpr int TILE = 128, SLICE = 8, EACH = 8, THREADS = 256;
constexpr int WARM_UP = 2, LAUNCHES = 20;

__global__ __launch_bounds__(THREADS) void sgemm_tile(const float *__restrict__ A, const float *__restrict__ B,
                                                      float *__restrict__ C, int N, int K) {
    __shared__ float a[SLICE][TILE];  // transposed, so that a thread's 8 rows lie side by side
    __shared__ float b[SLICE][TILE];
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    // 128 x 8 of A: two threads a row, a float4 each; 8 x 128 of B: 32 threads a row, a float4 each.
    const int a_row = threadIdx.x / 2, a_k = threadIdx.x % 2 * 4;
    const int b_k = threadIdx.x / 32, b_column = threadIdx.x % 32 * 4;
    float sum[EACH][EACH] = {};
    for (int k0 = 0; k0 < K; k0 += SLICE) {
        const float4 from_a = *reinterpret_cast<const float4 *>(A + static_cast<size_t>(row + a_row) * K + k0 + a_k);
        const float4 from_b =
            *reinterpret_cast<const float4 *>(B + static_cast<size_t>(k0 + b_k) * N + column + b_column);
        __syncthreads();  // the slice before has been read
        a[a_k][a_row] = from_a.x;
        a[a_k + 1][a_row] = from_a.y;
        a[a_k + 2][a_row] = from_a.z;
        a[a_k + 3][a_row] = from_a.w;
        *reinterpret_cast<float4 *>(&b[b_k][b_column]) = from_b;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SLICE; ++k) {
            float left[EACH], right[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i += 4) {
                *reinterpret_cast<float4 *>(left + i) = *reinterpret_cast<const float4 *>(&a[k][ty * EACH + i]);
                *reinterpret_cast<float4 *>(right + i) = *reinterpret_cast<const float4 *>(&b[k][tx * 4 + i * 16]);
            }
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
#pragma unroll
                for (int j = 0; j < EACH; ++j) {
                    sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
                }
            }
        }
    }
    for (int i = 0; i < EACH; ++i) {
        float *out = C + static_cast<size_t>(row + ty * EACH + i) * N + column + tx * 4;
        *reinterpret_cast<float4 *>(out) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
        *reinterpret_cast<float4 *>(out + 64) = make_float4(sum[i][4], sum[i][5], sum[i][6], sum[i][7]);
    }
}

static int number(int argc, char **argv, const char *start, int otherwise) {
    for (int i = 1; i < argc; ++i) {
        if (std::strncmp(argv[i], start, std::strlen(start)) == 0) {
            return std::atoi(argv[i] + std::strlen(start));
        }
    }
    return otherwise;
}

int main(int argc, char **argv) {
    const int M = number(argc, argv, "--m=", 4096), N = number(argc, argv, "--n=", 4096);
    const int K = number(argc, argv, "--k=", 4096);
    if (M < TILE || N < TILE || K < SLICE || M % TILE || N % TILE || K % SLICE) {
        std::fprintf(stderr, "sgemm: M and N must be multiples of %d, K of %d\n", TILE, SLICE);
        return 2;
    }
    std::vector<float> a(static_cast<size_t>(M) * K), b(static_cast<size_t>(K) * N), c(static_cast<size_t>(M) * N);
    std::minstd_rand random(1);
    std::uniform_real_distribution<float> draw(-1.0f, 1.0f);
    for (float &value : a) {
        value = draw(random);
    }
    for (float &value : b) {
        value = draw(random);
    }
    float *A, *B, *C;
    CHECK(cudaMalloc(&A, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&B, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&C, c.size() * sizeof(float)));
    CHECK(cudaMemcpy(A, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(B, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(C, 0xff, c.size() * sizeof(float)));  // NaN

    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    const dim3 grid(N / TILE, M / TILE);
    for (int i = 0; i < WARM_UP + LAUNCHES; ++i) {
        if (i == WARM_UP) {
            CHECK(cudaEventRecord(begin));
        }
        sgemm_tile<<<grid, THREADS>>>(A, B, C, N, K);
    }
    CHECK(cudaEventRecord(end));
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    float ms = 0.0f;
    CHECK(cudaEventElapsedTime(&ms, begin, end));

    CHECK(cudaMemcpy(c.data(), C, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int sample = 0; sample < 500; ++sample) {  // places in all tiles and all parts of a tile
        const int i = static_cast<int>(sample * 7919LL % M), j = static_cast<int>(sample * 104729LL % N);
        double sum = 0.0, size = 0.0;
        for (int k = 0; k < K; ++k) {
            const double product =
                static_cast<double>(a[static_cast<size_t>(i) * K + k]) * b[static_cast<size_t>(k) * N + j];
            sum += product;
            size += std::fabs(product);
        }
        const double error = std::fabs(c[static_cast<size_t>(i) * N + j] - sum);
        if (!(error <= 8.0 * std::sqrt(static_cast<double>(K)) * std::ldexp(1.0, -24) * size)) {
            std::fprintf(stderr, "C[%d, %d] is %g instead of %g\n", i, j, c[static_cast<size_t>(i) * N + j], sum);
            return 1;
        }
    }
    std::printf("%d x %d x %d: avg %.6f ms\n", M, N, K, ms / LAUNCHES);
    return 0;
}
