// Mean filter 7, warp strips: a warp has a strip of columns to itself, the scans in registers, neighbours by shuffles.
//
// Changed against the ring that holds whole windows:
// - No barrier. A row's sums pass from lane to lane (6 shuffles for R = 3, 8 for R = 7), so that the warps of a block
//   have nothing to wait for. The price are halo lanes: 2 of 32 for R = 1 and 3, 4 for 7, 8 for 15, whose columns the
//   neighbouring warp reads too, from L2.
// - The scans are in registers. A group of 2R+1 rows is unrolled, so that each sum to the end of the group has a register
//   of its own, and the row that comes in takes that of the sum which was used last. Of shared memory a pixel costs 1 word
//   written by cp.async and 1 read, in place of 10, and a row about 75 instructions a warp, in place of 120. Before, warps
//   waited for shared memory, load by load, and for barriers, not for the DRAM.
// - Short strips, more than the chip holds at a time: multiprocessors do not get the same share of the memory's
//   bandwidth, and with one strip for each place the fast ones were idle at the end, a tenth of the time on average. Now
//   who is done takes the next.
// - Every second band of strips is walked upwards. Two bands that touch then read the 2R rows that both need at the same
//   time, both at their beginning or both at their end, so that one of them finds these in L2, however short the strips.
//
// - R = 1 and 3 write whole lines of 128 bytes: 96 columns a warp, though 120 would fit, so that no two warps, at different
//   times, write parts of one. Short strips, of 24 and 32 rows, and st.cs go with it, and for R = 3 a ring of 16 rows.
//
// Tile arithmetic: 4 warps a block, 128 columns a warp, of which 96 (R = 1, 3, 15) or 112 (7) are written: 384 or 448 B of a
// row. Of 32 lanes 26 (R = 1, 3) load anything. Registers for the sums: 12, 28, 60, 124 a thread; 10, 6, 4, 3 blocks an SM
// (R = 3: its rings leave room for 6; registers would for 7). Ring: 8 rows of 512 B a warp, 16 for R = 3 and 15, of which all
// but one are on their way: 114, 146, 56, 90 KiB an SM, where 23 cover the latency of the DRAM.
//
// What was tried on an H200 with 8192 x 8192, as shares of the copy's bandwidth. First one change at a time, against strips of
// 64 rows (R = 1, 3) or 96 (7, 15) by 120 columns (R = 1, 3), 112 (7) or 96 (15), a ring of 8 rows, plain stores:
//                R = 1    3      7      15
//   before       0.786  0.821  0.874  0.677
//   one way      0.782  0.806  0.835  0.716
//   32 rows      0.813  0.835  0.872  0.636
//   128 rows     0.764  0.800  0.824  0.663
//   ring of 4    0.785  0.812  0.879  0.739
//   ring of 16   0.813  0.830  0.872  0.832
//   st.cs        0.830  0.825  0.869  0.712
// So R = 15 has a ring of 16, and R = 7 is as before. Then, for R = 1 and 3, what won together, and other widths:
//   columns  rows   ring  stores   R = 1    3
//     120   64, 32    8   st.cs, plain   0.831  0.835   the best of each above
//     120     32      8   st.cs    0.852  0.847
//     120     32     16   st.cs    0.861  0.847
//     112   64, 32    8   st.cs, plain   0.831  0.835
//     112     32      8   plain    0.812  0.840
//     112     32      8   st.cs    0.855  0.847
//     112     24      8   st.cs    0.862  0.844
//     112     32     16   st.cs    0.856  0.845
//      96     32      8   st.cs    0.862  0.856
// And around the last one, in a third run:
//      96     32      8   st.cs    0.866  0.852
//      96     32     16   st.cs    0.870  0.856   as it is for R = 3
//      96     24      8   st.cs    0.878  0.854   as it is for R = 1
//      96     24     16   st.cs    0.876  0.856
//      96     48      8   st.cs    0.851  0.847
//      64     32      8   st.cs    0.870  0.852
// Recorded since: 0.871, 0.850, 0.866 and 0.827 for R = 1, 3, 7, 15. R = 7 with whole lines and st.cs: 0.851 where it has 0.878.
// - Short strips and marked stores pay together: for R = 1 from 0.786 to 0.813 or 0.830 alone, and to 0.852 both.
// - Whole pieces of 64 B in place of 7.5 (112 and 120 columns) change nothing; whole lines gain a little more than the same
//   code differs by (0.835 and 0.840 for R = 3), although a warp then writes a fifth less beside the same halo.
#include "async_copy.cuh"
#include "mean_filter.h"
#include "quads.cuh"
#include "strips.cuh"

// Rows of a strip at the most; 0: by radius.
#ifndef HEIGHT
#define HEIGHT 0
#endif
// Columns of a strip at the most, a multiple of 8; 0: by radius.
#ifndef WIDTH
#define WIDTH 0
#endif
// Rows of the ring, a power of two; all but one are on their way. 0: by radius.
#ifndef RING
#define RING 0
#endif
// Whether every second band is walked upwards.
#ifndef BOTH_WAYS
#define BOTH_WAYS 1
#endif
// Whether stores are marked to leave the caches first; -1: by radius.
#ifndef STREAM
#define STREAM -1
#endif

namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kWarpsWanted = 16;  // an SM, at least, if the image has as many

template <int R>
constexpr int blocks_wanted() {
    return R == 1 ? 8 : R == 3 ? 5 : R == 7 ? 4 : 3;
}

template <int R>
constexpr int most_rows() {
    return HEIGHT > 0 ? HEIGHT : R == 1 ? 24 : R == 3 ? 32 : 96;
}

template <int R>
constexpr int most_columns() {
    constexpr int kMost = 4 * (32 - 2 * filter::halo_quads<R>());
    constexpr int kWanted = WIDTH > 0 ? WIDTH : R < 7 ? 96 : kMost;
    return kWanted < kMost ? kWanted : kMost;
}

template <int R>
__host__ __device__ constexpr int ring_rows() {
    return RING > 0 ? RING : R == 3 || R == 15 ? 16 : 8;
}

template <int R>
__host__ __device__ constexpr bool streams() {
    return STREAM >= 0 ? STREAM != 0 : R < 7;
}

__device__ __forceinline__ float from_left(float value, int lanes) { return __shfl_up_sync(~0u, value, lanes); }
__device__ __forceinline__ float from_right(float value, int lanes) { return __shfl_down_sync(~0u, value, lanes); }

// filter::window_sums with the neighbours' parts from their lanes; what lanes of the halo get is of no use.
template <int R>
__device__ __forceinline__ float4 window_sums(float4 own) {
    if constexpr (R == 1) {
        const float left = from_left(own.w, 1), right = from_right(own.x, 1), middle = own.y + own.z;
        return make_float4(left + (own.x + own.y), own.x + middle, middle + own.w, (own.z + own.w) + right);
    } else {
        static_assert(R % 4 == 3, "windows that end in the same place of a quad");
        constexpr int kQuads = R / 4;
        const float first2 = own.x + own.y, last2 = own.z + own.w, quad = first2 + last2;
        float core = quad;
#pragma unroll
        for (int m = 1; m <= kQuads; ++m) core += from_left(quad, m) + from_right(quad, m);
        const float left1 = from_left(own.w, kQuads + 1), right1 = from_right(own.x, kQuads + 1);
        const float left2 = from_left(last2, kQuads + 1), right2 = from_right(first2, kQuads + 1);
        const float left3 = from_left(own.y + last2, kQuads + 1), right3 = from_right(first2 + own.z, kQuads + 1);
        return make_float4(core + left3, core + (left2 + right1), core + (left1 + right2), core + right3);
    }
}

// The rows of a strip as they come, the first R above it: each from a slot of the warp's ring, while the ring is filled.
template <int kSlots, bool kWhole>
struct Incoming {
    static constexpr int kAhead = kSlots - 1;
    static_assert(kSlots >= 2 && (kSlots & kAhead) == 0, "slots are found by masking");

    const float4 *own;     // the lane's place in slot 0
    uint32_t own_address;  // the same
    unsigned columns;      // of the lane's four, which the image has, a bit each
    const float *next;
    int pitch;
    int first, last;  // rows before and from here are outside of the image, or in no window
    int asked = 0;    // rows asked for

    __device__ __forceinline__ void ask() {
        const uint32_t to = own_address + (asked & kAhead) * (32 * 16);
        const bool exists = asked >= first && asked < last;
        if constexpr (kWhole) {
            ladder::copy_async_or_zero<16>(to, next, exists && columns != 0);
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                ladder::copy_async_or_zero<4>(to + 4 * e, next + e, exists && (columns >> e & 1) != 0);
        }
        ladder::commit_copies();
        ++asked;
        next += pitch;
    }
    __device__ __forceinline__ void begin() {
#pragma unroll 1
        while (asked < kAhead) ask();
    }
    __device__ __forceinline__ float4 take() {
        ask();  // it goes where the row was that was taken before
        ladder::wait_copies<kAhead>();
        return own[(asked & kAhead) * 32];  // of the ring's slots the next one is the oldest
    }
};

template <bool kStreams, bool kWhole>
__device__ __forceinline__ void store(float *to, unsigned columns, float4 quad) {
    if constexpr (kWhole) {
        if (columns == 0) return;
        if constexpr (kStreams)
            __stcs(reinterpret_cast<float4 *>(to), quad);
        else
            *reinterpret_cast<float4 *>(to) = quad;
    } else {
        if (columns & 1) to[0] = quad.x;
        if (columns & 2) to[1] = quad.y;
        if (columns & 4) to[2] = quad.z;
        if (columns & 8) to[3] = quad.w;
    }
}

// sums[i] becomes the sum of sums[i] to the last.
template <int kCount>
__device__ __forceinline__ void scan_up(float4 (&sums)[kCount]) {
#pragma unroll
    for (int i = kCount - 2; i >= 0; --i) sums[i] = filter::plus(sums[i], sums[i + 1]);
}

template <int R, bool kWhole>
__global__ void __launch_bounds__(kThreads, blocks_wanted<R>())
    mean(const float *__restrict__ x, float *__restrict__ y, int64_t H, int64_t W, filter::Strips strips) {
    constexpr int kSlots = ring_rows<R>(), kAhead = kSlots - 1;
    __shared__ float4 rings[kWarps][kSlots][32];
    constexpr int kWindow = 2 * R + 1, kHalo = filter::halo_quads<R>();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t strip = static_cast<int64_t>(blockIdx.x) * kWarps + warp, band = strip / strips.across;
    if (strip >= strips.blocks) return;
    const filter::Quad quad{(strip - band * strips.across) * strips.width + 4 * (lane - kHalo), W};
    unsigned columns = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) columns |= static_cast<unsigned>(quad.has(e)) << e;
    const int quads = strips.width / 4;
    const bool writes = lane >= kHalo && lane < kHalo + quads;
    if (lane >= kHalo + quads + kHalo) columns = 0;  // in no window of the strip
    const int64_t top = band * strips.height;
    const int rows = static_cast<int>(min(int64_t(strips.height), H - top));

    // Row k of the strip is the image's row top + k, or, upwards, top + rows - 1 - k: row `begin` + k of an image that
    // stands on its head.
    const bool upwards = BOTH_WAYS != 0 && band % 2 == 1;
    const int64_t begin = upwards ? H - top - rows : top;
    const int pitch = static_cast<int>(upwards ? -W : W);
    const int64_t origin = (upwards ? (H - 1) * W : 0) + quad.column;
    Incoming<kSlots, kWhole> incoming{&rings[warp][0][lane],
                                      ladder::shared_address(&rings[warp][0][lane]),
                                      columns,
                                      x + (origin + (begin - R) * pitch),
                                      pitch,
                                      static_cast<int>(begin < R ? R - begin : 0),
                                      static_cast<int>(min(int64_t(rows) + 2 * R, H - begin + R))};
    incoming.begin();

    const float4 across = quad.weights(R);
    float down = 0.0f;
    float *to = y + (origin + begin * pitch);
    const int whole_above = incoming.first;  // from here on the window has all rows above, and up to here all below:
    const int whole_below = static_cast<int>(min(int64_t(rows), H - 1 - R - begin));
    const auto put = [&](int row, float4 sum) {
        if (row <= whole_above || row > whole_below)
            down = 1.0f / static_cast<float>(kWindow - max(whole_above - row, 0) - max(row - whole_below, 0));
        const float4 sums = window_sums<R>(sum);
        if (writes)
            store<streams<R>(), kWhole>(to, columns,
                                        make_float4(sums.x * (across.x * down), sums.y * (across.y * down),
                                                    sums.z * (across.z * down), sums.w * (across.w * down)));
        to += pitch;
    };
    const auto row = [&] { return incoming.asked - kAhead - kWindow; };  // whose window ends with the row taken last

    float4 tails[kWindow];  // sums from a row of the group to its end; before that the rows themselves
#pragma unroll
    for (int i = 0; i < kWindow; ++i) tails[i] = incoming.take();
#pragma unroll 1
    while (true) {
        scan_up(tails);
        put(row(), tails[0]);
        float4 grows = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < kWindow; ++i) {  // row i of the next group comes
            if (row() + 1 >= rows) return;
            tails[i] = incoming.take();
            if (i == kWindow - 1) break;
            grows = filter::plus(grows, tails[i]);
            put(row(), filter::plus(tails[i + 1], grows));
        }
    }
}

template <int R>
cudaError_t run(const Args *args, int multiprocessors, cudaStream_t stream) {
    const auto strips = filter::strips_of(args->H, args->W, most_columns<R>(), int64_t(kWarpsWanted) * multiprocessors,
                                          2 * R + 1, most_rows<R>() > 2 * R + 1 ? most_rows<R>() : 2 * R + 1);
    const int64_t blocks = filter::ceil_div(strips.blocks, kWarps);
    if (blocks > INT32_MAX || args->W > INT32_MAX) return cudaErrorInvalidValue;
    const unsigned grid = static_cast<unsigned>(blocks);
    if (filter::whole_quads(args->x, args->y, args->W))
        mean<R, true><<<grid, kThreads, 0, stream>>>(args->x, args->y, args->H, args->W, strips);
    else
        mean<R, false><<<grid, kThreads, 0, stream>>>(args->x, args->y, args->H, args->W, strips);
    return cudaGetLastError();
}

// L1 has nothing to keep here: its memory is for the rings.
template <class... Kernels>
cudaError_t prefer_shared(Kernels... kernels) {
    cudaError_t status = cudaSuccess;
    for (const auto kernel : {kernels...})
        if (status == cudaSuccess)
            status = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                          cudaSharedmemCarveoutMaxShared);
    return status;
}

}  // namespace

extern "C" cudaError_t prepare(const Args *, void **plan) {
    int device = 0, multiprocessors = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = prefer_shared(mean<1, true>, mean<1, false>, mean<3, true>, mean<3, false>, mean<7, true>,
                               mean<7, false>, mean<15, true>, mean<15, false>);
    if (status == cudaSuccess) *plan = new int(multiprocessors);
    return status;
}

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    const int multiprocessors = *static_cast<const int *>(plan);
    switch (args->R) {
        case 1:
            return run<1>(args, multiprocessors, stream);
        case 3:
            return run<3>(args, multiprocessors, stream);
        case 7:
            return run<7>(args, multiprocessors, stream);
        case 15:
            return run<15>(args, multiprocessors, stream);
        default:
            return cudaErrorInvalidValue;
    }
}

extern "C" void destroy(void *plan) { delete static_cast<int *>(plan); }
