// What a launch costs: L steps of work, one after the other, each so long, handed to the GPU in several ways.
//
//   launch_overhead --how=loop --launches=1000 --ns=2000
//
// Every step reads its words, works on them and writes them back, as a kernel does that continues another one's work.
// --how=fused does all steps in one kernel and keeps its words in registers: the ideal that the others are held against.
// Prints the time per step; what it exceeds the fused one by is the overhead of a launch.
#include "common.cuh"

constexpr int THREADS = 128;
constexpr int STREAMS = 4;

__global__ void step(uint32_t *words, int rounds) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    words[i] = xorshift(words[i], rounds);
}

// The same, for programmatic dependent launch: the next grid may be set up as soon as all blocks of this one have
// begun, and waits where it would touch what this one writes.
__global__ void step_dependent(uint32_t *words, int rounds) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    words[i] = xorshift(words[i], rounds);
}

__global__ void fused(uint32_t *words, int rounds, int steps) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    uint32_t x = words[i];
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        x = xorshift(x, rounds);
    }
    words[i] = x;
}

// Blocks that stay and take (step, part) from a queue, in the order of the steps. A part's step waits until the step
// before it is done; that one was taken earlier, by a block that is running, so nothing waits for ever.
__global__ void persistent(uint32_t *words, int rounds, int steps, int parts, uint32_t *next, uint32_t *done) {
    __shared__ uint32_t item;
    const uint32_t items = static_cast<uint32_t>(steps) * parts;
    for (;;) {
        if (threadIdx.x == 0) {
            item = atomicAdd(next, 1u);
        }
        __syncthreads();
        const uint32_t mine = item;
        if (mine >= items) {
            return;
        }
        const uint32_t part = mine % parts, number = mine / parts;
        if (threadIdx.x == 0) {
            uint32_t reached;
            do {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(reached) : "l"(done + part) : "memory");
            } while (reached != number);
        }
        __syncthreads();
        volatile uint32_t *word = words + part * THREADS + threadIdx.x;
        *word = xorshift(*word, rounds);
        __threadfence();
        __syncthreads();  // all words are written, and `item` has been read, before either is touched again
        if (threadIdx.x == 0) {
            asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(done + part), "r"(number + 1) : "memory");
        }
    }
}

struct Work {
    int blocks, rounds, launches;
    uint32_t *words, *queue;  // the queue: the next item, then the steps done of each part
    cudaStream_t streams[STREAMS];
    cudaGraphExec_t graph = nullptr;
};

static void launch(const Work &work, cudaStream_t stream, uint32_t *words) {
    step<<<work.blocks, THREADS, 0, stream>>>(words, work.rounds);
}

static void loop(const Work &work) {
    for (int i = 0; i < work.launches; ++i) {
        launch(work, work.streams[0], work.words);
    }
}

// The same number of launches by turns in four streams, each with words of its own: four chains side by side.
static void side_by_side(const Work &work) {
    for (int i = 0; i < work.launches; ++i) {
        const int s = i % STREAMS;
        launch(work, work.streams[s], work.words + static_cast<size_t>(s) * work.blocks * THREADS);
    }
}

static void dependent(const Work &work) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = work.blocks;
    config.blockDim = THREADS;
    config.stream = work.streams[0];
    config.attrs = &attribute;
    config.numAttrs = 1;
    for (int i = 0; i < work.launches; ++i) {
        CHECK(cudaLaunchKernelEx(&config, step_dependent, work.words, work.rounds));
    }
}

static cudaGraphExec_t captured(const Work &work) {
    cudaGraph_t graph;
    cudaGraphExec_t made;
    CHECK(cudaStreamBeginCapture(work.streams[0], cudaStreamCaptureModeThreadLocal));
    loop(work);
    CHECK(cudaStreamEndCapture(work.streams[0], &graph));
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    CHECK(cudaGraphUpload(made, work.streams[0]));
    CHECK(cudaGraphDestroy(graph));
    return made;
}

static void all_in_one(const Work &work) {
    fused<<<work.blocks, THREADS, 0, work.streams[0]>>>(work.words, work.rounds, work.launches);
}

static void queued(const Work &work) {
    CHECK(cudaMemsetAsync(work.queue, 0, (1 + work.blocks) * sizeof(uint32_t), work.streams[0]));
    persistent<<<work.blocks, THREADS, 0, work.streams[0]>>>(work.words, work.rounds, work.launches, work.blocks,
                                                             work.queue, work.queue + 1);
}

int main(int argc, char **argv) {
    const std::string how = argument(argc, argv, "how", "loop");
    const long ns = number(argc, argv, "ns", 2000);
    Work work{};
    work.launches = static_cast<int>(number(argc, argv, "launches", 1000));
    int device, processors;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    work.blocks = processors;
    const int count = work.blocks * THREADS, chains = how == "streams" ? STREAMS : 1;
    CHECK(cudaMalloc(&work.words, sizeof(uint32_t) * count * STREAMS));
    CHECK(cudaMalloc(&work.queue, sizeof(uint32_t) * (1 + work.blocks)));
    for (cudaStream_t &stream : work.streams) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    std::vector<uint32_t> words(static_cast<size_t>(count) * STREAMS);
    for (size_t i = 0; i < words.size(); ++i) {
        words[i] = first_word(i);
    }
    const auto restore = [&] {
        CHECK(cudaMemcpy(work.words, words.data(), words.size() * sizeof(uint32_t), cudaMemcpyHostToDevice));
    };
    restore();

    // How many rounds take as long as a step should, by the fused kernel, twice: at first the clock is still low.
    work.rounds = 1000;
    for (int again = 0; again < 2; ++again) {
        const double each = settled_us([&] { all_in_one(work); }, 5) / work.launches;
        work.rounds = std::max(1, static_cast<int>(work.rounds * (ns * 1e-3) / each + 0.5));
    }
    const double kernel = settled_us([&] { all_in_one(work); }, 15) / work.launches;

    std::function<void()> run;
    if (how == "loop") {
        run = [&] { loop(work); };
    } else if (how == "streams") {
        run = [&] { side_by_side(work); };
    } else if (how == "dependent") {
        run = [&] { dependent(work); };
    } else if (how == "graph") {
        work.graph = captured(work);
        run = [&] { CHECK(cudaGraphLaunch(work.graph, work.streams[0])); };
    } else if (how == "fused") {
        run = [&] { all_in_one(work); };
    } else if (how == "persistent") {
        run = [&] { queued(work); };
    } else {
        std::fprintf(stderr, "--how=%s: loop, streams, dependent, graph, fused or persistent\n", how.c_str());
        return 2;
    }
    const double each = settled_us(run, 15) / work.launches;

    restore();
    (void)wall_us(run);
    CHECK(cudaGetLastError());
    std::vector<uint32_t> found(words.size());
    CHECK(cudaMemcpy(found.data(), work.words, found.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    for (int chain = 0; chain < chains; ++chain) {
        const int steps = work.launches / chains + (chain < work.launches % chains);
        for (const int place : {0, 1, THREADS, count / 2, count - 1}) {  // a chain takes milliseconds on the host
            const size_t at = static_cast<size_t>(chain) * count + place;
            uint32_t expected = words[at];
            for (int s = 0; s < steps; ++s) {
                expected = xorshift(expected, work.rounds);
            }
            if (found[at] != expected) {
                wrong(how.c_str(), at, found[at], expected);
            }
        }
    }
    std::printf("work %.4f us, overhead %.4f us\nper launch %.4f us\n", kernel, each - kernel, each);
    return 0;
}
