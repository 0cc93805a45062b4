// What the host programs of this folder share: arguments, a step of work with a known answer, and wall times.
//
// The work is a xorshift generator on 32-bit words: a chain of dependent integer operations that no compiler shortens,
// whose length sets how long a kernel takes, and whose result the host computes again, exactly.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call)                                                                              \
    do {                                                                                         \
        const cudaError_t status = (call);                                                       \
        if (status != cudaSuccess) {                                                             \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            std::exit(2);                                                                        \
        }                                                                                        \
    } while (0)

// The value of --name=..., or what stands for it where it is not given.
inline std::string argument(int argc, char **argv, const char *name, const char *otherwise) {
    const std::string start = std::string("--") + name + "=";
    for (int i = 1; i < argc; ++i) {
        if (std::strncmp(argv[i], start.c_str(), start.size()) == 0) {
            return argv[i] + start.size();
        }
    }
    return otherwise;
}

inline long number(int argc, char **argv, const char *name, long otherwise) {
    return std::stol(argument(argc, argv, name, std::to_string(otherwise).c_str()));
}

__host__ __device__ inline uint32_t xorshift(uint32_t x, int rounds) {
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int i = 0; i < rounds; ++i) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    return x;
}

// A first word for each place; never 0, where xorshift stands still.
__host__ __device__ inline uint32_t first_word(uint64_t place) {
    return static_cast<uint32_t>(place * 2654435761u) | 1u;
}

// Microseconds by the host's clock, from an idle device to an idle device.
inline double wall_us(const std::function<void()> &work) {
    CHECK(cudaDeviceSynchronize());
    const auto began = std::chrono::steady_clock::now();
    work();
    CHECK(cudaDeviceSynchronize());
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
}

inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

// The median of so many timed repetitions, after 150 ms of the same work: clocks are up by then.
inline double settled_us(const std::function<void()> &work, int repetitions) {
    for (double spent = 0.0; spent < 150e3;) {
        spent += wall_us(work);
    }
    std::vector<double> times;
    for (int i = 0; i < repetitions; ++i) {
        times.push_back(wall_us(work));
    }
    return median(times);
}

inline void wrong(const char *what, uint64_t place, uint32_t got, uint32_t expected) {
    std::fprintf(stderr, "%s is wrong at %llu: %u instead of %u\n", what, static_cast<unsigned long long>(place), got,
                 expected);
    std::exit(1);
}
