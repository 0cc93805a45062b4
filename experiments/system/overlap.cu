// Copies beside kernels: words go to the GPU, are worked on there, and come back, in several ways.
//
//   overlap --how=streams --streams=3 --chunks=16 --memory=pinned --words=67108864
//
// The work is made about as long as the copy to the GPU, so that all three parts matter. What is possible is known from
// the parts alone: the longest of the three, and one chunk of the two others, which fill and drain the pipeline.
// --how=ideal prints that. --how=both copies in both directions at once, without a kernel; --how=both_ideal is the longer
// of the two directions alone.
#include "common.cuh"

constexpr int THREADS = 256;
constexpr int MOST_STREAMS = 8;

__global__ void work_on(const uint32_t *in, uint32_t *out, long count, int rounds) {
    const long stride = static_cast<long>(gridDim.x) * THREADS;
    for (long i = blockIdx.x * static_cast<long>(THREADS) + threadIdx.x; i < count; i += stride) {
        out[i] = xorshift(in[i], rounds);
    }
}

struct Job {
    long words;
    int chunks, streams, rounds, blocks;
    uint32_t *host_in, *host_out, *in, *out;
    cudaStream_t stream[MOST_STREAMS];
    std::vector<cudaEvent_t> arrived, worked;

    long begin(int chunk) const { return words * chunk / chunks; }
    long count(int chunk) const { return begin(chunk + 1) - begin(chunk); }
};

static void to_gpu(const Job &job, int chunk, cudaStream_t stream) {
    const long at = job.begin(chunk);
    CHECK(cudaMemcpyAsync(job.in + at, job.host_in + at, job.count(chunk) * sizeof(uint32_t), cudaMemcpyHostToDevice,
                          stream));
}

static void work(const Job &job, int chunk, cudaStream_t stream) {
    const long at = job.begin(chunk);
    work_on<<<job.blocks, THREADS, 0, stream>>>(job.in + at, job.out + at, job.count(chunk), job.rounds);
}

static void from_gpu(const Job &job, int chunk, cudaStream_t stream) {
    const long at = job.begin(chunk);
    CHECK(cudaMemcpyAsync(job.host_out + at, job.out + at, job.count(chunk) * sizeof(uint32_t), cudaMemcpyDeviceToHost,
                          stream));
}

// Chunk after chunk, each through its three parts in one stream; chunks of other streams run beside it.
static void by_chunk(const Job &job) {
    for (int c = 0; c < job.chunks; ++c) {
        const cudaStream_t stream = job.stream[c % job.streams];
        to_gpu(job, c, stream);
        work(job, c, stream);
        from_gpu(job, c, stream);
    }
}

// A stream for each part, and events that hand the chunks on.
static void by_part(const Job &job) {
    for (int c = 0; c < job.chunks; ++c) {
        to_gpu(job, c, job.stream[0]);
        CHECK(cudaEventRecord(job.arrived[c], job.stream[0]));
        CHECK(cudaStreamWaitEvent(job.stream[1], job.arrived[c]));
        work(job, c, job.stream[1]);
        CHECK(cudaEventRecord(job.worked[c], job.stream[1]));
        CHECK(cudaStreamWaitEvent(job.stream[2], job.worked[c]));
        from_gpu(job, c, job.stream[2]);
    }
}

static void both_directions(const Job &job) {
    for (int c = 0; c < job.chunks; ++c) {
        to_gpu(job, c, job.stream[0]);
        from_gpu(job, c, job.stream[1]);
    }
}

int main(int argc, char **argv) {
    const std::string how = argument(argc, argv, "how", "streams");
    const std::string memory = argument(argc, argv, "memory", "pinned");
    Job job{};
    job.words = number(argc, argv, "words", 1L << 26);
    job.chunks = static_cast<int>(number(argc, argv, "chunks", 16));
    job.streams = static_cast<int>(number(argc, argv, "streams", 3));
    if (job.streams < 1 || job.streams > MOST_STREAMS || job.chunks < 1 || job.words < job.chunks) {
        std::fprintf(stderr, "--streams: 1 to %d; --chunks: 1 to --words\n", MOST_STREAMS);
        return 2;
    }
    int device, processors;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    job.blocks = processors * 8;
    const size_t bytes = job.words * sizeof(uint32_t);
    if (memory == "pinned") {
        CHECK(cudaMallocHost(&job.host_in, bytes));
        CHECK(cudaMallocHost(&job.host_out, bytes));
    } else if (memory == "pageable") {
        job.host_in = static_cast<uint32_t *>(std::malloc(bytes));
        job.host_out = static_cast<uint32_t *>(std::malloc(bytes));
    } else {
        std::fprintf(stderr, "--memory=%s: pinned or pageable\n", memory.c_str());
        return 2;
    }
    if (job.host_in == nullptr || job.host_out == nullptr) {
        std::fprintf(stderr, "no memory for %zu bytes\n", bytes);
        return 2;
    }
    for (long i = 0; i < job.words; ++i) {
        job.host_in[i] = first_word(i);
    }
    std::memset(job.host_out, 0, bytes);
    CHECK(cudaMalloc(&job.in, bytes));
    CHECK(cudaMalloc(&job.out, bytes));
    for (cudaStream_t &stream : job.stream) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    for (int c = 0; c < job.chunks; ++c) {
        cudaEvent_t arrived, worked;
        CHECK(cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&worked, cudaEventDisableTiming));
        job.arrived.push_back(arrived);
        job.worked.push_back(worked);
    }

    // The parts alone, whole, in one stream; the rounds of the work from the time of the copy.
    Job whole = job;
    whole.chunks = 1;
    CHECK(cudaMemcpy(job.in, job.host_in, bytes, cudaMemcpyHostToDevice));
    const double h2d = settled_us([&] { to_gpu(whole, 0, job.stream[0]); }, 11);
    const double d2h = settled_us([&] { from_gpu(whole, 0, job.stream[0]); }, 11);
    double kernel = 0.0;
    whole.rounds = static_cast<int>(number(argc, argv, "rounds", 0));
    if (whole.rounds == 0) {
        whole.rounds = 64;
        for (int again = 0; again < 2; ++again) {
            kernel = settled_us([&] { work(whole, 0, job.stream[0]); }, 5);
            whole.rounds = std::max(1, static_cast<int>(whole.rounds * 0.9 * h2d / kernel));
        }
    }
    job.rounds = whole.rounds;
    kernel = settled_us([&] { work(whole, 0, job.stream[0]); }, 11);
    const double longest = std::max({h2d, kernel, d2h});
    const double ideal = longest + (h2d + kernel + d2h - longest) / job.chunks;

    std::function<void()> run;
    double time = 0.0;
    if (how == "serial") {
        run = [&] { by_chunk(whole); };
    } else if (how == "streams") {
        run = [&] { by_chunk(job); };
    } else if (how == "events") {
        run = [&] { by_part(job); };
    } else if (how == "both") {
        run = [&] { both_directions(job); };
    } else if (how == "ideal") {
        time = ideal;
    } else if (how == "both_ideal") {
        time = std::max(h2d, d2h);
    } else {
        std::fprintf(stderr, "--how=%s: serial, streams, events, ideal, both or both_ideal\n", how.c_str());
        return 2;
    }
    if (run) {
        time = settled_us(run, 11);
        std::memset(job.host_out, 0, bytes);
        CHECK(cudaMemset(job.in, 0, bytes));
        if (how == "both") {  // what comes back was there before, and what goes out is read back
            CHECK(cudaMemset(job.out, 0x5a, bytes));
        } else {
            CHECK(cudaMemset(job.out, 0, bytes));
        }
        (void)wall_us(run);
        CHECK(cudaGetLastError());
        // Ends of chunks are where a wrong offset shows; and some thousand places between.
        std::vector<long> places;
        for (int c = 0; c < job.chunks; ++c) {
            places.push_back(job.begin(c));
            places.push_back(job.begin(c + 1) - 1);
        }
        for (long i = 0; i < 4096; ++i) {
            places.push_back(job.words * i / 4096);
        }
        std::vector<uint32_t> sent;
        if (how == "both") {
            sent.resize(job.words);
            CHECK(cudaMemcpy(sent.data(), job.in, bytes, cudaMemcpyDeviceToHost));
        }
        for (const long place : places) {
            const uint32_t first = first_word(place);
            const uint32_t expected = how == "both" ? 0x5a5a5a5au : xorshift(first, job.rounds);
            if (job.host_out[place] != expected) {
                wrong(how.c_str(), place, job.host_out[place], expected);
            }
            if (how == "both" && sent[place] != first) {
                wrong("both, to the GPU", place, sent[place], first);
            }
        }
    }
    std::printf(
        "to the GPU %.1f us, work %.1f us (%d rounds), back %.1f us, ideal of %d chunks %.1f us\ntime %.3f us\n", h2d,
        kernel, job.rounds, d2h, job.chunks, ideal, time);
    return 0;
}
