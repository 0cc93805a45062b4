// Runs TopK under warps.hpp, twice with the same workspace, and holds it against a sort. Arguments: a distribution, then
// triples of B, N and K.
#include "kernel.hpp"

#include <string>

static uint32_t key(float value) {  // NaN is the largest, -0 is +0
    if (value != value) return ~0u;
    const uint32_t bits = __float_as_uint(value == 0.0f ? 0.0f : value);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static int run(const std::string &kind, int64_t B, int64_t N, int64_t K) {
    std::vector<float> x(B * N);
    std::mt19937 draw(7);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < B * N; ++i) {
        const int64_t n = i % N;
        x[i] = kind == "ascending" ? n : kind == "descending" ? -n : kind == "equal" ? 2.5f : normal(draw);
        if (kind == "ties") x[i] = std::round(x[i] * 2) / 2;
        if (kind == "nan") x[i] = NAN;
        if (kind == "least") x[i] = -INFINITY;
        if (kind == "special" && draw() % 50 == 0) {
            const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, -NAN};
            x[i] = odd[draw() % 6];
        }
    }
    std::vector<float> values(B * K);
    std::vector<int64_t> indices(B * K);
    Args args{x.data(), values.data(), indices.data(), B, N, K, nullptr, 0};
    emu::readable = reinterpret_cast<const char *>(x.data());
    emu::readable_end = reinterpret_cast<const char *>(x.data() + B * N);
    std::vector<uint64_t> workspace(workspace_bytes(&args) / 8 + 1, ~uint64_t{0});
    args.workspace = workspace.data();
    void *plan = nullptr;
    if (prepare(&args, &plan) != cudaSuccess) return 2;
    int failed = 0;
    for (int time = 0; time < 2; ++time) {
        std::fill(indices.begin(), indices.end(), -1);
        if (launch(&args, plan, nullptr) != cudaSuccess) return 2;
        for (int64_t b = 0; b < B; ++b) {
            std::vector<uint32_t> right;
            for (int64_t n = 0; n < N; ++n) right.push_back(key(x[b * N + n]));
            std::sort(right.rbegin(), right.rend());
            std::vector<int64_t> seen(indices.begin() + b * K, indices.begin() + (b + 1) * K);
            for (int64_t k = 0; k < K; ++k) {
                const int64_t at = seen[k];
                failed |= at < 0 || at >= N || key(x[b * N + at]) != right[k] || key(values[b * K + k]) != right[k];
            }
            std::sort(seen.begin(), seen.end());
            failed |= std::unique(seen.begin(), seen.end()) != seen.end();
        }
        if (failed) {
            std::printf("%s B=%lld,N=%lld,K=%lld: wrong in launch %d\n", kind.c_str(), (long long)B, (long long)N,
                        (long long)K, time);
            break;
        }
    }
    destroy(plan);
    return failed;
}

int main(int argc, char **argv) {
    int failed = 0;
    for (int i = 2; i + 2 < argc; i += 3)
        failed |= run(argv[1], std::atoll(argv[i]), std::atoll(argv[i + 1]), std::atoll(argv[i + 2]));
    return failed;
}
