// Runs a mean filter under warps.hpp and holds it against sums in double. Arguments: triples of H, W and R. Guards of NaN lie
// around x and of 77 around y; an infinity in x must be in no other window than its own.
#include "kernel.hpp"

static int run(int64_t H, int64_t W, int64_t R, bool infinity) {
    const int64_t kGuard = 1024;
    std::vector<float> x(H * W + 2 * kGuard, NAN), y(H * W + 2 * kGuard, 77.0f);
    unsigned state = 12345;
    for (int64_t i = 0; i < H * W; ++i) x[kGuard + i] = ((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f + 1;
    const int64_t odd = H * W / 3;
    if (infinity) x[kGuard + odd] = INFINITY;
    Args args{x.data() + kGuard, y.data() + kGuard, H, W, R};
    emu::readable = reinterpret_cast<const char *>(args.x);
    emu::readable_end = reinterpret_cast<const char *>(args.x + H * W);
    emu::copies.clear();
    void *plan = nullptr;
    if (prepare(&args, &plan) != cudaSuccess || launch(&args, plan, nullptr) != cudaSuccess) return 2;
    destroy(plan);
    double worst = 0.0;
    for (int64_t i = 0; i < H; ++i)
        for (int64_t j = 0; j < W; ++j) {
            double sum = 0.0;
            int64_t count = 0;
            for (int64_t a = std::max<int64_t>(i - R, 0); a <= std::min(i + R, H - 1); ++a)
                for (int64_t b = std::max<int64_t>(j - R, 0); b <= std::min(j + R, W - 1); ++b)
                    sum += args.x[a * W + b], ++count;
            const double found = args.y[i * W + j], right = sum / count;
            if (found == right) continue;
            const double error = std::fabs(found / right - 1.0);
            if (!(error <= worst)) worst = error;
        }
    for (int64_t i = 0; i < kGuard; ++i)
        if (y[i] != 77.0f || y[kGuard + H * W + i] != 77.0f) worst = INFINITY;
    if (worst <= 2e-6) return 0;
    std::printf("H=%lld,W=%lld,R=%lld: error %g\n", (long long)H, (long long)W, (long long)R, worst);
    return 1;
}

int main(int argc, char **argv) {
    int failed = 0;
    for (int i = 1; i + 2 < argc; i += 3)
        for (const bool infinity : {false, true})
            failed |= run(std::atoll(argv[i]), std::atoll(argv[i + 1]), std::atoll(argv[i + 2]), infinity);
    return failed;
}
