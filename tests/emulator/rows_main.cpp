// Runs a kernel over rows under rows.hpp and holds it against sums in double. Arguments: pairs of T and N. A guard of NaN
// lies behind x, w and b, and one of 77 behind y: who reads or writes too far is seen. Of several launches with one plan
// (LAUNCHES) the last is looked at: what one leaves must do for the next.
#include "kernel.hpp"

#include <string>

#ifndef LAUNCHES
#define LAUNCHES 1
#endif
#ifdef NORM
constexpr bool kNorm = true;
#else
constexpr bool kNorm = false;
#endif
constexpr bool kHalf = sizeof(Element) == 2;
constexpr double kUnit = kHalf ? 0x1p-8 : 0.0;

static Element from_double(double value) { return ladder::from_float<Element>(static_cast<float>(value)); }
static double to_double(Element value) { return ladder::to_float(value); }

static int run(int64_t T, int64_t N) {
    const int64_t kGuard = 4096;
    std::vector<Element> x(T * N + kGuard, from_double(NAN)), w(N + kGuard, from_double(NAN)), b = w;
    std::vector<Element> y(T * N + kGuard, from_double(77.0));
    unsigned state = 12345;
    const auto draw = [&] { return ((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-23 - 1.0; };
    for (int64_t i = 0; i < T * N; ++i) x[i] = from_double(draw() + (kNorm ? 3.0 : 0.0) * (i / N % 3));
    for (int64_t i = 0; i < N; ++i) w[i] = from_double(1.0 + draw() / 4), b[i] = from_double(draw());
    Args args{};
    args.x = x.data(), args.y = y.data(), args.T = T, args.N = N;
#ifdef NORM
    args.w = w.data(), args.eps = 1e-5f;
#if NORM > 1
    args.b = b.data();
#endif
#endif
    void *plan = nullptr;
    if (prepare(&args, &plan) != cudaSuccess) return 2;
    for (int i = 0; i < LAUNCHES; ++i) {
        for (Element &value : y) value = from_double(77.0);
        if (launch(&args, plan, nullptr) != cudaSuccess) return 2;
    }
    destroy(plan);
    double worst = 0.0;
    for (int64_t t = 0; t < T; ++t) {
        const Element *row = x.data() + t * N;
        double mean = 0.0, squares = 0.0, largest = -INFINITY, sum = 0.0;
        for (int64_t i = 0; i < N; ++i) mean += to_double(row[i]) / N, largest = std::fmax(largest, to_double(row[i]));
#if !defined NORM || NORM < 2
        mean = 0.0;
#endif
        for (int64_t i = 0; i < N; ++i) {
            squares += (to_double(row[i]) - mean) * (to_double(row[i]) - mean);
            sum += std::exp(to_double(row[i]) - largest);
        }
        for (int64_t i = 0; i < N; ++i) {
            double right = std::exp(to_double(row[i]) - largest) / sum;
            if (kNorm) right = (to_double(row[i]) - mean) / std::sqrt(squares / N + 1e-5) * to_double(w[i]);
#if defined NORM && NORM > 1
            right += to_double(b[i]);
#endif
            const double found = to_double(y[t * N + i]), scale = kNorm ? std::fabs(right) + 1.0 : right;
            const double error = std::fmax(std::fabs(found - right) - kUnit * std::fabs(right), 0.0) / scale;
            if (!(error <= worst)) worst = error;
        }
    }
    for (int64_t i = T * N; i < T * N + kGuard; ++i)
        if (to_double(y[i]) != to_double(from_double(77.0))) worst = INFINITY;
    if (worst <= 4e-6) return 0;
    std::printf("T=%lld,N=%lld: error %g\n", static_cast<long long>(T), static_cast<long long>(N), worst);
    return 1;
}

int main(int argc, char **argv) {
    int failed = 0;
    for (int i = 1; i + 1 < argc; i += 2) failed |= run(std::stoll(argv[i]), std::stoll(argv[i + 1]));
    return failed;
}
