// Runs a transposition, or the sums of rows of small whole numbers, under rows.hpp: both are exact. Arguments: pairs of M and
// N. NaN stands behind what is read and 77 behind what is written.
#include "kernel.hpp"

#include <string>

static float *on_16_bytes(std::vector<float> &values) {
    return reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(values.data()) + 15) / 16 * 16);
}

static bool run(int64_t M, int64_t N) {
    const int64_t outputs = kRows ? M : M * N;
    std::vector<float> input(M * N + 68, NAN), output(outputs + 68, 77.0f);
    float *from = on_16_bytes(input), *to = on_16_bytes(output);
    for (int64_t i = 0; i < M * N; ++i) from[i] = static_cast<float>(kRows ? i * 7919 % 13 - 5 : i);
    const Args args{from, to, M, N};
    if (launch(&args, nullptr, nullptr) != cudaSuccess) return false;
    bool right = true;
    for (int64_t m = 0; m < M; ++m) {
        float sum = 0.0f;
        for (int64_t n = 0; n < N; ++n) {
            sum += from[m * N + n];
            if (!kRows) right &= to[n * M + m] == from[m * N + n];
        }
        if (kRows) right &= to[m] == sum;
    }
    for (int64_t i = outputs; i < outputs + 64; ++i) right &= to[i] == 77.0f;
    if (!right) std::printf("M=%lld,N=%lld is wrong\n", static_cast<long long>(M), static_cast<long long>(N));
    return right;
}

int main(int argc, char **argv) {
    bool right = true;
    for (int i = 1; i + 1 < argc; i += 2) right &= run(std::stoll(argv[i]), std::stoll(argv[i + 1]));
    return right ? 0 : 1;
}
