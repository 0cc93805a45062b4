// Small kernels beside one another: K kernels of one block each, every one so long, and a GPU with room for all.
//
//   concurrency --how=streams --streams=32 --kernels=64 --ns=50000
//
// --how=one does the work in one kernel of K blocks: the ideal. --how=streams hands the K kernels to streams by turns;
// --between=8 puts every eighth into the legacy default stream, which waits for all blocking streams and holds them up;
// --blocking=0 makes the others non-blocking, which it leaves alone. --how=graph forks and joins them inside a CUDA graph.
#include "common.cuh"

constexpr int THREADS = 128;

__global__ void small(uint32_t *words, int rounds) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    words[i] = xorshift(words[i], rounds);
}

struct Work {
    int kernels, rounds, between;
    uint32_t *words;
    std::vector<cudaStream_t> streams;
};

static void one(const Work &work) { small<<<work.kernels, THREADS, 0, work.streams[0]>>>(work.words, work.rounds); }

static void spread(const Work &work) {
    for (int k = 0; k < work.kernels; ++k) {
        const bool legacy = work.between > 0 && k % work.between == work.between - 1;
        const cudaStream_t stream = legacy ? cudaStreamLegacy : work.streams[k % work.streams.size()];
        small<<<1, THREADS, 0, stream>>>(work.words + static_cast<size_t>(k) * THREADS, work.rounds);
    }
}

static cudaGraphExec_t forked(const Work &work) {
    cudaGraph_t graph;
    cudaGraphExec_t made;
    CHECK(cudaGraphCreate(&graph, 0));
    for (int k = 0; k < work.kernels; ++k) {
        uint32_t *words = work.words + static_cast<size_t>(k) * THREADS;
        int rounds = work.rounds;
        void *arguments[] = {&words, &rounds};
        cudaKernelNodeParams node{};
        node.func = reinterpret_cast<void *>(small);
        node.gridDim = 1;
        node.blockDim = THREADS;
        node.kernelParams = arguments;
        cudaGraphNode_t added;
        CHECK(cudaGraphAddKernelNode(&added, graph, nullptr, 0, &node));
    }
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    CHECK(cudaGraphUpload(made, work.streams[0]));
    CHECK(cudaGraphDestroy(graph));
    return made;
}

int main(int argc, char **argv) {
    const std::string how = argument(argc, argv, "how", "streams");
    const long ns = number(argc, argv, "ns", 50000), streams = number(argc, argv, "streams", 1);
    const bool blocking = number(argc, argv, "blocking", 1) != 0;
    Work work{};
    work.kernels = static_cast<int>(number(argc, argv, "kernels", 64));
    work.between = static_cast<int>(number(argc, argv, "between", 0));
    if (streams < 1 || streams > 128 || work.kernels < 1) {
        std::fprintf(stderr, "--streams: 1 to 128; --kernels: at least 1\n");
        return 2;
    }
    for (long s = 0; s < streams; ++s) {
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
        work.streams.push_back(stream);
    }
    const size_t count = static_cast<size_t>(work.kernels) * THREADS;
    std::vector<uint32_t> words(count), found(count);
    for (size_t i = 0; i < count; ++i) {
        words[i] = first_word(i);
    }
    CHECK(cudaMalloc(&work.words, count * sizeof(uint32_t)));
    const auto restore = [&] {
        CHECK(cudaMemcpy(work.words, words.data(), count * sizeof(uint32_t), cudaMemcpyHostToDevice));
    };
    restore();

    // What one kernel takes beyond an empty one sets the rounds; twice, for at first the clock is still low.
    work.rounds = 0;
    const double empty = settled_us([&] { one(work); }, 21);
    work.rounds = 20000;
    for (int again = 0; again < 2; ++again) {
        const double each = std::max(settled_us([&] { one(work); }, 9) - empty, 1.0);
        work.rounds = std::max(1, static_cast<int>(work.rounds * (ns * 1e-3) / each + 0.5));
    }
    const double ideal = settled_us([&] { one(work); }, 15);

    std::function<void()> run;
    cudaGraphExec_t graph = nullptr;
    if (how == "one") {
        run = [&] { one(work); };
    } else if (how == "streams") {
        run = [&] { spread(work); };
    } else if (how == "graph") {
        graph = forked(work);
        run = [&] { CHECK(cudaGraphLaunch(graph, work.streams[0])); };
    } else {
        std::fprintf(stderr, "--how=%s: one, streams or graph\n", how.c_str());
        return 2;
    }
    const double time = settled_us(run, 15);

    restore();
    (void)wall_us(run);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(found.data(), work.words, count * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    for (int k = 0; k < work.kernels; ++k) {
        for (const int lane : {0, THREADS - 1}) {
            const size_t at = static_cast<size_t>(k) * THREADS + lane;
            const uint32_t expected = xorshift(words[at], work.rounds);
            if (found[at] != expected) {
                wrong(how.c_str(), at, found[at], expected);
            }
        }
    }
    std::printf("one kernel of all %d blocks %.3f us, %.2f of them at a time\ntime %.3f us\n", work.kernels, ideal,
                work.kernels * ideal / time, time);
    return 0;
}
