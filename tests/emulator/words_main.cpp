// Runs the kernel of kernel.hpp: main M N K KIND. KIND integers: C must be exact; reals: within ERROR of |A| |B|.
// Exit code 0: right; 1: wrong.
#include "kernel.hpp"

int main(int count, char **words) {
    if (count != 5) return 2;
    const int64_t M = std::atoi(words[1]), N = std::atoi(words[2]), K = std::atoi(words[3]);
    const bool integers = words[4][0] == 'i';
    uint32_t state = 1;
    const auto next = [&] {
        state = state * 1664525u + 1013904223u;
        return integers ? static_cast<float>(static_cast<int>(state >> 28) - 8) : (state >> 7) * 0x1p-24f - 1.0f;
    };
    // C with a margin, all of it aligned as an allocation of CUDA is.
    std::vector<float4> a(M * K / 4 + 1), b(K * N / 4 + 1), c(M * N / 4 + 16);
    float *A = &a[0].x, *B = &b[0].x, *C = &c[0].x;
    for (int64_t i = 0; i < M * K; ++i) A[i] = next();
    for (int64_t i = 0; i < K * N; ++i) B[i] = next();
    const float poison = __uint_as_float(0x7fc00123);
    for (int64_t i = 0; i < M * N + 32; ++i) C[i] = poison;

    const Args args{A, B, C, M, N, K};
    void *plan = nullptr;
    if (prepare(&args, &plan) != cudaSuccess || launch(&args, plan, nullptr) != cudaSuccess) return 2;
    destroy(plan);

    double worst = 0;
    for (int64_t m = 0; m < M; ++m)
        for (int64_t n = 0; n < N; ++n) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < K; ++k) {
#ifdef GEMM_LAYOUT_NT
                const double product = double{A[m * K + k]} * B[n * K + k];
#else
                const double product = double{A[m * K + k]} * B[k * N + n];
#endif
                sum += product, size += std::fabs(product);
            }
            const double error = size == 0 ? std::fabs(C[m * N + n] - sum) : std::fabs(C[m * N + n] - sum) / size;
            if (!(error <= (integers ? 0.0 : ERROR))) return std::printf("C[%ld][%ld] is wrong\n", long(m), long(n)), 1;
            worst = error > worst ? error : worst;
        }
    for (int i = 0; i < 32; ++i)
        if (__float_as_uint(C[M * N + i]) != 0x7fc00123) return std::puts("written behind the end"), 1;
    std::printf("largest error %.3g x 2^-24\n", worst * 0x1p24);
}
